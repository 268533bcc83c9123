"""Say what the evidence lacks: long runs, searches, seeds and repetitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from evidence.arms import study_arms
from evidence.limits import AFTER_TEST, NAMES, limits_of
from evidence.repetition import Repetition
from evidence.searches import ROWS, SearchedRun
from evidence.studies import Study
from gradgate.errors import counted, listed

_TIE = 0.01
"""Of the metric, by which one seed hardly tells two rates apart."""


def missing_section(studies: Sequence[Study], again: Mapping[str, Repetition]) -> str:
    """Return what the committed studies lack, as a list in Markdown."""
    return "\n".join(f"- {line}" for line in (*_of_training(studies), *_of_repetitions(studies, again)))


def _of_training(studies: Sequence[Study]) -> Iterator[str]:
    real = [study for study in studies if study.data == "real"]
    limited = {study.name: {limit.name for limit in limits_of(study)} for study in real}
    counts = {name: sum(name in own for own in limited.values()) for name in NAMES}
    having = listed(f"{_have(count)} {name}" for name, count in counts.items() if count and name != AFTER_TEST)
    yield (
        f"Of {len(real)} studies on real data, {having}; {_were(counts[AFTER_TEST])} changed after scores on test were "
        f"known. {_have(sum(not own for own in limited.values()))} none of these limits. A verdict has those of its "
        "studies in its line."
    )
    unknown = [f"`{study.name}`" for study in real if not study.search.exists()]
    if unknown:
        yield f"The search of {listed(unknown)} is not committed; these are older and shorter than the others."
    seeds = [len(arm.scores) for study in real for arms in study_arms(study).values() for arm in arms]
    yield f"Arms have {min(seeds)} to {max(seeds)} seeds, and intervals of a study of one task say nothing of others."
    searches = [picks for study in real if study.search.exists() for picks in _picked(ROWS.read(study.search))]
    ties = sum(margin < _TIE for margin in searches)
    yield (
        f"Most rates were picked with one seed each. In {ties} of {len(searches)} searches of an arm, another rate was "
        "within a point on dev, so the pick may be by chance."
    )


def _have(count: int) -> str:
    return f"{count} has" if count == 1 else f"{count} have"


def _were(count: int) -> str:
    return f"{count} was" if count == 1 else f"{count} were"


def _picked(runs: Sequence[SearchedRun]) -> Iterator[float]:
    """Yield by how much the chosen rate of each arm was ahead on dev of the next one that was trained to the end."""
    for arm in dict.fromkeys((run.size, run.arm) for run in runs):
        devs: dict[tuple[bool, float], list[float]] = {}
        for run in runs:
            if (run.size, run.arm) == arm and run.dev is not None:
                devs.setdefault((run.chosen, run.lr), []).append(run.dev)
        (picked,) = (fmean(own) for (chosen, _), own in devs.items() if chosen)
        others = [fmean(own) for (chosen, _), own in devs.items() if not chosen]
        if others:
            yield picked - max(others)


def _of_repetitions(studies: Sequence[Study], again: Mapping[str, Repetition]) -> Iterator[str]:
    searched = [study.name for study in studies if study.search.exists()]
    found = [again[name] for name in searched if name in again]
    generated = sum(study.data == "synthetic" for study in studies if study.name in again and study.name in searched)
    here = [each for each in found if each.machine == "same"]
    elsewhere = [each for each in found if each.machine == "another"]
    same = sum(each.equal == each.numbers for each in here)
    equal = "all of these" if same == len(here) else f"{same} of these"
    yield (
        f"{len(found)} of the {len(searched)} studies with a committed search {'was' if len(found) == 1 else 'were'} "
        f"run again from a fresh clone, {generated} of them on generated data. {_were(len(here))} run on the "
        f"same machine; in {equal} every number was the same to the last digit. "
        f"{_elsewhere(elsewhere)} All are among the shorter studies, and not all were drawn at random."
    )


def _elsewhere(found: Sequence[Repetition]) -> str:
    """Say what another machine gave, which rounds sums in another order."""
    if not found:
        return "No other machine has run them."
    moved = max(each.moved for each in found)
    verdicts = sum(each.verdicts for each in found)
    return (
        f"Another machine ran {len(found)}: sums are rounded in another order there, so that few numbers were the same "
        f"and a search may pick another rate; means of arms moved by at most {moved:.2f} points, and "
        f"{counted(verdicts, 'verdict') if verdicts else 'no verdict'} changed."
    )
