"""Make the scoreboard: every claim with the verdict of each source of numbers, as a table and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from evidence.authors import RATE_OF_FULL
from evidence.studies import AT_AN_END, FOLDER, SHORT_TRAINING, Study
from evidence.verdicts import AUTHORS, Checked, lacking
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims.base import HOLDS, MANY_REPEATS, UNKNOWN, ClaimCheck
from gradgate.papers.claims.numbers import kind_of
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
_AUTHORS_LIMITS = f"{RATE_OF_FULL}, which left biases and LayerNorm weights as they were"
_OF_ONE_MODEL = ("E2", "E3", "E5")
_ANOTHER_MODEL, _OTHER_TASKS, _NO_ENTITIES = "another model", "other tasks", "named entities not compared"
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

Each line shows the deciding part; if none decides, the first undecided one. *Short training* and *rates at the edge*
are limits of the study: longer runs or other rates may change the verdict. *Another model*: the claim names one that
was not run. *Other tasks*: of the same kind as the paper's. *Named entities not compared*: the claim is about them
too.
"""
_DECIDES = """\
## What would decide the rest

What a study needs to decide the claims that neither the authors' runs nor real data decide.
"""


@dataclass(frozen=True)
class Cell:
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


def scoreboard_cells(found: Sequence[Checked], studies: Sequence[Study]) -> list[Cell]:
    """Return a cell per claim and source, in the order of the claims."""
    by_name = {study.name: study for study in studies}
    return [_cell(each, source, by_name) for each in found for source in SOURCES]


def _cell(each: Checked, source: str, studies: Mapping[str, Study]) -> Cell:
    verdicts = [v for v in each.printed if v.checked] if source == PRINTED else list(each.measured.get(source, ()))
    if not verdicts:
        note = _NOTHING[source]
        return Cell(ScoreboardRow(claim=each.claim.id, source=source, verdict=UNKNOWN, seeds=0, tasks=0, note=note))
    decided = [verdict for verdict in verdicts if verdict.outcome.state != UNKNOWN]
    chosen = (decided or verdicts)[0]  # those on the paper's tasks come first
    if source != PRINTED:
        names = (Path(part).stem for part in chosen.parts)
        return _measured_cell(source, chosen, [studies[name] for name in names if name in studies])
    if len({verdict.outcome.state for verdict in decided}) > 1:
        states = "; ".join(f"{verdict.outcome.state} in {verdict.source}" for verdict in decided)
        return Cell(replace(_filled(source, chosen), verdict=UNKNOWN, note=f"the paper contradicts itself: {states}"))
    return Cell(_filled(source, chosen))


def _measured_cell(source: str, verdict: ClaimVerdict, studies: Sequence[Study]) -> Cell:
    """Return the cell of runs, with what limits them in its note and, by name, in its small print."""
    entities = [_NO_ENTITIES] * _lacks_entities(verdict)
    if source == AUTHORS:
        scope, note = [*entities, RATE_OF_FULL], [*entities, _AUTHORS_LIMITS]
    else:
        model = [_ANOTHER_MODEL] * (verdict.claim.id in _OF_ONE_MODEL)
        scope = [*entities, *model, *[_OTHER_TASKS] * verdict.stand_in]
        note = [verdict.tasks, *model, *entities, *_limits(studies)]
    doubts = [name for name in (SHORT_TRAINING, AT_AN_END) if any(name in study.doubts for study in studies)]
    row = _filled(source, verdict)
    shown = doubts if row.verdict == UNKNOWN else [*scope, *doubts]
    return Cell(replace(row, note="; ".join((row.note, *note))), tuple(shown))


def _limits(studies: Sequence[Study]) -> list[str]:
    """Return the limits of studies, with their names if there are several."""
    several = len(studies) > 1
    return [f"{study.name}: {study.limits}" if several else study.limits for study in studies if study.limits]


def _lacks_entities(verdict: ClaimVerdict) -> bool:
    """Return True if a claim about named entities too holds on other tasks alone."""
    tasks = {task for finding in verdict.outcome.findings for task in finding.tasks}
    holds = verdict.outcome.state == HOLDS
    return holds and "NER" in verdict.claim.about and not any(kind_of(task) == "NER" for task in tasks)


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
        note=_deciding(verdict),
    )


