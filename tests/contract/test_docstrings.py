"""Hold docstrings to one form: those of functions begin with a verb, those of classes and properties say what it is."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from support.parsed import ROOT, inner_statements, trees

VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text(encoding="utf-8").split())
WITHOUT_SUBJECT = re.compile("About|As|At|Because|By|For|From|How|If|In|Its|Of|On|Their|What|When|Where|Which|Why|With")
Documented = ast.FunctionDef | ast.ClassDef


def docstrings(covered: Callable[[Documented], bool]) -> Iterator[tuple[str, str]]:
    """Yield each function or class that is covered, as ``file:name``, with the first word of its docstring."""
    for file, node in documented():
        text = ast.get_docstring(node)
        if text and covered(node):
            yield f"{file.relative_to(ROOT).as_posix()}:{node.name}", text.split()[0].strip("`.,:;")


@cache
def documented() -> list[tuple[Path, Documented]]:
    """All functions and classes of the package, with their files."""
    return [(file, node) for file, tree in trees().items() for node in statements(tree) if isinstance(node, Documented)]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements in a node; classes and functions are in no expression."""
    for inner in inner_statements(node):
        yield inner
        yield from statements(inner)


def is_value(node: Documented) -> bool:
    """Return True for a class and a property."""
    return isinstance(node, ast.ClassDef) or any(map(is_property, node.decorator_list))


def is_property(decorator: ast.expr) -> bool:
    """Return True for ``property``, ``cached_property`` and setters of one."""
    return getattr(decorator, "id", getattr(decorator, "attr", "")) in ("property", "cached_property", "setter")


def test_docstrings_begin_with_a_verb() -> None:
    wrong = [f"{where}: {word}" for where, word in docstrings(lambda node: not is_value(node)) if word not in VERBS]
    assert not wrong, (
        "Begin the docstring of a function with a verb, such as Return or Check. If the word is one, add it to "
        "tests/contract/verbs.txt.\n" + "\n".join(wrong)
    )


def test_docstrings_of_classes_and_properties_say_what_the_value_is() -> None:
    wrong = [f"{where}: {word}" for where, word in docstrings(is_value) if WITHOUT_SUBJECT.fullmatch(word)]
    assert not wrong, (
        "Begin the docstring of a class or a property with a noun, such as The number of seeds, with Whether, or with "
        "a verb.\n" + "\n".join(wrong)
    )
