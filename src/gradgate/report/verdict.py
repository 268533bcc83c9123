"""The answer of a study in one sentence, and what to bear in mind when reading it."""

from __future__ import annotations

from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import counted, listed, p_equation, p_value
from gradgate.runs.records import DEV
from gradgate.runs.state import RunState
from gradgate.study.results import COMBINATION, SIZE

LEVEL = 0.05


def verdict(findings: Findings) -> str:
    """Which method was best, by how much, and whether chance explains it."""
    best = findings.best
    if not best:
        return "Nothing has finished yet."
    winner, where = best[0], _where(findings)
    value = findings.format.with_spread(winner.score.mean, winner.score.sd)
    score = f"{value} {findings.format.name} ({counted(winner.score.n, 'seed')})"
    if len(best) > 1:
        return f"{listed([method.name for method in best])} are level on {where}: {score}."
    if len(findings.scored) == 1:
        return f"{winner.name} reached {score} on {where}. {_alone(findings)}"
    extreme = "highest" if findings.results.study.task.metric_higher_is_better else "best (lowest)"
    lead = f"{winner.name} scored {extreme} on {where}: {score}"
    if winner is findings.reference:
        return f"{lead}. {_runner_up(findings)}"
    return f"{lead}, {_difference(findings, winner)}."


def cautions(findings: Findings) -> list[str]:
    """What limits the answer: few seeds, unfinished runs, no test split, anything odd in the folder."""
    results = findings.results
    notes = []
    unfinished = [(status, results.count(status)) for status in (RunState.FAILED, RunState.PAUSED, RunState.MISSING)]
    if any(number for _, number in unfinished):
        words = {"failed": "failed", "paused": "paused", "missing": "not finished yet"}
        parts = [f"{number} {words[status]}" for status, number in unfinished if number]
        finished = f"{results.count(RunState.FINISHED)} finished"
        notes.append(f"{counted(len(results.runs), 'run')} planned: {listed([finished, *parts])}.")
    if not findings.scored:
        return [*notes, *results.problems]
    notes += _seed_notes(findings)
    if findings.split == DEV:
        notes.append(
            "There is no test split: the dev score picked the checkpoint and also ranks the methods, "
            "so it is optimistic."
        )
    untested = untested_parts(findings)
    if untested:
        notes.append(
            f"{listed(untested)} {'has' if len(untested) == 1 else 'have'} no test split: the dev score picked the "
            "checkpoint and also ranks the methods, so it is optimistic."
        )
    shared = {COMBINATION: "tasks, models or rows", SIZE: "their rows"}.get(results.split_unit)
    if shared is not None:
        notes.append(
            f"{results.split_unit.capitalize()}s share {shared}, so that tests over them take their pairs for more "
            "independent than they are."
        )
    return [*notes, *results.problems]


def untested_parts(findings: Findings) -> list[str]:
    """The tasks or models of a study of several that are compared on dev, for want of a test split."""
    return [name for name, part in findings.results.parts if part.main_split == DEV]


def _seed_notes(findings: Findings) -> list[str]:
    notes: dict[str, list[str]] = {}
    for method in findings.scored:
        if method.score.note:
            notes.setdefault(method.score.note, []).append(method.name)
        # A comparison over as many seeds as the method has is limited by what was said of the method.
        if method.versus and method.versus.note and (method.versus.n < method.score.n or method.versus.sd == 0):
            notes.setdefault(f"{method.versus.note} (against {findings.reference.name})", []).append(method.name)
    everyone = [method.name for method in findings.scored]
    return [
        f"{note[0].upper()}{note[1:]}." if names == everyone else f"{_some(names)}: {note}."
        for note, names in notes.items()
    ]


def _some(names: list[str]) -> str:
    return listed(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _where(findings: Findings) -> str:
    if findings.split in findings.results.averages:
        return f"the {findings.split_label}"
    return f"the {findings.split} split" if findings.split == DEV else findings.split


def _difference(findings: Findings, method: MethodFindings) -> str:
    """The difference to the reference with its evidence and what that evidence allows to say."""
    reference = findings.reference
    versus = method.versus
    if versus is None or versus.difference is None:
        return f"not compared to {reference.name}, which shares no finished seed with it"
    over = "over" if versus.difference > 0 else "against"
    by = f"{findings.format.difference(versus.difference)} {over} {reference.name}"
    if versus.n == 1:
        return f"{by} on the one seed that both finished: one seed cannot tell that from chance"
    if versus.p is None or method.p is None:
        return f"{by} ({versus.note}): whether that is more than chance cannot be said"
    pairs = "" if versus.n == method.score.n == reference.score.n else f"{counted(versus.n, 'common seed')}, "
    after = "also" if p_value(method.p) == p_value(versus.p) else p_value(method.p)
    corrected = f", {after} after Holm's correction for {findings.tests_done} tests"
    evidence = (
        f"{pairs}95% CI {findings.format.interval(versus.interval)}, {p_equation(versus.p)}"
        f"{corrected if findings.tests_done > 1 else ''}"
    )
    judged = "more than chance alone explains" if method.p < LEVEL else "not distinguishable from chance"
    return f"{by} ({evidence}): {judged}"


def _runner_up(findings: Findings) -> str:
    second = findings.others[0]
    return f"It is the reference; the nearest, {second.name}, is at {_difference(findings, second)}."


def _alone(findings: Findings) -> str:
    if len(findings.methods) == 1:
        return "It is the only method of this study, so there is nothing to compare it to."
    return "No other method has a finished run yet."
