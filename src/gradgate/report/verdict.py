"""Answer a study in one sentence, and say what to bear in mind when reading it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from gradgate.errors import counted, listed
from gradgate.report.formats import abridged, said_once
from gradgate.report.pairing import UNPAIRED
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.verdict_sentence import allowed, tested
from gradgate.runs.records import DEV
from gradgate.runs.state import RunState
from gradgate.statistics import Word
from gradgate.study.guessing import guessing_score
from gradgate.study.results import COMBINATION, SIZE

_DEV_ONLY = "no test split: the dev score both selected the checkpoint and ranks the methods, so it is optimistic."
_UNFINISHED = {RunState.FAILED: "failed", RunState.PAUSED: "paused", RunState.MISSING: "not finished yet"}


def verdict(study: StudySummary) -> str:
    """Say which arm was best, by how much, and whether chance explains it."""
    best, where = study.best, compared_on(study)
    if not study.scored:
        return "Nothing has finished yet."
    if len(study.scored) > 1 and not study.has_same_seeds:
        return _over_common_seeds(study, best)
    winner = best[0]
    spreads = {study.format.with_spread(arm.score.mean, arm.score.sd) for arm in best}
    value = spreads.pop() if len(spreads) == 1 else study.format.value(winner.score.mean)
    score = f"{value} {study.format.name} ({counted(winner.score.n, 'seed')})"
    if len(best) > 1:
        return f"{listed([arm.name for arm in best])} have the same mean on {where}: {score}."
    if len(study.scored) == 1:
        return f"{winner.name} reached {score} on {where}. {_alone(study)}"
    extreme = "highest" if study.higher_is_better else "best (lowest)"
    lead = f"{winner.name} scored {extreme} on {where}: {score}"
    if winner is study.reference:
        return f"{lead}. {_runner_up(study, study.others)}"
    return f"{lead}, {_difference(study, winner)}."


def _over_common_seeds(study: StudySummary, best: Sequence[ArmSummary]) -> str:
    """Say which arm is ahead by differences to the reference, as arms have different seeds."""
    reference, where, unranked = study.reference, compared_on(study), set(study.unranked)
    others = [arm for arm in study.scored if arm is not reference and arm not in unranked]
    ahead = [arm for arm in best if arm is not reference]
    if reference not in study.scored:
        return _without_reference(study, best)
    if not others:
        return f"Nothing can be compared on {where}: {_apart(study)}"
    if len(best) > 1:
        found = f"{listed([arm.name for arm in best])} have the same mean on {where} over the seeds that they share."
    elif ahead:
        found = f"On common seeds, {ahead[0].name} is ahead on {where}: {_difference(study, ahead[0])}."
    else:
        found = f"On common seeds, no arm is ahead of {reference.name} on {where}. {_runner_up(study, others)}"
    return f"{found} {_apart(study)}" if unranked else found


def _without_reference(study: StudySummary, best: Sequence[ArmSummary]) -> str:
    """Say which arm is ahead over the seeds that all but the reference have."""
    reference, where = study.reference.name, compared_on(study)
    if not best:
        return (
            f"{reference} has no score on {where}, and the other arms have no seed in common: nothing can be compared."
        )
    extreme = "highest" if study.higher_is_better else "lowest"
    return (
        f"{reference} has no score on {where}. Over the {counted(len(study.shared_seeds), 'seed')} that all others "
        f"have, {listed([arm.name for arm in best])} {'has' if len(best) == 1 else 'have'} the {extreme} mean."
    )


def _apart(study: StudySummary) -> str:
    names = [arm.name for arm in study.unranked]
    verb, pronoun = ("shares", "is") if len(names) == 1 else ("share", "are")
    return f"{listed(names)} {verb} no finished seed with {study.reference.name} and {pronoun} not ranked."


def cautions(study: StudySummary) -> list[str]:
    """Return what limits the answer: few seeds, unfinished runs, no test split, anything odd in the folder."""
    results = study.results
    notes = _run_notes(study)
    if not study.scored:
        return [*notes, *results.problems]
    notes += [*_seed_notes(study), *_guessing_notes(study), *_row_notes(study)]
    if study.split == DEV:
        notes.append(f"There is {_DEV_ONLY}")
    untested = untested_parts(study)
    if untested:
        notes.append(f"{listed(untested)} {'has' if len(untested) == 1 else 'have'} {_DEV_ONLY}")
    shared = {COMBINATION: "tasks, models or rows", SIZE: "their rows"}.get(results.split_unit)
    if shared is not None:
        notes.append(
            f"{results.split_unit.capitalize()}s share {shared}, so tests over them treat their pairs as more "
            "independent than they are."
        )
    return [*notes, *results.problems]


def untested_parts(study: StudySummary) -> list[str]:
    """Return the tasks or models of a study of several that have no test split and are compared on dev."""
    return [name for name, part in study.results.parts if part.main_split == DEV]


def _run_notes(study: StudySummary) -> list[str]:
    """Return how many runs have finished, if not all have."""
    results = study.results
    if study.record.imported is not None or study.is_race:
        return []
    unfinished = [f"{results.count(state)} {word}" for state, word in _UNFINISHED.items() if results.count(state)]
    if not unfinished:
        return []
    finished = f"{results.count(RunState.FINISHED)} finished"
    return [f"{counted(len(results.runs), 'run')} planned: {listed([finished, *unfinished])}."]


def _seed_notes(study: StudySummary) -> list[str]:
    notes: dict[str, list[str]] = {}
    for arm in study.scored:
        if arm.score.note:
            notes.setdefault(arm.score.note, []).append(arm.name)
        # A comparison over as many seeds as the arm has is limited by what was said of the arm.
        if arm.versus and arm.versus.note and (arm.versus.n < arm.score.n or arm.versus.sd == 0):
            notes.setdefault(f"{arm.versus.note} (against {study.reference.name})", []).append(arm.name)
    everyone = [arm.name for arm in study.scored]
    return [
        f"{note[0].upper()}{note[1:]}." if names == everyone else f"{abridged(names)}: {note}."
        for note, names in notes.items()
    ]


def _guessing_notes(study: StudySummary) -> list[str]:
    """Say which arms learned no more than which class is the most frequent."""
    guessed = guessing_score(study.results, study.split)
    if guessed is None or not study.higher_is_better:
        return []
    scores = {arm.name: arm.scores(study.split).values() for arm in study.scored}
    no_better = [name for name, own in scores.items() if own and median(own) <= guessed]
    if not no_better:
        return []
    always = f"always answering with the most frequent class of train ({study.format.value(guessed)})"
    return [f"{abridged(no_better)}: no better than {always}; train longer, or search other learning rates."]


def _row_notes(study: StudySummary) -> list[str]:
    """Say which differences are significant over seeds, and not if the test rows are drawn again, too."""
    decided = [each for each in study.judged_by_rows if each.verdict.word in (Word.BETTER, Word.WORSE)]
    return said_once((each.arm, each.rows_note if each.rows is not None else None) for each in decided)


def compared_on(study: StudySummary) -> str:
    """Return what arms are compared on, for the middle of a sentence."""
    if study.split in study.results.averages:
        return f"the {study.split_label}"
    return f"the {study.split} split" if study.split == DEV else study.split


def _difference(study: StudySummary, arm: ArmSummary) -> str:
    """Describe the difference to the reference, its evidence and what that evidence allows to say."""
    reference, versus = study.reference, arm.versus
    if versus is None or versus.difference is None:
        return f"not compared to {reference.name}, which shares no finished seed with it"
    over = "over" if versus.difference > 0 else "against"
    by = f"{study.format.difference(versus.difference)} {over} {reference.name}"
    if versus.n == 1:
        return f"{by} on the only seed that both finished: inconclusive, because one seed has no spread"
    if versus.p is None or arm.p is None:
        return f"{by} ({versus.note}): inconclusive"
    all_paired = versus.n == arm.score.n == reference.score.n
    pairs = "" if all_paired or study.pairing is UNPAIRED else f"{counted(versus.n, f'common {study.pairing.unit}')}, "
    assert arm.judged is not None
    interval, p = tested(arm.judged.verdict, study.format)
    return f"{by} ({pairs}{interval}, {p}): {_word(study, arm)}"


def _word(study: StudySummary, arm: ArmSummary) -> str:
    """Return what the comparison of an arm to the reference allows to say."""
    assert arm.judged is not None
    return allowed(arm.judged.verdict, study.reference.name, study.format.factor)


def _runner_up(study: StudySummary, others: Sequence[ArmSummary]) -> str:
    second = next(arm for arm in study.by_score if arm in others)
    return f"It is the reference; the next best, {second.name}, is at {_difference(study, second)}."


def _alone(study: StudySummary) -> str:
    if len(study.arms) == 1:
        return "It is the only method of this study, so there is nothing to compare it with."
    return "No other method has a finished run yet."