def _deciding(verdict: ClaimVerdict) -> str:
    """Return the first part with the state of the verdict, and how many parts share it."""
    compared = [finding for finding in verdict.outcome.findings if finding.compared]
    alike = [finding for finding in compared if finding.state == verdict.outcome.state]
    if not alike:  # what is compared passes, and another part is lacking
        return "; ".join(f.text for f in verdict.outcome.findings if not f.compared)
    more = f" ({len(alike)} of {len(compared)} parts)" if len(compared) > 1 else ""
    return f"{alike[0].text}{more}"


def scoreboard_page(found: Sequence[Checked], cells: Sequence[Cell]) -> str:
    """Return the page as Markdown: the grid first, as HTML that reads without its colours."""
    by_claim: dict[str, list[Cell]] = {}
    for cell in cells:
        by_claim.setdefault(cell.row.claim, []).append(cell)
    blocks = [_INTRODUCTION, _counts(cells), _grid(found, by_claim), _BEHIND]
    blocks += ["\n".join(_behind(each, by_claim[each.claim.id])) for each in found]
    blocks += [_DECIDES, "\n".join(_open(found, by_claim))]
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def _counts(cells: Sequence[Cell]) -> str:
    lines = ["| source | holds | fails | cannot tell | nothing to compare |", "|---|---:|---:|---:|---:|"]
    for source in SOURCES:
        own = [cell for cell in cells if cell.row.source == source]
        states = [sum(cell.row.verdict == state and not cell.is_empty for cell in own) for state in _SIGNS]
        lines.append(f"| {source} | {' | '.join(map(str, states))} | {len(own) - sum(states)} |")
    return "\n".join(lines)


def _grid(found: Sequence[Checked], by_claim: dict[str, list[Cell]]) -> str:
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


def _shown(cell: Cell) -> str:
    title, state = escape(cell.row.note, quote=True), cell.row.verdict
    if cell.is_empty:
        return f'<td class="nothing" title="{title}">–</td>'
    small = f"<br><small>{', '.join(cell.small_print)}</small>" if cell.small_print else ""
    return f'<td class="{state.replace(" ", "-")}" title="{title}">{_SIGNS[state]} {state}{small}</td>'


def _behind(each: Checked, cells: Sequence[Cell]) -> Iterator[str]:
    yield f"- **{each.claim.id}** {each.claim.wording}"
    for cell in cells:
        if not cell.is_empty:
            yield f"  - {cell.row.source}, {cell.row.verdict}: {cell.row.note}"


def _open(found: Sequence[Checked], by_claim: dict[str, list[Cell]]) -> Iterator[str]:
    for each in found:
        ours = [cell.row for cell in by_claim[each.claim.id] if cell.row.source in (AUTHORS, "real")]
        if all(row.verdict == UNKNOWN for row in ours):
            yield f"- **{each.claim.id}** {each.claim.wording} {'; '.join(_needs(each))}."


def _needs(each: Checked) -> list[str]:
    """Return what would decide a claim: what a study must have, and the seeds of its undecided parts."""
    parts = [f for kind in (AUTHORS, "real") for v in each.measured.get(kind, ()) for f in v.outcome.findings]
    if not parts:
        need = lacking(each.claim)
        return [f"{need}, on real data" if need.startswith("Needs") else need]
    undecided = [finding for finding in parts if finding.state == UNKNOWN]
    groups = [part for own in each.measured.values() for verdict in own for part in verdict.outcome.parts]
    one_suffices = any(part.least == 1 < len(part.findings) for part in groups)
    needs = list(dict.fromkeys(finding.limit for finding in undecided if finding.limit))[:3]
    needs += _more_repeats(undecided, one_suffices)
    needs += [finding.found for finding in undecided if not finding.claimed][:1]
    return [f"Now: {'; '.join(needs) or 'intervals contain the threshold, and no number of seeds follows'}"]


def _more_repeats(undecided: Sequence[ClaimCheck], one_suffices: bool) -> list[str]:
    """Return how many seeds would decide the nearest part, if one suffices, or the widest; nothing if none follows."""
    known = [(finding.repeats_needed, finding.repeat) for finding in undecided if finding.repeats_needed]
    if not known:
        return []
    number, repeat = min(known) if one_suffices else max(known)
    part = f"{repeat}s for its {'nearest' if one_suffices else 'widest'} part"
    if number <= MANY_REPEATS:
        return [f"about {number} {part}"]
    return [f"more than {MANY_REPEATS} {part}, which lies near the threshold"]
