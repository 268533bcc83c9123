"""Write the generated part of the first pages, README.md and docs/index.md: one result in words, and its picture."""

from __future__ import annotations

from pathlib import Path

from evidence.effects import ALL, BASE, PAIRS, Where
from evidence.front_picture import FILE, described, drawn
from evidence.studies import FOLDER
from evidence.summaries import Advice, ArmSummary
from evidence.what_to_use import SITUATIONS, advices, task_counts
from gradgate.statistics import Word

README = FOLDER.parent / "README.md"
INDEX = FOLDER.parent / "docs" / "index.md"
BEGIN, END = "begin: python -m evidence pages", "end: python -m evidence pages"
SHOWN = SITUATIONS[:7]
"""The situations with runs on real data and whole schedules."""


def written() -> dict[Path, str]:
    """Return the pages and the picture with their texts."""
    found = advices()
    shown = [advice for where in SHOWN if (advice := found[where]) is not None]
    part = front_part(_of(found[Where(PAIRS, ALL, BASE)]))
    texts = {
        README: f"{part}\n\n![{described(shown)}]({FILE.relative_to(README.parent).as_posix()})",
        INDEX: f"{part}\n\n```{{raw}} html\n:file: {FILE.relative_to(INDEX.parent).as_posix()}\n```",
    }
    pages = {page: replaced(page.read_text(encoding="utf-8"), text) for page, text in texts.items()}
    return {FILE: drawn(shown), **pages}


def replaced(page: str, text: str) -> str:
    """Return a page with the lines between the two that name this command replaced.

    Raises:
        ValueError: if a page lacks one of the two lines.
    """
    lines = page.splitlines()
    first, last = (next((i for i, line in enumerate(lines) if mark in line), None) for mark in (BEGIN, END))
    if first is None or last is None:
        raise ValueError(f"The page has no line with {BEGIN!r} or with {END!r}. Add both.")
    return "\n".join([*lines[: first + 1], text, *lines[last:]]) + "\n"


def front_part(glue: Advice) -> str:
    """Return the result in words: what freezing half of the layers of a base encoder does on GLUE."""
    frozen = next(arm for arm in glue.arms if arm.arm == "freeze half of the layers")
    models, half = len({effect.source for effect in frozen.effects}), task_counts(0.5)
    return f"""\
**On GLUE, freezing half of the layers of a base encoder {change(frozen)}.
gradgate measures what such a choice costs or gains on your model and data.**

The number is the mean over {frozen.pooled.tasks} tasks and {models} encoders, of all runs that the authors of
*What Would Elsa Do?* published. Of their {half["all"]} pairs of task and model, base and large, {half[Word.WORSE]} are
worse with half of the layers frozen, and {half[Word.BETTER]} better; freezing saves memory and time.
[What should I use?](evidence/what-to-use.md) has every situation, and those of which nothing is known."""


def change(arm: ArmSummary) -> str:
    """Return a difference as a verb, its points and their interval."""
    low, high = arm.pooled.interval or (float("-inf"), float("inf"))
    if low <= 0 <= high:
        return f"changes the score by {arm.pooled.mean:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"
    verb, ends = ("gains", (low, high)) if low > 0 else ("costs", (-high, -low))
    return f"{verb} {abs(arm.pooled.mean):.1f} points (95 % interval {ends[0]:.1f} to {ends[1]:.1f})"


def _of(advice: Advice | None) -> Advice:
    assert advice is not None, "no run is of GLUE"
    return advice
