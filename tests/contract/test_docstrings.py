"""Hold the docstrings of functions to one form: the first word is a verb."""

import ast
from collections.abc import Iterator
from pathlib import Path

from gradgate import __file__ as package

ROOT = Path(package).parent
VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text(encoding="utf-8").split())


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield each function that is not a property, as ``file:name``, with the first word of its docstring."""
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and not any(map(is_property, node.decorator_list)):
                text = ast.get_docstring(node)
                if text:
                    yield f"{file.relative_to(ROOT)}:{node.name}", text.split()[0].strip("`.,:;")


def is_property(decorator: ast.expr) -> bool:
    """Return True for ``property``, ``cached_property`` and setters of one."""
    return getattr(decorator, "id", getattr(decorator, "attr", "")) in ("property", "cached_property", "setter")


def test_docstrings_begin_with_a_verb() -> None:
    wrong = [f"{where}: {word}" for where, word in docstrings() if word not in VERBS]
    assert not wrong, (
        "Begin the docstring of a function with a verb, such as Return or Check. If the word is one, add it to "
        "tests/contract/verbs.txt.\n" + "\n".join(wrong)
    )
