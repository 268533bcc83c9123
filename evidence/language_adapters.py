"""Pretrain the language adapters that a study's task adapters are stacked on, and record what they reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.commands import flags, gradgate, here
from evidence.studies import LanguageAdapterSettings, Study
from gradgate.csv_rows import CsvRows
from gradgate.files import read_json
from gradgate.tasks.readers.files import read_table
from gradgate.tasks.types import FileFormat

_FOLDER = "languages"


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


def pretrain(adapters: LanguageAdapterSettings, languages: Sequence[str], settings: dict[str, Any], out: Path) -> str:
    """Pretrain the adapters that are missing; studies with the same ones share them.

    Args:
        settings: of ``gradgate pretrain-adapter``, without those that differ by language.
        out: the folder with the folders of all studies.

    Returns:
        The setting ``language_adapters`` of ``gradgate compare``.

    Raises:
        subprocess.CalledProcessError: if a command fails, as for a folder of other settings; it has printed why.
    """
    folder = out.resolve() / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        file = folder / f"{language}.txt"
        file.write_text("".join(f"{text}\n" for text in dict.fromkeys(_texts(adapters, language))), encoding="utf-8")
        given = settings | {"language_data": str(file), "name": language, "out": str(folder / language)}
        gradgate("pretrain-adapter", *(word for name, value in given.items() for word in flags(name, value)))
    return str(folder / "{language}")


def _texts(adapters: LanguageAdapterSettings, language: str) -> Iterator[str]:
    for name in adapters.files:
        table = read_table(Path(here(adapters.texts), language, name), FileFormat())
        for row in zip(*(table.columns[column] for column in adapters.columns), strict=True):
            yield from (text.strip() for text in row)


def pretrained(out: Path, languages: Sequence[str]) -> Iterator[PretrainedLanguage]:
    """Read what the adapters of some languages reached, from where :func:`pretrain` wrote them."""
    for language in languages:
        scores, run = (read_json(out / _FOLDER / language / name) for name in ("scores.json", "run.json"))
        yield PretrainedLanguage(
            language=language,
            texts=run["data"]["texts"],
            steps=scores["steps"],
            perplexity=round(scores["after"]["perplexity"], 1),
            seconds=round(scores["steps"] * scores["seconds_per_step"], 1),
        )


def perplexities(study: Study) -> str:
    """Say what the language adapters of a study reached; nothing for a study without them."""
    if not study.languages.exists():
        return ""
    reached = ", ".join(f"{row.language} {row.perplexity:.0f}" for row in ROWS.read(study.languages))
    return f"Perplexity of the language adapters on held-out texts: {reached}."


def language_hours(studies: Sequence[Study]) -> float:
    """Return how long language adapters took, in hours of one CPU thread by the clock; shared ones count once."""
    there = [study for study in studies if study.languages.exists()]
    spent = {(row, float(study.compare["threads"])) for study in there for row in ROWS.read(study.languages)}
    return sum(row.seconds * threads for row, threads in spent) / 3600
