"""Average one task's scores over languages.

The papers average differently (zero-shot means: trained and selected only in the source language). GradDrop reports the
mean over all languages with the source (Sec. V), FUN the one without it (Tables 2 and 8 to 10), and AdapterEff (He et
al. 2021, Table 3, https://aclanthology.org/2021.acl-long.172) both, and the mean over distant languages, those outside
of the Indo-European family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from gradgate.errors import DataError, UsageError, nearest
from gradgate.tasks.language_codes import short_code
from gradgate.tasks.readers.files import files_of
from gradgate.tasks.readers.files import missing as missing_file
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import LANGUAGE, TRAIN, TRAIN_AND_DEV, base_of, scored

ALL = "all"
ZERO_SHOT = "zero-shot"
DISTANT = "distant"
AVERAGES = (ALL, ZERO_SHOT, DISTANT)

# Every ISO 639-1 code of the family, and Nigerian Pidgin; a creole counts with the language of its words.
_FAMILY = (
    "af an as be bg bn br bs ca co cs cu cy da de dv el en es fa fo fr fy ga gd gl gu gv hi hr ht hy is it ks ku kw "
    "la lb li lt lv mk mr nb ne nl nn no oc or os pa pcm pi pl ps pt rm ro ru sa sc sd sh si sk sl sq sr sv tg uk "
    "ur wa yi"
)
INDO_EUROPEAN = frozenset(_FAMILY.split())
# The printed XNLI values of AdapterEff's Table 3 fit only if Greek and Urdu count as distant.
_ALSO_DISTANT_IN_PRINT = {"xnli": frozenset({"el", "ur"})}


def average_label(name: str) -> str:
    """Return an average's display name; other names stay as they are."""
    return {ALL: "average of all languages", ZERO_SHOT: "zero-shot average", DISTANT: "distant average"}.get(name, name)


def distant_languages(
    languages: Iterable[str], definition: Literal["genealogical", "paper"] = "genealogical", task: str = ""
) -> tuple[str, ...]:
    """Return the languages that are not Indo-European, in their order; none if the family of one is not known.

    Args:
        languages: codes of ISO 639, or English names; a suffix after ``-`` or ``_`` is ignored.
        definition: ``"paper"`` follows AdapterEff's printed averages, which differ for XNLI.
        task: name in the catalogue; counts for ``"paper"``.
    """
    also = _ALSO_DISTANT_IN_PRINT.get(task, frozenset()) if definition == "paper" else frozenset()
    codes = {language: short_code(language) for language in languages}
    if None in codes.values():
        return ()
    return tuple(language for language, code in codes.items() if code not in INDO_EUROPEAN or code in also)


def average(
    scores: Mapping[str, Mapping[str, float | None]],
    languages: Mapping[str, str],
    source: str,
    definition: Literal["genealogical", "paper"] = "genealogical",
    task: str = "",
) -> dict[str, dict[str, float]]:
    """Compute unweighted means over languages, of one score for each.

    Splits of one kind are averaged: ``test.*``, or ``dev.*`` of a task without test files, where ``dev`` itself, on
    which the checkpoint was selected, stands for the source language.

    Args:
        scores: split -> metric -> value, of ``dev`` and the test splits.
        languages: split -> language, of the splits of a task in several languages.
        source: the language that the task was trained and selected in.
        definition, task: as of :func:`distant_languages`.

    Returns:
        ``all`` (with the source, if it was scored), ``zero-shot`` (without it) and ``distant`` (without it) -> metric
        -> mean, for metrics that every language has. Empty if only the source was scored; an average over no languages
        is left out, and so is ``distant`` if a language is not known.
    """
    members = averaged_splits(list(scores), languages, source, definition, task)
    return {name: _means([scores[split] for split in splits]) for name, splits in members.items()}


def averaged_splits(
    splits: Sequence[str],
    languages: Mapping[str, str],
    source: str,
    definition: Literal["genealogical", "paper"] = "genealogical",
    task: str = "",
) -> dict[str, tuple[str, ...]]:
    """Return the splits that each average is over, one per language; as of :func:`average`."""
    by_language = _one_kind(splits, languages, source)
    targets = [language for language in by_language if language != source]
    everyone = list(by_language) if source in by_language else []
    members = {ALL: everyone, ZERO_SHOT: targets, DISTANT: distant_languages(targets, definition, task)}
    if not targets:
        return {}
    return {name: tuple(by_language[code] for code in codes) for name, codes in members.items() if codes}


