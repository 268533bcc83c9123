"""The modules of the package as syntax trees, parsed once per process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gradgate import __file__ as package

ROOT = Path(package).parent


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the tree of each file of the package."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(ROOT.rglob("*.py"))}


def inner_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node, and not what is in theirs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.excepthandler | ast.match_case):
            yield from inner_statements(child)
