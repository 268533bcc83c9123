"""Parse YAML of plain values within bounds: no code, no repeated keys, nothing that grows without end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import yaml

_MOST_LEVELS = 50  # some releases of the C parser crash the process on values that are nested too deeply
_MOST_REPEATED = 1_000_000  # characters that aliases repeat
_TOO_LONG = "a whole number has thousands of digits; expected one that a setting can have"
# The pure Python loader takes many seconds on a plan that changes at every step.
_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(content: bytes | str) -> Any:
    """Parse YAML of plain values: no Python tags, no repeated key in a mapping, at most 50 levels.

    Raises:
        ValueError: if it is anything else; the message says what and where, and fits after the file's name.
    """
    return _parse(content, _UniqueKeyLoader)


def parse_settings(content: bytes | str) -> Any:
    """Parse YAML as :func:`parse_yaml` does, with the booleans of YAML 1.2: ``off``, ``no`` and the like are words.

    Raises:
        ValueError: as :func:`parse_yaml` does.
    """
    return _parse(content, _SettingsLoader)


def _parse(content: bytes | str, loader: type[_UniqueKeyLoader]) -> Any:
    try:
        _check_levels(content)
        return yaml.load(content, Loader=loader)  # derived from a safe loader
    except ValueError as error:
        raise ValueError(_TOO_LONG if "integer string conversion" in str(error) else str(error)) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except (RecursionError, OverflowError) as error:
        raise ValueError(f"a value cannot be read ({error}); expected plain values") from None


def _check_levels(content: bytes | str) -> None:
    """Refuse values that are nested too deeply, or that grow without end where a name stands for them."""
    sizes = _AnchorSizes()
    try:
        for event in yaml.parse(content, Loader=_SAFE_LOADER):
            sizes.add(event)
            if len(sizes.open) > _MOST_LEVELS:
                _refuse_levels(event.start_mark)
    except yaml.MarkedYAMLError as error:
        # The scanner of PyYAML 6.0.4 has its own limit, and reads ahead of the parser.
        if "maximum nesting depth" in f"{error.context} {error.problem}":
            _refuse_levels(error.problem_mark)
        raise


def _refuse_levels(mark: Any) -> NoReturn:  # a mark of the C or the Python parser; None if unknown
    line = mark.line + 1 if mark else 0
    raise ValueError(f"line {line}: values are nested too deeply; expected at most {_MOST_LEVELS} levels")


class _AnchorSizes:
    """Counts what aliases repeat: a few lines of YAML may stand for billions of values."""

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self._named: dict[str, _Open] = {}
        self._repeated = 0

    def add(self, event: Any) -> None:
        """Count a parser's event; raise ValueError if its aliases repeat too much, or a value holds itself."""
        if isinstance(event, yaml.CollectionStartEvent):
            self.open.append(_Open(event.anchor))
        elif isinstance(event, yaml.ScalarEvent):
            self._close(_Open(event.anchor, 1 + len(event.value)))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(self.open.pop())
        elif isinstance(event, yaml.AliasEvent):
            self._repeat(event)

    def _close(self, node: _Open) -> None:
        if node.anchor is not None:
            self._named[node.anchor] = node
        if self.open:
            self.open[-1].size += node.size
            self.open[-1].height = max(self.open[-1].height, node.height + 1)

    def _repeat(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if any(node.anchor == event.anchor for node in self.open):
            raise ValueError(f"line {line}: *{event.anchor} stands inside the value that it names; expected no cycle")
        named = self._named.get(event.anchor)
        if named is None:  # the loader says that it is not defined
            return
        self._repeated += named.size
        if self._repeated > _MOST_REPEATED or len(self.open) + named.height > _MOST_LEVELS:
            raise ValueError(
                f"line {line}: names such as *{event.anchor} stand for too much; expected at most "
                f"{_MOST_REPEATED:,} repeated characters and {_MOST_LEVELS} levels. Write the values out"
            )
        self.open[-1].size += named.size
        self.open[-1].height = max(self.open[-1].height, named.height + 1)


@dataclass
class _Open:
    """A value of a YAML file with its size in characters and its levels, those behind aliases included."""

    anchor: str | None
    size: int = 1
    height: int = 0


class _UniqueKeyLoader(_SAFE_LOADER):  # type: ignore[misc]
    """A loader that rejects a mapping with a repeated key, of which YAML would silently take the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: dict[str, int] = {}
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            line = key.start_mark.line + 1
            if key.value in seen:
                raise ValueError(
                    f"line {line}: {key.value!r} is given twice, first in line {seen[key.value]}; expected it once"
                )
            seen[key.value] = line
        return super().construct_mapping(node, deep)


class _SettingsLoader(_UniqueKeyLoader):
    """Reads ``true`` and ``false`` alone as booleans: ``off`` is a value of a setting, and ``no`` a language."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, Any]]]] = {
        first: [(tag, form) for tag, form in forms if first in "tTfF" or tag != "tag:yaml.org,2002:bool"]
        for first, forms in _SAFE_LOADER.yaml_implicit_resolvers.items()
    }
