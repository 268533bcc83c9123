"""Write ``what-to-use.md``: what to use in which situation, from all runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evidence.advised_command import command
from evidence.authors import FILE as AUTHORS_FILE
from evidence.authors import MULTI
from evidence.authors_page import task_verdicts
from evidence.effects import (
    ALL,
    ANSWERS,
    BASE,
    BILLIONS,
    CLASSIFY,
    EMBEDDED,
    ENTITIES,
    FEW,
    GENERATE,
    HUNDREDS,
    LARGE,
    MANY,
    MATH,
    MILLIONS,
    MISMATCHED,
    MULTILINGUAL,
    PAIRS,
    PROBED,
    SIMILARITY,
    SMALL,
    TAGS,
    THOUSANDS,
    Where,
    effects,
)
from evidence.pooling import Pooled
from evidence.studies import FOLDER
from evidence.summaries import MARGIN, NOT_SHOWN, ArmInSituation, SituationAdvice, summarize, with_rows
from gradgate.papers.claims.thresholds import counted_tasks
from gradgate.papers.frozen import frozen_share
from gradgate.papers.recorded import read_numbers
from gradgate.statistics import Word

PAGE = FOLDER / "what-to-use.md"
_ANY = "any"
_WIDEST = 25
"""Points: a wider interval says nothing, as the scores are between 0 and 100."""
SITUATIONS = (
    Where(CLASSIFY, THOUSANDS, SMALL),
    Where(PAIRS, ALL, BASE),
    Where(PAIRS, ALL, LARGE),
    Where(ENTITIES, THOUSANDS, SMALL),
    Where(ENTITIES, THOUSANDS, MULTILINGUAL),
    Where(CLASSIFY, THOUSANDS, MULTILINGUAL),
    Where(SIMILARITY, THOUSANDS, SMALL),
    Where(SIMILARITY, THOUSANDS, MULTILINGUAL),
    Where(TAGS, THOUSANDS, MULTILINGUAL),
    Where(GENERATE, THOUSANDS, MILLIONS),
    Where(GENERATE, MATH, BILLIONS),
    Where(ENTITIES, THOUSANDS, MULTILINGUAL, MANY),
    Where(CLASSIFY, THOUSANDS, MULTILINGUAL, MANY),
    Where(TAGS, THOUSANDS, MULTILINGUAL, MANY),
    Where(CLASSIFY, "8 rows per class", PROBED),
    Where(CLASSIFY, "64 rows per class", PROBED),
    Where(CLASSIFY, HUNDREDS, EMBEDDED),
    Where(CLASSIFY, HUNDREDS, EMBEDDED, MANY),
    Where(ENTITIES, HUNDREDS, EMBEDDED),
    Where(ENTITIES, HUNDREDS, EMBEDDED, MANY),
    Where(TAGS, HUNDREDS, EMBEDDED, MANY),
    Where(ANSWERS, HUNDREDS, EMBEDDED, MANY),
    Where(CLASSIFY, "under 7,000 rows, tasks other than GLUE's", "encoder of 100 M or more"),
    Where(CLASSIFY, _ANY, "multilingual encoder of 100 M or more", MANY),
    Where(ENTITIES, FEW, MULTILINGUAL, MANY),
    Where(f"{ENTITIES} or {TAGS}", _ANY, "encoder of 100 M or more"),
    Where(ANSWERS, _ANY, "pretrained encoder"),
    Where("multiple choice or other regression", _ANY, _ANY),
    Where(GENERATE, "under 20,000 rows", "decoder of more than 1 B"),
    Where(GENERATE, _ANY, "decoder of more than 3 B"),
)
_INTRODUCTION = """\
# What should I use?

