"""Move modules of the package and rewrite every import and mention of them, from a table.

A table is a YAML mapping of old to new dotted names below ``gradgate``, such as ``training.config: settings.run``. The
name of a package moves all of its modules. Run ``python tools/move_modules.py TABLE.yaml``, then ``ruff check --fix``
and ``ruff format``, which sort the imports.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "gradgate"
FOLDERS = ("src", "tests", "docs", "benchmarks", "evidence", "tools")
SUFFIXES = (".py", ".md", ".toml", ".yaml", ".rst", ".txt", ".cfg", ".html", ".ipynb")


def main(table: Path) -> None:
    """Move the modules of a table and rewrite the files that name them."""
    moves = _modules(yaml.safe_load(table.read_text(encoding="utf-8")))
    for old, new in moves.items():
        _move(_file(old), _file(new))
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in SUFFIXES]
    for file in [*files, *ROOT.glob("*.md"), ROOT / "pyproject.toml"]:
        if "_build" in file.parts or file == table:
            continue
        text = file.read_text(encoding="utf-8")
        changed = rewritten(text, moves)
        if changed != text:
            file.write_text(changed, encoding="utf-8")


def rewritten(text: str, moves: dict[str, str]) -> str:
    """Return a text in which dotted names, ``from package import module`` and paths of files name the new places.

    Args:
        text: of a source file or a page.
        moves: old to new module, dotted and below ``gradgate``.
    """
    oldest_last = sorted(moves, key=len, reverse=True)
    dotted = re.compile(r"\bgradgate\.(" + "|".join(map(re.escape, oldest_last)) + r")(?![\w])(?!\.py)")
    text = re.sub(r"(?m)^(\s*)from (gradgate(?:\.\w+)*) import ([^(\n]+)$", lambda m: _from_package(m, moves), text)
    text = dotted.sub(lambda match: f"gradgate.{moves[match[1]]}", text)
    paths = {f"{old.replace('.', '/')}.py": f"{new.replace('.', '/')}.py" for old, new in moves.items()}
    named = re.compile(
        r"(?<![\w])(" + "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True)) + r")\b"
    )
    return named.sub(lambda match: paths[match[1]], text)


def _from_package(match: re.Match[str], moves: dict[str, str]) -> str:
    """Split ``from gradgate.a import b, c`` by where its modules are now; names that are not modules stay."""
    indent, package, names = match.groups()
    prefix = package.removeprefix("gradgate").lstrip(".")
    stay, lines = [], []
    for part in names.split(","):
        name, _, alias = (word.strip() for word in part.partition(" as "))
        old = f"{prefix}.{name}" if prefix else name
        if old not in moves:
            stay.append(part.strip())
            continue
        home, _, module = moves[old].rpartition(".")
        called = alias or name
        lines.append(
            f"{indent}from gradgate{'.' if home else ''}{home} import {module}"
            + (f" as {called}" if called != module else "")
        )
    if not lines:
        return match[0]
    if stay:
        lines.insert(0, f"{indent}from {package} import {', '.join(stay)}")
    return "\n".join(lines)


def _modules(table: dict[str, str]) -> dict[str, str]:
    """Expand packages of a table into their modules."""
    moves: dict[str, str] = {}
    for old, new in table.items():
        folder = SOURCE / old.replace(".", "/")
        if not folder.is_dir() or _file(old).exists():
            moves[old] = new
            continue
        for file in sorted(folder.rglob("*.py")):
            name = ".".join(file.relative_to(folder).with_suffix("").parts)
            if name != "__init__":
                moves.setdefault(f"{old}.{name}", f"{new}.{name}")
        moves[old] = new
    return moves


def _file(module: str) -> Path:
    return SOURCE / f"{module.replace('.', '/')}.py"


def _move(old: Path, new: Path) -> None:
    if not old.exists():
        return
    for package in reversed([folder for folder in new.parents if SOURCE in folder.parents]):
        package.mkdir(exist_ok=True)
        if not (package / "__init__.py").exists():
            (package / "__init__.py").write_text("", encoding="utf-8")
            subprocess.run(["git", "add", str(package / "__init__.py")], cwd=ROOT, check=True)
    subprocess.run(["git", "mv", str(old), str(new)], cwd=ROOT, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
