"""Hold the imports between packages to the order that CONTRIBUTING.md gives: each package imports from later steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.parsed import ROOT, inner_statements, trees

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def steps() -> dict[str, int]:
    """Return each package and each module outside of a package with its step, counted from the top."""
    (line,) = (line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("`cli → "))
    return {name: step for step, names in enumerate(line.strip("`").split(" → ")) for name in names.split(", ")}


def packages() -> set[str]:
    """Return the names below ``gradgate``; the package itself imports only names that are loaded later."""
    found = (path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file())
    return {name for name in found if not name.startswith("__")}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield what a module imports, also inside of functions, but not for type checkers alone."""
    for node in inner_statements(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def test_every_package_has_a_step() -> None:
    assert set(steps()) == packages()


def test_imports_go_to_later_steps() -> None:
    order, wrong = steps(), []
    for name in order:
        own = [file for file in trees() if file.relative_to(ROOT).parts[0] in (name, f"{name}.py")]
        assert own, name
        for file in own:
            for target in imported(trees()[file]):
                top, _, rest = target.partition(".")
                other = rest.partition(".")[0]
                if top == "gradgate" and other in order and other != name and order[other] <= order[name]:
                    wrong.append(f"{file.relative_to(ROOT)} imports {target}")
    assert not wrong, "These go up or aside in the order of CONTRIBUTING.md.\n" + "\n".join(wrong)


def test_every_package_is_in_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert {name for name in folders if f"`{name}/`" not in page} == set()