Full fine-tuning, freezing, LoRA or a probe: find the row nearest to your task, rows and model. The answers are
computed from the runs in `evidence/` that compare an arm with full fine-tuning: our studies and grids, [the Elsa
authors' runs](authors.md), [SetFit's few-shot results](foreign/setfit.csv) and [PEFT's method
comparison](foreign/peft.csv). [How the numbers are made](#how-the-numbers-are-made) says what is left out.

```shell
gradgate recommend --model MODEL --task TASK --minutes 30
```

This command looks for the best arm on your own data: use it where *nothing is known*. Where a row is *undecided*, its
command compares the two arms; add `--dry-run` to see which difference its seeds can detect. A row says *full
fine-tuning* unless an arm is shown to be better, or to be worse by less than 1 point at a lower cost. Differences are
to full fine-tuning, in points of the task's metric, with 95 % intervals; of two tasks, each has its own. An option
such as `layers=3` or `size=64` is the most frequent one of these runs: for a model with more layers or a larger width,
scale it. `--lr` is the middle one of the rates that the arm took in these runs, with batches of 16 in most, and
`--search` a range around those of both arms: at another rate, an arm may lose what its row shows. Most rates were
picked by one run each ([how surely](README.md#what-is-missing)).
"""
_METHOD = """\
## How the numbers are made

- **An effect** is an arm minus full fine-tuning, with one model on one task: the paired difference if the runs share
  seeds, else Welch's. What one study has of an arm, such as two widths of an adapter or two training sizes, is averaged
  first, then the studies of a task, which may differ in the model or the number of rows.
- **Scores** are those of test, by the metric that a study picks its settings with; *scores on dev*, in the limits of
  runs, come from the rows that settings were picked on. Claims of a paper that scores GLUE's dev are checked on dev, so
  their numbers differ from these. An encoder *trained for similarity before* knows the task of its row already.
- **A situation** of three or more tasks pools them by a random-effects mean, with Paule and Mandel's variance between
  tasks and the interval of Hartung, Knapp, Sidik and Jonkman. The interval is for the mean over tasks like these;
  single tasks differ by the *deviation between tasks*. One task has the t interval over its runs. Two have one each:
  an arm is better, worse, or worse by less than a point only if it is on both.
- **All arms of a situation** form one family: their intervals hold together at 95 % (Bonferroni), over all arms that
  a source compared, including those that gradgate lacks, and over both tasks of an arm that has two. They are over
  runs and test rows if all studies of an arm stored their predictions for each row, but never narrower than over runs;
  else over runs alone, with the test rows as they are (*test rows not counted*).
- **Collapsed runs** are ten points and five robust standard deviations below the median of their arm. Where there are
  any, the second difference is without them, with an interval over runs alone, which the family does not count.
- **The arm of a row** is one that is better than full fine-tuning, if there is one; else the cheapest that is no
  worse by more than 1 point; else full fine-tuning. It replaces full fine-tuning only if nothing about its runs is in
  doubt. If no arm is left, and one in doubt is better or a cheaper one may be as good, the row says *undecided*:
  choose the cheaper one if memory or time matters more.
- **Doubts**: after *short training*, more steps may change the difference; with *rates at the edge*, *rates tied on
  dev* (several reached the same score, and the lowest was taken), *one rate each* or a *rate searched for full alone*,
  other learning rates may. With *scores near guessing*, some arms learned little; with *scores at the ceiling*,
  all of them learned all that there is. *Little trained language adapters* had a few hundred steps of
  pretraining. *Changed after scores on test*: the study got more seeds, rates or an arm, or was done again, when its
  scores were known. *Reruns of one seed* vary less than seeds do. *Full may have left biases and LayerNorm weights
  untrained* is [a property of the authors' runs](authors.md#limits-of-these-runs); *full is another, larger model*, one
  of SetFit's.
- **The number of rows** is that of the runs of the arm that a line shows; a situation may have other arms with more.
- **Confidence** is *high* for five or more tasks without a known limit, *medium* for three or more, and *low* for one
  or two tasks, doubts about most of the tasks, fewer than three runs per arm, another model as full fine-tuning, or
  generated data. It names the doubts; the tables below have the limits of the runs in full.
- **Left out** are grids on real data of fewer than 100 steps, which end long before the arms are trained, and those
  whose full fine-tuning took the lowest or the highest rate: at a better one, what an arm gains may be gone.
"""
_FREEZING = """\
## Where freezing does not help

In these situations, an arm that leaves layers or groups closed is worse than full fine-tuning:

| situation | arm | difference to full | tasks | limits |
|---|---|---:|---:|---|
{rows}

In the runs of the Elsa authors, without models trained on all tasks first, {worse} of {all} pairs of task and model are
worse with half of the layers frozen, and {better} better; with three quarters, {more_worse} and {more_better} of
{more_all} ([which](authors.md)).

Freezing from the bottom up saves memory and time: the backward pass stops at the lowest open layer, and closed weights
have no optimizer state. Use it if memory or time is short.
"""
_MEMORY = """\
## If memory or time is short

Memory and time are relative to full fine-tuning, if the runs recorded them. Our runs measured the time of a step and
the peak of the whole process on a CPU, libraries included; PEFT's, the time of the whole training and the peak of the
GPU's allocator. For your model, `gradgate memory --model MODEL -m full -m freeze:layers=6 -m lora:r=8` estimates each
arm without running it, and `--gpu GiB` lists first what fits.

| situation | arm | memory | time | difference to full | limits |
|---|---|---:|---:|---:|---|
{rows}
"""
_FROZEN = ("freeze", "head", "groups")
"""How the names of arms begin that leave groups closed all the time; the head alone is all layers frozen."""


def what_to_use() -> str:
    """Return the page as Markdown."""
    found = advices()
    known = [advice for advice in found.values() if advice is not None]
    blocks = [
        _INTRODUCTION,
        _table(found),
        freezing_section(known),
        _memory(known),
    ]
    blocks += [_METHOD, "## Every arm that was compared", *(block for advice in known for block in _arms(advice))]
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def advices() -> dict[Where, SituationAdvice | None]:
    """Return each situation with what to use; None where nothing is known.

    Raises:
        ValueError: if runs are of a situation that the page does not list.
    """
    every = effects()
    unlisted = {effect.where for effect in every} - set(SITUATIONS)
    if unlisted:
        raise ValueError(f"The page does not list {sorted(map(str, unlisted))}.")
    return {where: summarize(where, every) for where in SITUATIONS}


def _table(found: dict[Where, SituationAdvice | None]) -> str:
    lines = ["| task, rows, model, languages | use | difference to full | cost | confidence |", "|---|---|---|---|---|"]
    for where, advice in found.items():
        shown = where if advice is None else advice.where_of(advice.shown)
        given = f"**{shown.kind}**<br>{shown.rows}<br>{shown.model}<br>{shown.languages}"
        if advice is None:
            lines.append(
                f"| {given} | nothing is known here<br>`gradgate recommend --model MODEL --task TASK` | – | – | none |"
            )
        else:
            lines.append(
                f"| {given} | {_use(advice)}<br>`{command(advice)}` | {_difference(advice)} | {_cost(advice)} | "
                f"{advice.confidence} |"
            )
    return "\n".join(lines)


def _use(advice: SituationAdvice) -> str:
    return f"**{_named(advice)}**" + ("" if advice.why == NOT_SHOWN else f": {advice.why}")


def _named(advice: SituationAdvice) -> str:
    if advice.use is not None:
        return _called(advice.use)
    if advice.next is not None and advice.is_undecided:
        return f"undecided: full fine-tuning or {_called(advice.next)}"
    return "full fine-tuning"


def _called(arm: ArmInSituation) -> str:
    return arm.arm.replace("freeze ", "freezing ", 1)


def _difference(advice: SituationAdvice) -> str:
    if advice.use is not None:
        return points(advice.use)
    cheaper = advice.next
    return "reference" + (f"; {_called(cheaper)}: {points(cheaper)}" if cheaper else "")


def points(arm: ArmInSituation) -> str:
    """Return the difference of an arm with its interval, and both without collapsed runs if there are any."""
    if arm.without_collapsed is None:
        return _interval(arm.pooled)
    over_runs = " (test rows not counted)" * with_rows(arm.effects)
    return f"{_interval(arm.pooled)}; {_interval(arm.without_collapsed)} without collapsed runs{over_runs}"


def _interval(pooled: Pooled) -> str:
    if pooled.each:
        tasks = ", ".join(f"{task} {_interval(own)}" for task, own in pooled.each)
        return f"{pooled.mean:+.1f}".replace("-", "−") + f" ({tasks})"
    low, high = pooled.interval
    if high - low > 2 * _WIDEST:
        return f"{pooled.mean:+.1f} (interval wider than ±{_WIDEST})".replace("-", "−")
    digits = 2 if round(low, 1) == -MARGIN else 1  # on which side of the margin it lies decides a row
    return f"{pooled.mean:+.1f} [{low:+.{digits}f} to {high:+.{digits}f}]".replace("-", "−")


def _cost(advice: SituationAdvice) -> str:
    arm = advice.shown
    said = costs(arm) if arm else ""
    if not said:
        return "not recorded"
    return said if advice.use or arm is None else f"{_called(arm)}: {said}"


def costs(arm: ArmInSituation) -> str:
    """Return the memory and time of an arm relative to full fine-tuning, as far as they were recorded."""
    return ", ".join(filter(None, (_relative(arm, "memory", " memory"), _relative(arm, "seconds", " time"))))


def _relative(arm: ArmInSituation, name: str, word: str = "") -> str:
    """Return a cost with the number of tasks if it was not recorded on all; empty if it was on none."""
    value, tasks = arm.relative(name), arm.tasks_with(name)
    if value is None:
        return ""
    return f"{value:.2f}×{word}" + f" ({counted_tasks(tasks)})" * (tasks < arm.pooled.tasks)


def _arms(advice: SituationAdvice) -> Iterator[str]:
    situation = str(advice.where)
    yield f"### {situation[0].upper()}{situation[1:]}"
    lines = ["| arm | difference to full | tasks | rows | deviation between tasks | memory | time | runs of | limits |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|---|---|"]
    limits = list(dict.fromkeys(effect.limits for arm in advice.arms for effect in arm.effects if effect.limits))
    for arm in advice.arms:
        between = "–" if arm.pooled.between is None else f"{arm.pooled.between:.1f}"
        memory, seconds = (arm.relative(name) for name in ("memory", "seconds"))
        sources = ", ".join(dict.fromkeys(effect.source for effect in arm.effects))
        own = sorted({limits.index(effect.limits) + 1 for effect in arm.effects if effect.limits})
        lines.append(
            f"| {arm.arm} | {points(arm)} | {arm.pooled.tasks} | {arm.examples or '–'} | {between} | "
            f"{_times(memory)} | {_times(seconds)} | {sources} | {', '.join(map(str, own)) or '–'} |"
        )
    yield "\n".join(lines)
    if limits:
        yield "Limits of the runs:\n\n" + "\n".join(f"{number}. {text}" for number, text in enumerate(limits, 1))


def _memory(known: Sequence[SituationAdvice]) -> str:
    """Return the cheaper arms whose memory was recorded on real data, the smallest of each situation first."""
    rows = []
    for advice in (advice for advice in known if advice.where.model != EMBEDDED):
        arms = [arm for arm in advice.arms if arm.is_cheaper and arm.relative("memory") is not None]
        for arm in sorted(arms, key=lambda arm: arm.relative("memory") or 1.0):
            memory, seconds = (_relative(arm, name) or "–" for name in ("memory", "seconds"))
            limits = ", ".join(arm.caveats) or "–"
            rows.append(f"| {advice.where_of(arm)} | {arm.arm} | {memory} | {seconds} | {points(arm)} | {limits} |")
    return _MEMORY.format(rows="\n".join(rows))


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def freezing_section(known: Sequence[SituationAdvice]) -> str:
    """Return where freezing layers does not help, by the pooled differences and by single tasks."""
    rows = "\n".join(
        f"| {advice.where_of(arm)} | {_called(arm)} | {points(arm)} | {arm.pooled.tasks} | {_said(arm, advice)} |"
        for advice in known
        for arm in advice.arms
        if arm.arm.startswith(_FROZEN) and arm.pooled.interval[1] < 0
    )
    half, more = (task_counts(share) for share in (0.5, 0.75))
    return _FREEZING.format(
        rows=rows, all=half["all"], worse=half[Word.WORSE], better=half[Word.BETTER],
        more_worse=more[Word.WORSE], more_better=more[Word.BETTER], more_all=more["all"],
    )  # fmt: skip


def _said(arm: ArmInSituation, advice: SituationAdvice) -> str:
    little = "by less than 1 point" + " and cheaper, so recommended above" * (arm == advice.use)
    return ", ".join((*(little,) * arm.is_no_worse, *arm.caveats)) or "–"


def task_counts(share: float) -> dict[object, int]:
    """Count the verdicts on single tasks of the Elsa authors' runs at a share of frozen layers, MNLI once.

    Models that were trained on all tasks before are left out, as many of their runs are those of other models.
    """
    verdicts = task_verdicts(read_numbers(AUTHORS_FILE)["elsa"])
    places = [(each, each.place) for each in verdicts if frozen_share(each.label) == share]
    found = [each for each, at in places if at.task != MISMATCHED and not at.model.startswith(MULTI)]
    return {"all": len(found), **{word: sum(each.verdict.word is word for each in found) for word in Word}}


def written() -> dict[Path, str]:
    """Return the page with its text."""
    return {PAGE: what_to_use()}
