"""Make the scoreboard: every claim with the verdict of each source of numbers, as a table and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from evidence.authors import COPIED, RATE_OF_FULL, UNTRAINED
from evidence.deciding import deciding_section
from evidence.limits import NAMES, TRACES, Limit, limits_of, limits_of_traces
from evidence.studies import FOLDER, Study
from evidence.verdicts import AUTHORS, Checked, deciding
from gradgate.papers.arms import task_label
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims.base import FAILS, UNKNOWN
from gradgate.papers.published import papers
from gradgate.papers.scoreboard import SOURCES, ScoreboardRow

TABLE = FOLDER / "scoreboard.csv"
PAGE = FOLDER / "scoreboard.md"
PRINTED = SOURCES[0]
_SIGNS = {"holds": "✓", "fails": "✗", UNKNOWN: "?"}
_NOTHING = {
    PRINTED: "the paper prints no numbers for it",
    AUTHORS: "no runs of the authors are here",
    "real": "no study on real data compares it",
    "synthetic": "no study on generated data compares it",
}
_AT_ONE_RATE = ("E1", "E2", "E3", "E4", "E5", "E6")
"""Claims of a paper whose arms all have the learning rate of full fine-tuning."""
_OF_TRACES = ("F9", "F10")
"""Claims that compare Fisher traces."""
_OTHER_TASKS, _OWN_RATES, _GLUE_ALONE = "other tasks", "own rates", "GLUE alone"
_INTRODUCTION = """\
# Scoreboard

Every claim of the four papers, with the verdict of each source of numbers: ✓ holds, ✗ fails, ? cannot tell, – nothing
to compare. *Printed*: the paper's own numbers. *Authors*: [all runs that the authors of Elsa published](authors.md).
*Real*: a pretrained encoder on public data. *Synthetic*: the embedded encoder on generated tasks, from which nothing
follows for real texts. A verdict covers the models and tasks named next to it, and nothing else.
[Evidence](README.md) has the rules and the numbers of every part; [scoreboard.csv](scoreboard.csv) is this page for
scripts, and `gradgate papers` shows the same verdicts.
"""
_BEHIND = """\
## The numbers behind

Each line shows the deciding part; if none decides, the first undecided one, and then that of the other tasks, if there
are such studies. *Short training*, *rates at the edge* and *scores near guessing* are limits of the study: longer
runs, other rates or more rows may change the verdict. *Traces at different rates*: the adapters whose Fisher traces
are compared took different learning rates, which change a trace as a schedule does. *Other tasks*: of the same kind as
the paper's. *Own rates*: each arm has a learning rate of its own, while the paper gave all that of full fine-tuning.
*GLUE alone*: the authors published no runs of named entities and parts of speech. If runs collapsed (ten points and
five robust standard deviations below the median of their arm), what is left without them follows.
"""


@dataclass(frozen=True)
class BoardCell:
    """The verdict of one source on one claim, as the grid shows it.

    Attributes:
        small_print: the names of what limits the verdict, in the order in which the cell shows them.
    """

    row: ScoreboardRow
    small_print: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to compare."""
        return not self.row.tasks and self.row.verdict == UNKNOWN


def scoreboard_cells(found: Sequence[Checked], studies: Sequence[Study]) -> list[BoardCell]:
    """Return a cell per claim and source, in the order of the claims."""
    by_name = {study.name: study for study in studies}
    return [_cell(each, source, by_name) for each in found for source in SOURCES]


def _cell(each: Checked, source: str, studies: Mapping[str, Study]) -> BoardCell:
    verdicts = [v for v in each.printed if v.checked] if source == PRINTED else list(each.measured.get(source, ()))
    if not verdicts:
        note = _NOTHING[source]
        return BoardCell(
            ScoreboardRow(claim=each.claim.id, source=source, verdict=UNKNOWN, seeds=0, tasks=0, note=note)
        )
    decided = [verdict for verdict in verdicts if verdict.outcome.state != UNKNOWN]
    chosen = (decided or verdicts)[0]  # those on the paper's tasks come first
    if source != PRINTED:
        cell = _measured_cell(source, chosen, _studies_of(chosen, studies))
        others = [
            "; ".join(
                (
                    f"{other.tasks}, {other.outcome.state}: {deciding(other.outcome)}",
                    *_limits(_limits_of(other, _studies_of(other, studies))),
                )
            )
            for other in verdicts
            if other != chosen
        ]
        return replace(cell, row=replace(cell.row, note="; ".join((cell.row.note, *others))))
    if len({verdict.outcome.state for verdict in decided}) > 1:
        states = "; ".join(f"{verdict.outcome.state} in {verdict.source}" for verdict in decided)
        return BoardCell(
            replace(_filled(source, chosen), verdict=UNKNOWN, note=f"the paper contradicts itself: {states}")
        )
    return BoardCell(_filled(source, chosen))


def _studies_of(verdict: ClaimVerdict, studies: Mapping[str, Study]) -> list[Study]:
    return [studies[name] for part in verdict.parts if (name := Path(part).stem) in studies]


def _limits_of(verdict: ClaimVerdict, studies: Sequence[Study]) -> dict[str, tuple[Limit, ...]]:
    """Return what limits a verdict, by study; of a claim that fails, by the studies of the tasks on which it does."""
    of_traces = verdict.claim.id in _OF_TRACES
    if verdict.outcome.state == FAILS:
        tasks = {task for finding in verdict.outcome.findings if finding.state == FAILS for task in finding.tasks}
        own = [study for study in studies if task_label(verdict.claim.paper, study.compare["task"]) in tasks]
        studies = own or studies
    return {study.name: limits_of(study) + (limits_of_traces(study) if of_traces else ()) for study in studies}


