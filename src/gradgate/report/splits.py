"""Name the splits of a study: languages, or the tasks, models and training sizes of a study of several."""

from __future__ import annotations

from gradgate.report.study_summary import StudySummary
from gradgate.runs.records import DEV
from gradgate.study.results import LANGUAGE
from gradgate.tasks.languages import ALL, DISTANT, ZERO_SHOT, average_label

_FIRST = (ZERO_SHOT, ALL, DISTANT)


def shown_splits(study: StudySummary) -> tuple[str, ...]:
    """Return the averages of the study, then its splits by language, the source's first; or by task or model."""
    results = study.results
    if results.parts:
        return (*results.averages, *results.test_splits)
    source = study.record.task.source
    spoken = [split for split in (DEV, *results.test_splits) if results.language(split) != split]
    # Dev selected the checkpoint; it is shown if the other languages are scored on theirs.
    on_dev = f"{DEV}.{source}" not in spoken and any(name.startswith(f"{DEV}.") for name in spoken)
    shown = [split for split in spoken if split != DEV or on_dev]
    ordered = sorted(shown, key=lambda split: results.language(split) != source)
    return (*(name for name in _FIRST if name in results.averages), *ordered)


def split_unit(study: StudySummary) -> str:
    """Return what each of these splits is."""
    return study.results.split_unit if study.results.parts else LANGUAGE


def split_name(study: StudySummary, split: str) -> str:
    """Return a language's code, or an average's name; the source language is marked."""
    language = study.results.language(split)
    if language == study.record.task.source and language != split:
        return f"{language} ({DEV if split == DEV else 'source'})"
    return average_label(language)
