"""Draw the picture of the first pages: what the best cheaper arm gains or loses in each situation on real data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from evidence.effects import MANY, MULTILINGUAL, PAIRS
from evidence.studies import FOLDER
from evidence.summaries import MARGIN, ArmInSituation, SituationAdvice

FILE = FOLDER.parent / "docs" / "images" / "against-full.svg"
WIDTH, TOP, ROW, BOTTOM = 360, 78, 54, 50
LEFT, RIGHT = 10, 350
ENDS = (-6, 6)
"""Points at the left and right end of the scale."""
TITLE = "Difference to full fine-tuning"
NOTE = "Points of the task’s metric with 95 % intervals: the best"
NOTE_2 = "arm that trains fewer weights, on real data"
_STYLE = """\
svg.against-full { --ink: #1a1c1e; --muted: #5f666d; --rule: #c9ced3; --better: #00795a; --worse: #b84e00;
  --undecided: #5f666d; max-width: 30rem; width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { svg.against-full { --ink: #e6e8ea; --muted: #a4abb2; --rule: #4a5057;
  --better: #3cc3a5; --worse: #ff9a4d; --undecided: #a4abb2; } }
svg.against-full text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px;
  fill: var(--ink); }
svg.against-full .title { font-size: 16px; font-weight: 600; }
svg.against-full .muted { fill: var(--muted); }
svg.against-full .rule { stroke: var(--rule); stroke-width: 1; }
svg.against-full .better { fill: var(--better); stroke: var(--better); }
svg.against-full .worse { fill: var(--worse); stroke: var(--worse); }
svg.against-full .undecided { fill: var(--undecided); stroke: var(--undecided); }
svg.against-full text.better, svg.against-full text.worse, svg.against-full text.undecided { stroke: none; }"""


def drawn(advices: Sequence[SituationAdvice]) -> str:
    """Return the picture as SVG that follows light and dark, as a file and within a page."""
    height = TOP + ROW * len(advices) + BOTTOM
    rows = "\n".join(_row(advice, TOP + ROW * place) for place, advice in enumerate(advices))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="against-full" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-labelledby="against-full-title against-full-text">\n'
        f'<title id="against-full-title">{TITLE}</title>\n'
        f'<desc id="against-full-text">{escape(described(advices))}</desc>\n'
        f"<style>\n{_STYLE}\n</style>\n"
        f'<text class="title" x="{LEFT}" y="22">{TITLE}</text>\n'
        f'<text class="muted" x="{LEFT}" y="42">{NOTE}</text>\n'
        f'<text class="muted" x="{LEFT}" y="57">{NOTE_2}</text>\n'
        f"{rows}\n{_scale(TOP + ROW * len(advices))}\n</svg>\n"
    )


def described(advices: Sequence[SituationAdvice]) -> str:
    """Return what the picture shows in words and numbers, for those who cannot see it."""
    parts = (
        f"{_where(advice)}, {shown(advice).arm}: {_points(shown(advice))}, {_tasks(shown(advice))}, {word(advice)}"
        for advice in advices
    )
    return f"{TITLE}, in points with 95 % intervals: {'; '.join(parts)}."


def shown(advice: SituationAdvice) -> ArmInSituation:
    """Return the arm of a situation that has one."""
    arm = advice.shown
    assert arm is not None, f"no cheaper arm in {advice.where}"
    return arm


def word(advice: SituationAdvice) -> str:
    """Return ``better``, ``worse``, ``worse by less than 1 point`` or ``undecided``, by the interval that is shown."""
    low, high = shown(advice).pooled.interval
    if low > 0:
        return "better"
    return ("worse by less than 1 point" if low > -MARGIN else "worse") if high < 0 else "undecided"


def _row(advice: SituationAdvice, y: int) -> str:
    arm, kind = shown(advice), word(advice).split()[0]
    low, high = map(_x, arm.pooled.interval)
    mean, bar = _x(arm.pooled.mean), y + 41
    return (
        f'<text x="{LEFT}" y="{y + 12}">{escape(_where(advice))}</text>\n'
        f'<text class="muted" x="{LEFT}" y="{y + 27}">{escape(arm.arm)}</text>\n'
        f'<text class="{kind}" x="{RIGHT}" y="{y + 27}" text-anchor="end">{_points(arm)}, {_tasks(arm)}</text>\n'
        f'<line class="rule" x1="{_x(0):.1f}" x2="{_x(0):.1f}" y1="{y + 33}" y2="{y + 49}"/>\n'
        f'<line class="{kind}" stroke-width="3" x1="{low:.1f}" x2="{high:.1f}" y1="{bar}" y2="{bar}"/>\n'
        f'<circle class="{kind}" cx="{mean:.1f}" cy="{bar}" r="5"/>'
    )


def _scale(y: int) -> str:
    ticks = "\n".join(
        f'<line class="rule" x1="{_x(at):.1f}" x2="{_x(at):.1f}" y1="{y + 4}" y2="{y + 9}"/>\n'
        f'<text class="muted" x="{_x(at):.1f}" y="{y + 23}" text-anchor="middle">{at:+d}</text>'.replace("+0", "0")
        for at in range(-4, 5, 2)
    ).replace(">-", ">−")
    return (
        f'<line class="rule" x1="{LEFT}" x2="{RIGHT}" y1="{y + 4}" y2="{y + 4}"/>\n{ticks}\n'
        f'<text class="muted" x="{LEFT}" y="{y + 42}">← full fine-tuning is better</text>\n'
        f'<text class="muted" x="{RIGHT}" y="{y + 42}" text-anchor="end">the arm is better →</text>'
    )


def _x(points: float) -> float:
    """Return the place of a difference; one beyond the scale is at its end, and the numbers next to it are whole."""
    points = min(max(points, ENDS[0]), ENDS[1])
    return LEFT + (points - ENDS[0]) / (ENDS[1] - ENDS[0]) * (RIGHT - LEFT)


def _where(advice: SituationAdvice) -> str:
    """Return the situation in few words: the number of rows in thousands, the languages only if there may be many."""
    where = advice.where_of(advice.shown)
    kind = "GLUE" if where.kind == PAIRS else where.kind
    rows = re.sub(
        r"\d[\d,]* to \d[\d,]*|\d+,[\d,]+",
        lambda found: f"{'–'.join(map(_thousands, found[0].split(' to ')))} k",
        where.rows,
    )
    if where.model != MULTILINGUAL:
        return f"{kind}, {rows}, {where.model.replace('sentence ', '')}"
    return f"{kind}, {rows}, multilingual, {'zero-shot' if where.languages == MANY else where.languages}"


def _thousands(number: str) -> str:
    return f"{int(number.replace(',', '')) / 1000:g}"


def _tasks(arm: ArmInSituation) -> str:
    return f"{arm.pooled.tasks} task{'s' * (arm.pooled.tasks > 1)}"


def _points(arm: ArmInSituation) -> str:
    low, high = arm.pooled.interval
    return f"{arm.pooled.mean:+.1f} [{low:+.1f} to {high:+.1f}]".replace("-", "−")