def _one_kind(names: Sequence[str], languages: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the split of each language, all of one kind."""
    splits = [split for split in names if split in languages and split != base_of(split)]
    kinds = list(dict.fromkeys(base_of(split) for split in splits))
    if not kinds:
        return {}
    kind = "test" if "test" in kinds else kinds[0]
    own = {languages[split]: split for split in splits if base_of(split) == kind}
    return {source: kind, **own} if kind == "dev" and "dev" in names else own


def _means(rows: list[Mapping[str, float | None]]) -> dict[str, float]:
    means = {}
    for metric in rows[0]:
        values = [row.get(metric) for row in rows]
        numbers = [value for value in values if value is not None]
        if len(numbers) == len(values):
            means[metric] = fmean(numbers)
    return means


def expand(spec: TaskSpec) -> TaskSpec:
    """Return the task with one split per language: of those in its folder, or of all on the hub."""
    if spec.folder is not None and spec.files is not None:
        templates = {split for split, file in spec.files.items() if LANGUAGE in file}
        files = _by_language(spec, spec.files, templates)
        present = {
            split: file
            for split, file in files.items()
            if split in (*TRAIN_AND_DEV, *spec.files) or (spec.folder / file).is_file()
        }
        return spec.model_copy(update={"files": present})
    if spec.hub is not None and spec.languages:
        hub = spec.hub
        templates = {split for split in hub.splits if hub.is_by_language(split)}
        if "test" in hub.splits:
            templates -= {"dev"}  # each split of the hub is a download, and dev of other languages would not be used
        return spec.model_copy(
            update={"hub": hub.model_copy(update={"splits": _by_language(spec, hub.splits, templates)})}
        )
    return spec


def in_languages(spec: TaskSpec, languages: Iterable[str], dev_is_scored: bool = False) -> TaskSpec:
    """Return the expanded task, scored in only some of its languages.

    Args:
        spec: the expanded task.
        languages: those to score.
        dev_is_scored: the task's own dev split, in the source language, selects no checkpoint.

    Raises:
        UsageError: for a task in one language, or for a language that it is not in.
        DataError: for a language of the task without anything to score, or a folder without any of its files.
    """
    wanted = tuple(dict.fromkeys(languages))
    if not spec.languages:
        raise UsageError(f"The task {spec.name} is in one language ({spec.source}); leave languages= out")
    unknown = [language for language in wanted if language not in spec.languages]
    if unknown or not wanted:
        raise UsageError(
            f"languages={','.join(wanted)}: the task {spec.name} has no {', '.join(unknown) or 'such language'}; its "
            f"languages are {', '.join(spec.languages)}"
            f"{''.join(f'.{near}' for name in unknown[:1] if (near := nearest(name, spec.languages)))}"
        )
    if spec.language_column is not None:
        return spec.model_copy(update={"languages": wanted})
    splits = spec.places
    unscored = (TRAIN,) if dev_is_scored else TRAIN_AND_DEV
    there = [spec.language_of(split) for split in scored(splits) if split not in unscored]
    missing = [language for language in wanted if language not in there]
    if missing:
        absent = absent_files(spec)
        if not there and absent:
            raise DataError(f"{missing_file(next(iter(absent.values())))}. Put the file there, or name another one")
        has_dev = "dev" in splits and "dev" not in absent
        raise DataError(
            f"languages={','.join(wanted)}: {spec.folder or spec.name} has nothing to score in {', '.join(missing)}; "
            f"it has {', '.join(dict.fromkeys(there)) or 'no test split'}"
            f"{_how_to_score_source(spec) if spec.source in missing and has_dev else ''}"
        )
    kept = {s: place for s, place in splits.items() if s in TRAIN_AND_DEV or spec.language_of(s) in wanted}
    update: dict[str, Any] = {"files": kept}
    if spec.folder is None and spec.hub is not None:
        update = {"hub": spec.hub.model_copy(update={"splits": kept})}
    return spec.model_copy(update={**update, "languages": wanted})


def _how_to_score_source(spec: TaskSpec) -> str:
    return (
        f". Its dev split in {spec.source}, the source, selects checkpoints. With dev_size=, rows of train do that and "
        f"this split is scored"
    )


def absent_files(spec: TaskSpec) -> dict[str, Path]:
    """Return the train and dev files that are missing, so that nothing can be trained: split -> file."""
    if spec.folder is None:
        return {}
    places = {split: spec.folder / spec.places[split] for split in TRAIN_AND_DEV if split in spec.places}
    return {split: path for split, path in places.items() if not files_of(path)}


def absent_languages(spec: TaskSpec) -> tuple[str, ...]:
    """Return the languages of the task that the expanded one has no split in."""
    if spec.language_column is not None:
        return ()
    there = {spec.language_of(split) for split in spec.places}
    return tuple(language for language in spec.languages if language not in there)


def _by_language(spec: TaskSpec, splits: dict[str, str], templates: set[str]) -> dict[str, str]:
    """Return the place of each split by language; only ``templates`` exist in several languages."""
    found: dict[str, str] = {}
    for split, place in splits.items():
        if split in TRAIN_AND_DEV or split not in templates:
            found[split] = place.replace(LANGUAGE, spec.source)
        if split in templates and split != "train":
            others = [language for language in spec.languages if split != "dev" or language != spec.source]
            found |= {f"{split}.{language}": place.replace(LANGUAGE, language) for language in others}
    return found
