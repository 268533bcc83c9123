"""Make the scoreboard: every claim with the verdict of each source of numbers, as a table and as a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from evidence.authors import RATE_OF_FULL
from evidence.studies import AT_AN_END, FOLDER, SHORT_TRAINING, Study
from evidence.verdicts import AUTHORS, Checked, lacking
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims.base import HOLDS, UNKNOWN
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
_MANY = 100
"""Seeds: more of them are needed only where a difference is close to none."""
_SEEDS = re.compile(r"about ([\d,]+) (seed|run)s would decide")
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


def scoreboard_rows(found: Sequence[Checked], studies: Sequence[Study]) -> list[ScoreboardRow]:
    """Return a row per claim and source, in the order of the claims."""
    limits = {study.name: study.limits for study in studies}
    return [_row(each, source, limits) for each in found for source in SOURCES]


def _row(each: Checked, source: str, limits: dict[str, str]) -> ScoreboardRow:
    verdicts = [v for v in each.printed if v.checked] if source == PRINTED else list(each.measured.get(source, ()))
    if not verdicts:
        return ScoreboardRow(
            claim=each.claim.id, source=source, verdict=UNKNOWN, seeds=0, tasks=0, note=_NOTHING[source]
        )
    decided = [verdict for verdict in verdicts if verdict.outcome.state != UNKNOWN]
    if source == PRINTED and len({verdict.outcome.state for verdict in decided}) > 1:
        states = "; ".join(f"{verdict.outcome.state} in {verdict.source}" for verdict in decided)
        return _filled(each, source, UNKNOWN, decided[0], f"the paper contradicts itself: {states}")
    chosen = (decided or verdicts)[0]  # those on the paper's tasks come first
    note = _deciding(chosen)
    if source not in (PRINTED, AUTHORS):
        note = "; ".join((note, chosen.tasks, *[_ANOTHER_MODEL] * (each.claim.id in _OF_ONE_MODEL)))
    if source != PRINTED and _lacks_entities(chosen):
        note = f"{note}; {_NO_ENTITIES}"
    more = [_AUTHORS_LIMITS] if source == AUTHORS else _limits(chosen, limits)
    return _filled(each, source, chosen.outcome.state, chosen, "; ".join((note, *more)))


def _lacks_entities(verdict: ClaimVerdict) -> bool:
    """Return True if a claim about named entities too holds on other tasks alone."""
    tasks = {task for finding in verdict.outcome.findings for task in finding.tasks}
    holds = verdict.outcome.state == HOLDS
    return holds and "NER" in verdict.claim.about and not any(kind_of(task) == "NER" for task in tasks)


def _limits(verdict: ClaimVerdict, limits: dict[str, str]) -> list[str]:
    """Return the limits of the studies of a verdict, with their names if there are several."""
    names = [Path(part).stem for part in verdict.parts]
    return [f"{name}: {limits[name]}" if len(names) > 1 else limits[name] for name in names if limits.get(name)]


def _filled(each: Checked, source: str, state: str, verdict: ClaimVerdict, note: str) -> ScoreboardRow:
    compared = [finding for finding in verdict.outcome.findings if finding.compared]
    seeds = [finding.seeds for finding in compared if finding.seeds]
    tasks = {task for finding in compared for task in finding.tasks}
    return ScoreboardRow(
        claim=each.claim.id,
        source=source,
        verdict=state,
        seeds=min(seeds, default=0),
        tasks=len(tasks),
        note=note,
    )


def _deciding(verdict: ClaimVerdict) -> str:
    """Return the first part with the state of the verdict, and how many parts share it."""
    compared = [finding for finding in verdict.outcome.findings if finding.compared]
    alike = [finding for finding in compared if finding.state == verdict.outcome.state]
    if not alike:  # what is compared passes, and another part is lacking
        return "; ".join(f.text for f in verdict.outcome.findings if not f.compared)
    more = f" ({len(alike)} of {len(compared)} parts)" if len(compared) > 1 else ""
    return f"{alike[0].text}{more}"


def scoreboard_page(found: Sequence[Checked], rows: Sequence[ScoreboardRow]) -> str:
    """Return the page as Markdown: the grid first, as HTML that reads without its colours."""
    by_claim: dict[str, list[ScoreboardRow]] = {}
    for row in rows:
        by_claim.setdefault(row.claim, []).append(row)
    blocks = [_INTRODUCTION, _counts(rows), _grid(found, by_claim), _BEHIND]
    blocks += ["\n".join(_behind(each, by_claim[each.claim.id])) for each in found]
    blocks += [_DECIDES, "\n".join(_open(found, by_claim))]
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def _counts(rows: Sequence[ScoreboardRow]) -> str:
    lines = ["| source | holds | fails | cannot tell | nothing to compare |", "|---|---:|---:|---:|---:|"]
    for source in SOURCES:
        own = [row for row in rows if row.source == source]
        states = [sum(row.verdict == state and bool(row.tasks) for row in own) for state in _SIGNS]
        lines.append(f"| {source} | {' | '.join(map(str, states))} | {len(own) - sum(states)} |")
    return "\n".join(lines)


def _grid(found: Sequence[Checked], by_claim: dict[str, list[ScoreboardRow]]) -> str:
    heads = "".join(f"<th>{source}</th>" for source in SOURCES)
    lines = [f'<table class="scoreboard">\n<thead><tr><th></th><th>claim</th>{heads}</tr></thead>\n<tbody>']
    paper = ""
    for each in found:
        if each.claim.paper != paper:
            paper = each.claim.paper
            lines.append(f'<tr><th colspan="{2 + len(SOURCES)}">{escape(papers()[paper].name)}</th></tr>')
        cells = "".join(map(_cell, by_claim[each.claim.id]))
        lines.append(f"<tr><td>{escape(each.claim.id)}</td><td>{escape(each.claim.wording)}</td>{cells}</tr>")
    return "\n".join([*lines, "</tbody>\n</table>"])


def _cell(row: ScoreboardRow) -> str:
    title = escape(row.note, quote=True)
    if not row.tasks and row.verdict == UNKNOWN:
        return f'<td class="nothing" title="{title}">–</td>'
    names: tuple[str, ...] = (SHORT_TRAINING, AT_AN_END)
    if row.verdict != UNKNOWN:
        names = (_NO_ENTITIES, _ANOTHER_MODEL, _OTHER_TASKS, RATE_OF_FULL, *names)
    limits = [name for name in names if f"; {name}" in row.note or f": {name}" in row.note]
    small = f"<br><small>{', '.join(limits)}</small>" if limits else ""
    kind = row.verdict.replace(" ", "-")
    return f'<td class="{kind}" title="{title}">{_SIGNS[row.verdict]} {row.verdict}{small}</td>'


def _behind(each: Checked, rows: Sequence[ScoreboardRow]) -> Iterator[str]:
    yield f"- **{each.claim.id}** {each.claim.wording}"
    for row in rows:
        if row.tasks or row.verdict != UNKNOWN:
            yield f"  - {row.source}, {row.verdict}: {row.note}"


def _open(found: Sequence[Checked], by_claim: dict[str, list[ScoreboardRow]]) -> Iterator[str]:
    for each in found:
        ours = [row for row in by_claim[each.claim.id] if row.source in (AUTHORS, "real")]
        if all(row.verdict == UNKNOWN for row in ours):
            yield f"- **{each.claim.id}** {each.claim.wording} {'; '.join(_needs(each))}."


def _needs(each: Checked) -> list[str]:
    """Return what would decide a claim: what a study must have, and the seeds of its undecided parts."""
    parts = [f for kind in (AUTHORS, "real") for v in each.measured.get(kind, ()) for f in v.outcome.findings]
    if not parts:
        need = lacking(each.claim)
        return [f"{need}, on real data" if need.startswith("Needs") else need]
    limits = dict.fromkeys(finding.limit for finding in parts if finding.state == UNKNOWN and finding.limit)
    counts = [(int(m[1].replace(",", "")), m[2]) for limit in limits if (m := _SEEDS.search(limit))]
    others = [limit for limit in limits if not _SEEDS.search(limit)][:3]
    if counts:
        one_suffices = any(v.outcome.rule.startswith("one must hold") for own in each.measured.values() for v in own)
        number, unit = min(counts) if one_suffices else max(counts)
        part = f"{unit}s for its {'nearest' if one_suffices else 'widest'} part"
        near = f"more than {_MANY} {part}, which lies near the threshold"
        others.append(f"about {number} {part}" if number <= _MANY else near)
    absent = [finding.found for finding in parts if finding.state == UNKNOWN and not finding.claimed][:1]
    return [
        f"Now: {'; '.join((*others, *absent)) or 'intervals contain the threshold, and no number of seeds follows'}"
    ]
