"""Pretrain the language adapters that a study's task adapters are stacked on, and record what they reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evidence.commands import flags, gradgate, here
from gradgate.csv_rows import CsvRows
from gradgate.files import read_json
from gradgate.tasks.readers.files import read_table
from gradgate.tasks.types import FileFormat


class LanguageAdapters(BaseModel):
    """How one adapter per language learns, from texts that the study's task does not have.

    Attributes:
        texts: folder with a folder per language.
        files: tables in each of these.
        columns: of the tables, with the texts.
        settings: of ``gradgate pretrain-adapter``.
        quick: what replaces them at scale ``quick``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    texts: str
    files: tuple[str, ...]
    columns: tuple[str, ...]
    settings: dict[str, Any]
    quick: dict[str, Any] = Field(default_factory=dict)

    @property
    def short(self) -> dict[str, Any]:
        """The settings at scale ``quick``."""
        return self.settings | self.quick


@dataclass(frozen=True)
class PretrainedLanguage:
    """One language adapter.

    Attributes:
        texts: that it learned from, each once, with those held out.
        perplexity: on masked words of the texts that were held out.
        seconds: of its steps by the clock.
    """

    language: str
    texts: int
    steps: int
    perplexity: float
    seconds: float


ROWS = CsvRows(PretrainedLanguage, "python -m evidence run")


def pretrain(adapters: LanguageAdapters, languages: Sequence[str], settings: dict[str, Any], out: Path) -> str:
    """Pretrain the adapters that are missing.

    Args:
        settings: of ``gradgate pretrain-adapter``, without those that differ by language.
        out: folder of the adapters, each in a folder with the code of its language.

    Returns:
        The setting ``language_adapters`` of ``gradgate compare``.

    Raises:
        subprocess.CalledProcessError: if a command fails, as for a folder of other settings; it has printed why.
    """
    out.mkdir(parents=True, exist_ok=True)
    for language in languages:
        file = out / f"{language}.txt"
        file.write_text("".join(f"{text}\n" for text in dict.fromkeys(_texts(adapters, language))), encoding="utf-8")
        given = settings | {"language_data": str(file), "name": language, "out": str(out / language)}
        gradgate("pretrain-adapter", *(word for name, value in given.items() for word in flags(name, value)))
    return str(out / "{language}")


def _texts(adapters: LanguageAdapters, language: str) -> Iterator[str]:
    for name in adapters.files:
        table = read_table(Path(here(adapters.texts), language, name), FileFormat())
        for row in zip(*(table.columns[column] for column in adapters.columns), strict=True):
            yield from (text.strip() for text in row)


def pretrained(out: Path, languages: Sequence[str]) -> Iterator[PretrainedLanguage]:
    """Read what the adapters of some languages reached, from where :func:`pretrain` wrote them."""
    for language in languages:
        scores, run = (read_json(out / language / name) for name in ("scores.json", "run.json"))
        yield PretrainedLanguage(
            language=language,
            texts=run["data"]["texts"],
            steps=scores["steps"],
            perplexity=round(scores["after"]["perplexity"], 1),
            seconds=round(scores["steps"] * scores["seconds_per_step"], 1),
        )
