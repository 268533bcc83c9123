"""Write ``advice.md``: what to use, as far as the committed runs show significant differences."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from evidence.grids import Grid, read_grids
from evidence.studies import FOLDER, Study
from evidence.verdicts import Checked
from gradgate.settings.recorded import arm_of_texts
from gradgate.statistics import compare_paired, holm, summarize
from gradgate.study.replay.curve_rows import WHOLE, CurveRow, read_rows

ADVICE = FOLDER / "advice.md"
LEVEL = 0.05
_INTRODUCTION = """\
# What should I use?

This page answers from runs, not from opinion: it is made from the scores that are committed in `evidence/`. Each row
compares ways to train one model on one task with common seeds. Scores are in points, with the 95% t interval over the
seeds; rates were picked on dev. They are on test; in a row that says *dev* they are on the rows on which rates and
checkpoints were picked too, and are too high. An arm is *clearly below* the best if the paired t-test over seeds shows
a difference (p < 0.05, Holm-corrected over all pairs of arms of the row, as the same scores picked the best one). The
others are *not significantly worse*, which does not say that they are as good: a wide interval says little. Rows on one
task differ in examples, steps and rates, so that one may find best what another finds worse.

These numbers have no rule that holds everywhere. On data of your own, `gradgate recommend` finds what does best
within a budget of minutes.
"""
_HEADS = {
    "real": "## One language, little data, a small pretrained encoder\n\nall-MiniLM-L6-v2 (22.7 M parameters), public "
    "data sets in English, hundreds of steps at most.",
    "synthetic": "## Ten languages, zero-shot, and one language: the embedded encoder\n\nGenerated tasks and a "
    "model of 4 layers. What holds here may not hold for a large multilingual model. Scores of several languages are "
    "means without English.",
}
_MEMORY = """\
If the lightest arm that is not significantly worse than the best trains a small share of the weights, many tasks can
share the rest, which needs no optimizer state. `gradgate memory --model MODEL` estimates what each method takes for a
model of yours. The peaks are those of whole processes, libraries included.
"""


@dataclass(frozen=True)
class Arm:
    """One way to train, with what it reached on test.

    Attributes:
        scores: seed to score.
        share: of the weights that learn at a time, the mean over steps and seeds; None if not recorded.
        memory: peak of the process, in bytes; None if not recorded.
    """

    name: str
    scores: dict[int, float]
    share: float | None = None
    memory: float | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.scores.values())


@dataclass(frozen=True)
class Ranking:
    """The arms of one comparison by their mean, and which of them do not differ significantly from the best.

    Attributes:
        p: arm to the p of the two-sided paired t-test against the best, Holm-corrected over all pairs of arms; None
            without spread.
    """

    arms: tuple[Arm, ...]
    p: dict[str, float | None]

    @property
    def tied(self) -> list[Arm]:
        """The best arm and those that do not differ significantly from it."""
        best, *others = self.arms
        return [best, *(arm for arm in others if (p := self.p[arm.name]) is None or p >= LEVEL)]

    @property
    def lightest(self) -> Arm | None:
        """The tied arm that trains the smallest share of the weights; None if shares are unknown."""
        known = [arm for arm in self.tied if arm.share is not None]
        return min(known, key=lambda arm: arm.share or 0) if len(known) == len(self.tied) else None


def rank(arms: Sequence[Arm]) -> Ranking:
    """Order arms, and test each against the best; all pairs are one family, as the best is picked by its scores."""
    ordered = sorted(arms, key=lambda arm: -arm.mean)
    pairs = list(combinations(ordered, 2))
    tests = holm([compare_paired(worse.scores, better.scores).p for better, worse in pairs])
    against = {worse.name: p for (better, worse), p in zip(pairs, tests, strict=True) if better is ordered[0]}
    return Ranking(tuple(ordered), against)


def study_arms(study: Study) -> dict[str, list[Arm]]:
    """Read the arms of a study from its committed runs, by the size of the training set; ``""`` is all of it."""
    runs: dict[str, dict[str, list[dict[str, str]]]] = {}
    with study.runs.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            name = arm_of_texts(row["method"], row["adapter"] or None).name
            runs.setdefault(row["train_size"], {}).setdefault(name, []).append(row)
    return {size: [_arm(name, rows) for name, rows in by_arm.items()] for size, by_arm in runs.items()}


def _arm(name: str, rows: Sequence[dict[str, str]]) -> Arm:
    return Arm(
        name,
        {int(row["seed"]): float(row["score"]) for row in rows},
        fmean(float(row["cost.trainable_share"]) for row in rows),
        fmean(float(row["cost.peak_memory_bytes"]) for row in rows),
    )


def grid_arms(grid: Grid) -> list[Arm]:
    """Return the methods of a grid, each at the rate that is best on dev, with their scores on test."""
    by_method: dict[str, dict[float | None, list[CurveRow]]] = {}
    for row in read_rows(grid.curves):
        if row.step == row.of_steps and row.schedule == WHOLE:
            by_method.setdefault(arm_of_texts(row.method, row.adapter).name, {}).setdefault(row.lr, []).append(row)
    arms = []
    for name, rates in by_method.items():
        rate = max(rates, key=lambda lr: fmean(row.dev for row in rates[lr] if row.dev is not None))
        scores = {row.seed: row.test for row in rates[rate] if row.test is not None}
        arms.append(Arm(f"{name} (lr {rate})", scores))
    return arms


def is_on_dev(rows: Sequence[CurveRow]) -> bool:
    """Return True if the final score of each run is one of its scores on dev: the task has no test rows."""
    devs: dict[tuple[str, int], set[float | None]] = {}
    for row in rows:
        devs.setdefault((row.arm, row.seed), set()).add(row.dev)
    return all(row.test in devs[row.arm, row.seed] for row in rows if row.test is not None)


def advice(studies: Sequence[Study], found: Sequence[Checked]) -> str:
    """Return the page as Markdown."""
    done = [study for study in studies if study.runs.exists()]
    compared = [ranked for study in done for ranked in _ranked(study)]
    compared += [
        Ranked(
            f"{grid.title}{', dev' * is_on_dev(read_rows(grid.curves))}",
            "real" if grid.data else "synthetic",
            f"grids/{grid.name}",
            rank(grid_arms(grid)),
        )
        for grid in read_grids().values()
        if grid.curves.exists()
    ]
    blocks = [_INTRODUCTION]
    for kind, head in _HEADS.items():
        own = [each for each in compared if each.kind == kind]
        if own:
            blocks += [head, _comparisons(own), _methods(own)]
    blocks += ["## Memory", _MEMORY, _memory(compared), "## Where a paper's advice did not hold here", _failed(found)]
    return "\n\n".join(block.strip() for block in blocks) + "\n"


@dataclass(frozen=True)
class Ranked:
    """A study or grid: its name, what it compares, on which kind of data, and the ranking of its arms."""

    title: str
    kind: str
    name: str
    ranking: Ranking


def _ranked(study: Study) -> Iterator[Ranked]:
    """Yield a study's comparisons, one per size of the training set."""
    by_size = study_arms(study)
    for size, arms in by_size.items():
        said = f": {int(size):,} examples" if size.isdigit() else ": all examples"
        yield Ranked(f"{study.title}{said if len(by_size) > 1 else ''}", study.data, study.name, rank(arms))