def _measured_cell(source: str, verdict: ClaimVerdict, studies: Sequence[Study]) -> BoardCell:
    """Return the cell of runs, with what limits them in its note and, by name, in its small print."""
    limits = _limits_of(verdict, studies)
    if source == AUTHORS:
        scope = [_GLUE_ALONE, RATE_OF_FULL, UNTRAINED, COPIED]
        note = [*scope]
    else:
        own = [_OWN_RATES] * (verdict.claim.id in _AT_ONE_RATE)
        scope = [*[_OTHER_TASKS] * verdict.stand_in, *own]
        note = [verdict.tasks, *own, *_limits(limits)]
    there = {limit.name for own in limits.values() for limit in own}
    doubts = [name for name in (*NAMES, TRACES) if name in there]
    row = _filled(source, verdict)
    shown = doubts if row.verdict == UNKNOWN else [*scope, *doubts]
    steady = verdict.without_collapsed
    if steady is not None and deciding(steady) != row.note:
        note.append(f"without collapsed runs, {steady.state}: {deciding(steady)}")
        shown += [f"{steady.state} without collapsed runs"] * (steady.state != row.verdict)
    return BoardCell(replace(row, note="; ".join((row.note, *note))), tuple(shown))


def _limits(limits: Mapping[str, Sequence[Limit]]) -> list[str]:
    """Return the limits of studies, with their names if there are several."""
    said = {study: "; ".join(map(str, own)) for study, own in limits.items() if own}
    return [f"{study}: {own}" if len(limits) > 1 else own for study, own in said.items()]


def _filled(source: str, verdict: ClaimVerdict) -> ScoreboardRow:
    compared = [finding for finding in verdict.outcome.findings if finding.compared]
    seeds = [finding.seeds for finding in compared if finding.seeds]
    tasks = {task for finding in compared for task in finding.tasks}
    return ScoreboardRow(
        claim=verdict.claim.id,
        source=source,
        verdict=verdict.outcome.state,
        seeds=min(seeds, default=0),
        tasks=len(tasks),
        note=deciding(verdict.outcome),
    )


def scoreboard_page(found: Sequence[Checked], cells: Sequence[BoardCell]) -> str:
    """Return the page as Markdown: the grid first, as HTML that reads without its colours."""
    by_claim: dict[str, list[BoardCell]] = {}
    for cell in cells:
        by_claim.setdefault(cell.row.claim, []).append(cell)
    blocks = [_INTRODUCTION, _counts(cells), _grid(found, by_claim), _BEHIND]
    blocks += ["\n".join(_behind(each, by_claim[each.claim.id])) for each in found]
    open_claims = [each for each in found if not _is_decided(by_claim[each.claim.id])]
    blocks.append(deciding_section(open_claims))
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def _is_decided(cells: Sequence[BoardCell]) -> bool:
    """Return True if the authors' runs or real data decide a claim."""
    return any(cell.row.verdict != UNKNOWN for cell in cells if cell.row.source in (AUTHORS, "real"))


def _counts(cells: Sequence[BoardCell]) -> str:
    lines = ["| source | holds | fails | cannot tell | nothing to compare |", "|---|---:|---:|---:|---:|"]
    for source in SOURCES:
        own = [cell for cell in cells if cell.row.source == source]
        states = [sum(cell.row.verdict == state and not cell.is_empty for cell in own) for state in _SIGNS]
        lines.append(f"| {source} | {' | '.join(map(str, states))} | {len(own) - sum(states)} |")
    return "\n".join(lines)


def _grid(found: Sequence[Checked], by_claim: dict[str, list[BoardCell]]) -> str:
    heads = "".join(f"<th>{source}</th>" for source in SOURCES)
    lines = [f'<table class="scoreboard">\n<thead><tr><th></th><th>claim</th>{heads}</tr></thead>\n<tbody>']
    paper = ""
    for each in found:
        if each.claim.paper != paper:
            paper = each.claim.paper
            lines.append(f'<tr><th colspan="{2 + len(SOURCES)}">{escape(papers()[paper].name)}</th></tr>')
        cells = "".join(map(_shown, by_claim[each.claim.id]))
        lines.append(f"<tr><td>{escape(each.claim.id)}</td><td>{escape(each.claim.wording)}</td>{cells}</tr>")
    return "\n".join([*lines, "</tbody>\n</table>"])


def _shown(cell: BoardCell) -> str:
    title, state = escape(cell.row.note, quote=True), cell.row.verdict
    if cell.is_empty:
        return f'<td class="nothing" title="{title}">–</td>'
    small = f"<br><small>{', '.join(cell.small_print)}</small>" if cell.small_print else ""
    return f'<td class="{state.replace(" ", "-")}" title="{title}">{_SIGNS[state]} {state}{small}</td>'


def _behind(each: Checked, cells: Sequence[BoardCell]) -> Iterator[str]:
    yield f"- **{each.claim.id}** {each.claim.wording}"
    for cell in cells:
        if not cell.is_empty:
            yield f"  - {cell.row.source}, {cell.row.verdict}: {cell.row.note}"
