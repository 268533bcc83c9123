"""Averages of one task's scores over languages.

The papers differ in what they average (zero-shot means: trained and selected in the source language alone). GradDrop
reports the mean over all languages with the source (Sec. V), FUN the one without it (Tables 2 and 8 to 10), and
AdapterEff (He et al. 2021, Table 3, https://aclanthology.org/2021.acl-long.172) both, and the mean over distant
languages, those outside of the Indo-European family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Literal

from gradgate.tasks.splits import base_of

ALL = "all"
ZERO_SHOT = "zero-shot"
DISTANT = "distant"
AVERAGES = (ALL, ZERO_SHOT, DISTANT)

# Every ISO 639-1 code of the family, and Nigerian Pidgin; creoles count with the language of their words.
_FAMILY = (
    "af an as be bg bn br bs ca co cs cu cy da de dv el en es fa fo fr fy ga gd gl gu gv hi hr ht hy is it ks ku kw "
    "la lb li lt lv mk mr nb ne nl nn no oc or os pa pcm pi pl ps pt rm ro ru sa sc sd sh si sk sl sq sr sv tg uk "
    "ur wa yi"
)
INDO_EUROPEAN = frozenset(_FAMILY.split())
# The printed XNLI values of AdapterEff's Table 3 fit only if Greek and Urdu count as distant.
_ALSO_DISTANT_IN_PRINT = {"xnli": frozenset({"el", "ur"})}


def average_label(name: str) -> str:
    """An average's name for people; other names stay as they are."""
    return {ALL: "average of all languages", ZERO_SHOT: "zero-shot average", DISTANT: "distant average"}.get(name, name)


def distant_languages(
    languages: Iterable[str], definition: Literal["genealogical", "paper"] = "genealogical", task: str = ""
) -> tuple[str, ...]:
    """Those that are not Indo-European, in their order.

    Args:
        languages: ISO 639-1 codes; what follows ``-`` or ``_`` does not count.
        definition: ``"paper"`` is what AdapterEff's printed averages were made of, which differs for XNLI.
        task: name in the catalogue; counts for ``"paper"``.
    """
    also = _ALSO_DISTANT_IN_PRINT.get(task, frozenset()) if definition == "paper" else frozenset()
    plain = {language: language.replace("_", "-").partition("-")[0].lower() for language in languages}
    return tuple(code for code, short in plain.items() if short not in INDO_EUROPEAN or short in also)


def average(
    scores: Mapping[str, Mapping[str, float | None]],
    languages: Mapping[str, str],
    source: str,
    definition: Literal["genealogical", "paper"] = "genealogical",
    task: str = "",
) -> dict[str, dict[str, float]]:
    """Unweighted means over languages, of one score for each.

    Splits of one kind are averaged: ``test.*``, or ``dev.*`` of a task without test files, where ``dev`` itself, on
    which the checkpoint was selected, stands for the source language.

    Args:
        scores: split -> metric -> value, of ``dev`` and the test splits.
        languages: split -> language, of the splits of a task in several languages.
        source: the language that the task was trained and selected in.
        definition, task: as of :func:`distant_languages`.

    Returns:
        ``all`` (with the source; where it was scored), ``zero-shot`` (without it) and ``distant`` (without it) ->
        metric -> mean, for metrics that every language has. Empty where no language but the source was scored; an
        average of no language is left out.
    """
    members = averaged_splits(scores, languages, source, definition, task)
    return {name: _means([scores[split] for split in splits]) for name, splits in members.items()}


def averaged_splits(
    splits: Iterable[str],
    languages: Mapping[str, str],
    source: str,
    definition: Literal["genealogical", "paper"] = "genealogical",
    task: str = "",
) -> dict[str, tuple[str, ...]]:
    """The splits that each average is over, one for each language; as of :func:`average`."""
    by_language = _one_kind(list(splits), languages, source)
    targets = [language for language in by_language if language != source]
    everyone = list(by_language) if source in by_language else []
    members = {ALL: everyone, ZERO_SHOT: targets, DISTANT: distant_languages(targets, definition, task)}
    if not targets:
        return {}
    return {name: tuple(by_language[code] for code in codes) for name, codes in members.items() if codes}


def _one_kind(names: list[str], languages: Mapping[str, str], source: str) -> dict[str, str]:
    """Language -> its split."""
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