def _comparisons(compared: Sequence[Ranked]) -> str:
    lines = ["| compared on | best | not significantly worse | clearly below |", "|---|---|---|---|"]
    for each in compared:
        ranking = each.ranking
        tied, best = ranking.tied[1:], ranking.arms[0]
        below = [arm for arm in ranking.arms if arm not in ranking.tied]
        lines.append(f"| {each.title} (`{each.name}`) | {_score(best)} | {_scores(tied)} | {_scores(below)} |")
    return "\n".join(lines)


def _scores(arms: Sequence[Arm]) -> str:
    return "<br>".join(_score(arm) for arm in arms) or "–"


def _score(arm: Arm) -> str:
    interval = summarize(list(arm.scores.values())).interval
    spread = "" if interval is None else f" ± {50 * (interval[1] - interval[0]):.1f}"
    return f"`{arm.name}` {100 * arm.mean:.1f}{spread}"


def _methods(compared: Sequence[Ranked]) -> str:
    """Summarize each kind of method over the comparisons that include it; the same runs count once."""
    counts: dict[str, list[int]] = {}
    seen: set[tuple[tuple[int, float], ...]] = set()
    for each in compared:
        ranking = each.ranking
        new = [arm for arm in ranking.arms if tuple(sorted(arm.scores.items())) not in seen]
        seen |= {tuple(sorted(arm.scores.items())) for arm in new}
        kinds = dict.fromkeys(_kind(arm.name) for arm in new)
        tied = {_kind(arm.name) for arm in ranking.tied}
        for kind in kinds:
            row = counts.setdefault(kind, [0, 0, 0])
            row[0] += 1
            row[1] += kind == _kind(ranking.arms[0].name)
            row[2] += kind not in tied
    ordered = sorted(counts.items(), key=lambda item: (-item[1][0], item[1][2], -item[1][1]))
    lines = ["| method | comparisons | best of all | clearly below the best |", "|---|---:|---:|---:|"]
    rows = [f"| `{name}` | {n} | {best} | {below} |" for name, (n, best, below) in ordered]
    return "\n".join([*lines, *rows])


def _kind(arm: str) -> str:
    """Return an arm without its options: ``houlsby:size=64 (lr 0.001)`` is ``houlsby``."""
    return " + ".join(part.partition(":")[0].partition(" (")[0].strip() for part in arm.split(" + "))


def _memory(compared: Sequence[Ranked]) -> str:
    lines = ["| compared on | lightest not significantly worse | weights that learn | peak memory | of the best |"]
    lines += ["|---|---|---:|---:|---:|"]
    for each in compared:
        arm, best = each.ranking.lightest, each.ranking.arms[0]
        if arm is not None and arm.memory and best.memory:
            lines.append(
                f"| {each.title} | `{arm.name}` | {arm.share:.1%} | {arm.memory / 2**20:,.0f} MiB | "
                f"{best.memory / 2**20:,.0f} MiB (`{best.name}`) |"
            )
    return "\n".join(lines)


def _failed(found: Sequence[Checked]) -> str:
    lines = list(_failures(found))
    return "\n".join(lines) or "Nowhere: each decided claim holds."


def _failures(found: Sequence[Checked]) -> Iterator[str]:
    for each in found:
        for kind, verdict in ((kind, verdict) for kind, own in each.measured.items() for verdict in own):
            if verdict.outcome.state == "fails":
                first = next(finding for finding in verdict.outcome.findings if finding.state == "fails")
                yield f"- **{each.claim.id}** ({kind} data) {each.claim.wording} Here: {first.text}."
