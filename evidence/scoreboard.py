"""Make the scoreboard: every claim with the verdict of each source of numbers, as a table and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from evidence.deciding import deciding_section
from evidence.doubts import limits_of_authors, limits_of_verdict, names_of
from evidence.limits import Limit
from evidence.studies import FOLDER, Study
from evidence.verdicts import AUTHORS, CONTRADICTS, Checked, deciding, share_of_parts
from gradgate.errors import listed
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims.base import UNKNOWN
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
_PRINTED_ELSEWHERE = {"A5": "on GLUE; the paper shows it in a figure without numbers"}
"""Claims that a figure without numbers shows, so that other printed numbers stand in."""
_OTHER_TASKS, _OWN_RATES = "other tasks", "own rates"
_INTRODUCTION = """\
# Scoreboard

Every claim of the four papers, with the verdict of each source of numbers: ✓ holds, ✗ fails, ? cannot tell, – nothing
to compare. *Printed*: the paper's own numbers. *Authors*: [all runs that the authors of Elsa published](authors.md).
*Real*: a pretrained encoder on public data. *Synthetic*: the embedded encoder on generated tasks, from which nothing
follows for real texts. A verdict covers the models and tasks named next to it, and nothing else.
[Evidence](README.md) has the rules and the numbers of every part; [scoreboard.csv](scoreboard.csv) is this page for
scripts, and `gradgate papers` shows the same verdicts; both say *cannot tell* where this page has –.
"""
_BEHIND = """\
## The numbers behind

Each line shows the deciding part; if none decides, the first undecided one, and then that of the other tasks, if
there are such studies. *Short training*, *rates at the edge*, *rates tied on dev*, *scores near guessing* and *at the
ceiling*, *encoder trained for similarity before*, *little trained language adapters*, *changed after scores on test*
and *dev rows that picked the rates* are limits, which [Evidence](README.md) explains: longer runs, other rates or
other rows may change the verdict. So may rates in general, as most were picked by one run each. *Traces* and
*representations at different rates*: the arms that are compared took different learning rates, which change a trace
as a schedule does, and move representations. *Other tasks*: of the same kind as the paper's. *Own rates*: each arm
has a learning rate of its own, while the paper gave all that of full fine-tuning. *GLUE alone*: the authors published
no runs of named entities and parts of speech. If runs collapsed (ten points and five robust standard deviations below
the median of their arm), the verdict without them follows.
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
        cell = _measured_cell(source, chosen, limits_of_verdict(chosen, studies))
        others = [
            "; ".join(
                (
                    f"{other.tasks}, {other.outcome.state}: {deciding(other.outcome)}",
                    *_limits(limits_of_verdict(other, studies)),
                )
            )
            for other in verdicts
            if other != chosen
        ]
        return replace(cell, row=replace(cell.row, note="; ".join((cell.row.note, *others))))
    if len({verdict.outcome.state for verdict in decided}) > 1:
        states = "; ".join(f"{verdict.outcome.state} in {verdict.source}" for verdict in decided)
        row = replace(_filled(source, chosen), verdict=UNKNOWN, note=f"{CONTRADICTS}: {states}")
        return BoardCell(row, (CONTRADICTS,))
    row, where = _filled(source, chosen), _PRINTED_ELSEWHERE.get(each.claim.id)
    return BoardCell(replace(row, note=f"{row.note}; {where}"), (where,)) if where else BoardCell(row)


def _measured_cell(source: str, verdict: ClaimVerdict, limits: Mapping[str, Sequence[Limit]]) -> BoardCell:
    """Return the cell of runs, with what limits them in its note and, by name, in its small print."""
    if source == AUTHORS:
        scope = [*limits_of_authors()]
        note = [*scope]
    else:
        own = [_OWN_RATES] * (verdict.claim.id in _AT_ONE_RATE)
        scope = [*[_OTHER_TASKS] * verdict.stand_in, *own]
        note = [verdict.tasks, *own, *_limits(limits)]
    row = _filled(source, verdict)
    share = [text] if (text := share_of_parts(verdict.outcome)) else []
    shown = [*(share if row.verdict != UNKNOWN else []), *scope, *names_of(limits)]
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
    blocks = [_INTRODUCTION, _counts(cells), _elsewhere(cells), _grid(found, by_claim), _BEHIND]
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


def _elsewhere(cells: Sequence[BoardCell]) -> str:
    """Say which claims real data decide on other tasks than the paper's; empty if there is none."""
    decided = [cell for cell in cells if cell.row.source == "real" and cell.row.verdict != UNKNOWN]
    others = [cell.row.claim for cell in decided if _OTHER_TASKS in cell.small_print]
    if not others:
        return ""
    are = "is" if len(others) == 1 else "are"
    claims = f"{listed(others)} {are} decided on other tasks than the paper's"
    return f"Of {len(decided)} claims that real data decide, {claims}."


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
