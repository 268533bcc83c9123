"""What ``gradgate papers`` and ``gradgate reproduce`` show on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gradgate.papers.check import Verdict
from gradgate.papers.claims import claims
from gradgate.papers.planning import Plan
from gradgate.papers.preset import presets
from gradgate.papers.published import papers
from gradgate.report.formats import counted

_STYLES = {"holds": "green", "fails": "red", "cannot tell": "yellow"}


def papers_list(only: str | None = None) -> Group:
    """Each paper, or the one with this key, with its presets and its claims."""
    blocks: list[RenderableType] = []
    for key, paper in papers().items():
        if only not in (None, key):
            continue
        blocks.append(Text(f"{paper.name}: {paper.title}", style="bold"))
        blocks.append(_indented(f"{paper.authors}, {paper.link}"))
        own = [preset for preset in presets().values() if preset.paper == key]
        width = max(len(preset.name) for preset in own)
        blocks += [_indented(f"{preset.name:<{width}}  {preset.title}") for preset in own]
        blocks.append(_indented("claims (* what scores of runs can check):"))
        blocks += [
            _indented(f"{claim.id:<3} {'*' if claim.check else ' '} {claim.wording}", 6) for claim in claims(key)
        ]
    return Group(*blocks)


def verdicts_list(verdicts: Sequence[Verdict]) -> Group:
    """Each claim that could be compared with its numbers, then the others in short; one block a source of numbers."""
    blocks: list[RenderableType] = []
    by_source = groupby(verdicts, lambda verdict: (verdict.claim.paper, verdict.notes))
    for (paper, notes), group in by_source:
        every = list(group)
        checked = [verdict for verdict in every if verdict.checked]
        rest = [verdict for verdict in every if not verdict.checked]
        if not checked:
            listed = ", ".join(verdict.claim.id for verdict in rest)
            blocks.append(Text(f"{papers()[paper].name}: nothing to compare ({listed})", style="dim"))
            continue
        blocks.append(Text(papers()[paper].name, style="bold"))
        blocks += [_indented(f"Note: {note}.") for note in notes]
        blocks += [block for verdict in checked for block in _verdict(verdict)]
        blocks += [_indented(f"{v.claim.id:<3} cannot tell: {v.outcome.findings[0].text}") for v in rest]
    return Group(*blocks)


def _verdict(verdict: Verdict) -> list[RenderableType]:
    outcome = verdict.outcome
    line = Text(f"{verdict.claim.id:<3} ")
    line.append(outcome.state, style=_STYLES[outcome.state])
    line.append(f": {verdict.claim.wording}")
    rule = f"; {outcome.rule}" if outcome.rule else ""
    lines: list[RenderableType] = [
        Padding(line, (0, 0, 0, 3), expand=False),
        _indented(f"on {verdict.source}{rule}", 7),
    ]
    for finding in outcome.findings:
        text = Text(f"{finding.state}: ", style=_STYLES[finding.state])
        text.append(finding.text, style="default")
        lines.append(Padding(text, (0, 0, 0, 7), expand=False))
    return lines


def plan_lines(plan: Plan) -> list[str]:
    """What a reproduction is about to do."""
    studies = plan.studies()
    lines = [f"{plan.preset.name}: {plan.preset.title}"]
    amount = f"{counted(plan.count, 'run')} in {counted(len(studies), 'study').replace('studys', 'studies')}"
    minutes = plan.minutes
    length = "" if minutes is None else f", about {max(1, round(minutes))} min on two cores"
    lines.append(f"{amount}, {counted(len(plan.seeds), 'seed')} each{length}.")
    lines += [f"- {note}" for note in plan.notes]
    reasons: dict[str, list[str]] = {}
    for what, why in plan.left_out.items():
        reasons.setdefault(why, []).append(what)
    for why, cells in reasons.items():
        more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
        lines.append(f"- Left out: {'; '.join(cells[:3])}{more}: {why}.")
    return lines


def _indented(text: str | Text, by: int = 3) -> Padding:
    return Padding(Text(text) if isinstance(text, str) else text, (0, 0, 0, by), expand=False)
