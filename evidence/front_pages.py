"""Write the generated part of the first pages, README.md and docs/index.md: one result in words, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from evidence.effects import ALL, BASE, CLASSIFY, EMBEDDED, ONE_RATE, OTHER_MODEL, PAIRS, SMALL, THOUSANDS, Where
from evidence.front_picture import FILE, described, drawn, shown
from evidence.limits import SHORT_TRAINING
from evidence.pooling import Pooled
from evidence.studies import FOLDER
from evidence.summaries import ArmInSituation, SituationAdvice, pool, without_collapsed
from evidence.what_to_use import advices, task_counts
from gradgate.papers.claims.thresholds import counted_tasks
from gradgate.statistics import Word

README = FOLDER.parent / "README.md"
INDEX = FOLDER.parent / "docs" / "index.md"
MARK = "made by python -m evidence pages"
RESULT, PICTURE = "result", "picture"
WIDTH = 118
"""Of the lines, in characters."""
_LEFT_OUT = {SHORT_TRAINING, ONE_RATE, OTHER_MODEL}
"""Doubts about the arm of a situation that keep it out of the picture."""


def written() -> dict[Path, str]:
    """Return the pages and the picture with their texts."""
    found = advices()
    known = [advice for advice in found.values() if advice is not None]
    real = [advice for advice in known if advice.where.model != EMBEDDED and advice.shown is not None]
    sound = in_picture(real)
    frozen, ours = (_half(found[where]) for where in (Where(PAIRS, ALL, BASE), Where(CLASSIFY, THOUSANDS, SMALL)))
    result, behind = result_of(frozen, ours), behind_it(frozen, len(real) - len(sound))
    pictures = {
        README: f"![{described(sound)}]({FILE.relative_to(README.parent).as_posix()})",
        INDEX: f"```{{raw}} html\n:file: {FILE.relative_to(INDEX.parent).as_posix()}\n```",
    }
    pages = {
        page: replaced(replaced(page.read_text(encoding="utf-8"), RESULT, result), PICTURE, f"{behind}\n\n{picture}")
        for page, picture in pictures.items()
    }
    return {FILE: drawn(sound), **pages}


def in_picture(advices: Sequence[SituationAdvice]) -> list[SituationAdvice]:
    """Return the situations whose runs are long enough, at rates that were searched; each has an arm to show."""
    return [each for each in advices if _LEFT_OUT.isdisjoint(shown(each).doubts)]


def replaced(page: str, name: str, text: str) -> str:
    """Return a page with what is between the two lines of a part replaced.

    Args:
        name: of the part, in the lines ``begin NAME, made by …`` and ``end NAME, …``.

    Raises:
        ValueError: if the page lacks one of the two lines.
    """
    lines = page.splitlines()
    marks = (f"{word} {name}, {MARK}" for word in ("begin", "end"))
    first, last = (next((i for i, line in enumerate(lines) if mark in line), None) for mark in marks)
    if first is None or last is None:
        raise ValueError(f"The page has no lines 'begin {name}, {MARK}' and 'end {name}, {MARK}'. Add both.")
    return "\n".join([*lines[: first + 1], text, *lines[last:]]) + "\n"


def result_of(frozen: ArmInSituation, ours: ArmInSituation) -> str:
    """Return the result in two sentences: what freezing half of the layers does at full's rate, and at its own.

    Args:
        frozen: a base encoder on GLUE, by the Elsa authors.
        ours: the smaller encoder of our studies.
    """
    theirs, own = (change(pool(arm.effects)) for arm in (frozen, ours))
    return fill(
        f"**On GLUE, freezing half of the layers of a base encoder {theirs} in the runs of Lee et al. (2019), at the "
        f"learning rate of full fine-tuning. In ours, of a small encoder on {counted_tasks(ours.pooled.tasks)} with a "
        f"searched rate for each arm{_limits(ours)}, it {own}. "
        "gradgate measures what such a choice costs or gains on your model and data.**",
        WIDTH,
    )


def _limits(arm: ArmInSituation) -> str:
    return f" (limits of some: {', '.join(arm.caveats)})" if arm.caveats else ""


def behind_it(frozen: ArmInSituation, left_out: int) -> str:
    """Return what the result is computed from, and how many situations the picture leaves out."""
    models, half = len({effect.source for effect in frozen.effects}), task_counts(0.5)
    return fill(
        f"The result on GLUE is the mean over {frozen.pooled.tasks} tasks and {models} encoders, of all runs that the "
        "authors of *What Would Elsa Do?* published. Rates were searched for full fine-tuning alone, and its runs may "
        "have left biases and LayerNorm weights as they were ([limits](evidence/authors.md#limits-of-these-runs))."
        f"{_without_collapsed(frozen)} Of {half['all']} pairs of task and model, base and large, {half[Word.WORSE]} "
        f"are worse with half of the layers frozen, and {half[Word.BETTER] or 'none'} better. Memory and time were not "
        "recorded; [in ours](evidence/README.md), on a CPU, frozen layers make a step faster (claim E8 of the "
        "[scoreboard](evidence/scoreboard.md)). The intervals above are for this one comparison; those below, and in "
        "[What should I use?](evidence/what-to-use.md), hold for all arms of a situation together, so they are wider. "
        f"The picture leaves out {left_out} situations whose runs were short, had one rate each or compared different "
        "models, and all on generated data: that page has them, and those of which nothing is known.",
        WIDTH,
        break_on_hyphens=False,
    )


def _without_collapsed(arm: ArmInSituation) -> str:
    """Say what is left without collapsed runs, if there are any."""
    steady = without_collapsed(arm.effects)
    return f" Without collapsed runs, freezing {change(steady)}." if steady else ""


def change(pooled: Pooled) -> str:
    """Return a difference as a verb, its points and their interval."""
    low, high = pooled.interval
    if low <= 0 <= high:
        numbers = f"{pooled.mean:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"
        return f"has an inconclusive effect of {numbers.replace('-', '−')}"
    verb, ends = ("gains", (low, high)) if low > 0 else ("costs", (-high, -low))
    return f"{verb} {abs(pooled.mean):.1f} points (95 % interval {ends[0]:.1f} to {ends[1]:.1f})"


def _half(advice: SituationAdvice | None) -> ArmInSituation:
    assert advice is not None, "no run is of this situation"
    return next(arm for arm in advice.arms if arm.arm == "freeze half of the layers")
