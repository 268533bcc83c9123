"""Train the weights that an axolotl configuration names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from gradgate.errors import MethodError, nearest
from gradgate.files import from_here, read_bytes
from gradgate.layers import LayerMap
from gradgate.layers.patterns import NamePattern
from gradgate.layers.selectors import Rows, Selection, select, union
from gradgate.methods.fixed import Fixed, groups_of
from gradgate.places import typed_place
from gradgate.plain_yaml import parse_yaml
from gradgate.specs import shown

_ROWS = re.compile(r"(.+)\[([0-9]{,15})(:?)([0-9]{,15})\]")


@dataclass(frozen=True, kw_only=True)
class AxolotlFile(Fixed):
    """Train what ``unfrozen_parameters`` of an axolotl configuration names, and nothing else.

    As in axolotl, a pattern is a regular expression, matched from the start of a parameter's name, in which a dot is a
    dot unless a ``+`` follows it. ``PATTERN[a:b]`` opens only these rows, even if another pattern without rows matches
    the same name.

    Args:
        file: the YAML file, as ``axolotl:FILE`` names it on the command line.
        patterns: what the file says.
    """

    name: ClassVar[str] = "axolotl"
    summary: ClassVar[str] = "only the unfrozen_parameters of an axolotl configuration learn"
    source: ClassVar[str] = "axolotl's utils/freeze.py: https://github.com/axolotl-ai-cloud/axolotl"

    file: str
    patterns: tuple[str, ...]

    def check(self, layers: LayerMap) -> None:
        self.selection(layers)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return groups_of(self.selection(layers), layers)

    def selection(self, layers: LayerMap) -> Selection:
        every = select(layers, "/".join(name for name in ("embeddings", "layers", "head") if _has(layers, name)))
        matched, rows = set[str](), dict[str, Rows]()
        for pattern in self.patterns:
            ranged = _ROWS.fullmatch(pattern)
            text = ranged[1] if ranged else pattern
            names = _matching(text, every.names, self.file)
            if not names:
                raise MethodError(
                    f"{self.file}: {pattern!r} matches no parameter of {layers.model}.{nearest(text, every.names)} "
                    f"Expected a pattern that matches from the start of a name, such as ^{every.names[0]}$. As in "
                    "axolotl, a dot is a dot, and only .+ stands for any characters."
                )
            matched.update(names)
            if ranged is None:
                continue
            for name in names:
                size = every.shapes[name][0] if every.shapes[name] else 1
                rows[name] = union(rows.get(name, ()), (_range(ranged, size, pattern, self.file),))
        kept = {name: rows.get(name, every.rows[name]) for name in every.names if name in matched}
        return Selection(self.spec, kept, {name: every.shapes[name] for name in kept})

    @property
    def spec(self) -> str:
        return f"{self.name}:{self.file}"

    @property
    def fingerprint(self) -> str:
        return f"{self.spec}@{sha256(json.dumps(self.patterns).encode()).hexdigest()[:16]}"


_CHANGES_THE_MODEL = ("adapter", "load_in_4bit", "load_in_8bit", "lora_modules_to_save", "peft", "relora")


def read_axolotl(file: str) -> AxolotlFile:
    """Return the method of an axolotl configuration.

    Raises:
        MethodError: if the file cannot be read or names no parameters.
    """
    file = typed_place(file)
    try:
        record = parse_yaml(read_bytes(Path(file)))
    except OSError as error:
        raise MethodError(
            f"The configuration {shown(file)} cannot be read: {error.strerror or error}. Expected axolotl:FILE with "
            f"the path of an axolotl configuration.{from_here(file)}"
        ) from None
    except ValueError as error:
        raise MethodError(f"{file} is not a configuration: {error}. Expected YAML with unfrozen_parameters.") from None
    patterns = record.get("unfrozen_parameters") if isinstance(record, dict) else None
    if not isinstance(patterns, list) or not patterns or not all(isinstance(item, str) for item in patterns):
        raise MethodError(
            f"{file} has unfrozen_parameters={patterns!r:.80}; expected a list of patterns. Without one, axolotl "
            f"trains everything: use the method full."
        )
    for name in _CHANGES_THE_MODEL:
        if isinstance(record, dict) and record.get(name):
            raise MethodError(
                f"{file} has {name}: {record[name]!r:.40}, with which axolotl trains an adapter or quantized "
                f"weights; this method trains the weights that unfrozen_parameters lists. Remove {name} from the "
                f"file; for an adapter, pass adapter='lora:r=8'."
            )
    return AxolotlFile(file=file, patterns=tuple(patterns))


def _has(layers: LayerMap, name: str) -> bool:
    return bool(layers.layers) if name == "layers" else name in layers


def _matching(pattern: str, names: Iterable[str], file: str) -> list[str]:
    try:
        return NamePattern(re.sub(r"\.(?!\+)", r"\\.", pattern)).matches(names, whole=False)
    except ValueError as error:
        raise MethodError(f"{file}: {shown(pattern)} {error}. Expected one for the names of parameters.") from None


def _range(found: re.Match[str], size: int, pattern: str, file: str) -> tuple[int, int]:
    start = int(found[2] or 0)
    stop = int(found[4]) if found[4] else size if found[3] else start + 1
    if not 0 <= start < stop <= size:
        raise MethodError(
            f"{file}: {pattern!r} selects no row; the parameter has {size} rows, 0 to {size - 1}. Use a range "
            f"within them."
        )
    return start, stop
