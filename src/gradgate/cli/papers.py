"""The commands for the papers: list them, check their claims, and reproduce their tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gradgate.cli.completion import presets_named
from gradgate.cli.options import AsJson, Config, Quiet, takes_settings
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.errors import UsageError
from gradgate.settings.base import passed
from gradgate.settings.compare import ReproduceSettings
from gradgate.settings.values import read_seeds

if TYPE_CHECKING:
    from gradgate.papers.check import ClaimVerdict
    from gradgate.papers.claims import ClaimCheck
    from gradgate.papers.planning import ReproductionPlan
    from gradgate.report.table import Table
    from gradgate.study.progress import StudyProgress

_CHANGED = 12
"""At most this many findings are shown again without collapsed runs."""
_STYLES = {"holds": "green", "fails": "red", "cannot tell": "yellow"}


def papers(
    studies: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Studies to check the claims on, each alone and then together; or CSV files of --record, or a folder "
            "of them, whose studies are pooled. Without any, papers, presets and claims are listed."
        ),
    ] = None,
    paper: Annotated[str | None, typer.Option(help="Only this paper (elsa, graddrop, fun, adaptereff).")] = None,
    printed: Annotated[
        bool, typer.Option("--printed", help="Check the claims on the numbers printed in the papers.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Write the numbers behind the claims to this CSV file, one row per seed (with --paper, of that paper "
            "only); pass the file to this command instead of the studies.",
            metavar="file",
        ),
    ] = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """List the papers' presets and claims, or check claims."""
    from gradgate.papers.check import check_printed, check_studies, record_studies
    from gradgate.papers.published import paper_key

    key = None if paper is None else paper_key(paper)
    if record is not None:
        if not studies:
            raise UsageError("--record writes the numbers of studies, and none is given. Name their folders.")
        record_studies(studies, record, key)
    verdicts = check_printed(key) if printed else []
    verdicts += check_studies(studies, key) if studies else []
    listing = not (printed or studies)
    if as_json:
        print_json(paper_records(key) if listing else [verdict.record() for verdict in verdicts])
    else:
        console.print(papers_list(key) if listing else verdicts_list(verdicts))


Preset = Annotated[
    str,
    typer.Argument(
        autocompletion=presets_named, help="A table or figure of a paper, such as elsa-table4; see 'gradgate papers'."
    ),
]
_OF_ONE_TASK = ("train_file", "dev_file", "test_file", "text", "text_pair", "label", "kind")  # a preset has several
Scale = Annotated[str, typer.Option(help="full, or sample for the same grid on the embedded model and data.")]
PaperModels = Annotated[
    list[str] | None,
    typer.Option(
        help="A model to replace the paper's first, or LABEL=MODEL to replace the one with this label; repeatable."
    ),
]


@takes_settings("data", *_OF_ONE_TASK, of=ReproduceSettings)
def reproduce(
    settings: ReproduceSettings,
    preset: Preset,
    scale: Scale = "full",
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, as in compare; by default the paper's, or 2 with --scale sample.")
    ] = None,
    model: PaperModels = None,
    data: Annotated[Path | None, typer.Option(help="Folder with one folder per data set.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Leave out models and data that are not available.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and stop.")] = False,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="Default: studies/PRESET-SCALE.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Rerun a paper's table or figure and compare the numbers.

    Run the command again to resume.
    """
    settings.require_trackers()
    from gradgate.papers.planning import ReproduceRequest

    request = ReproduceRequest(
        preset, scale, None if seeds is None else read_seeds(seeds), model or [], data, partial, passed(settings)
    )
    talk = not (quiet or as_json)
    plan = request.plan()
    if talk or (dry_run and not as_json):
        for line in plan_lines(plan):
            print_line(console.worded(line))
    elif dry_run:
        print_json(plan.record())
    if dry_run:
        return
    from gradgate.papers.reproduce import run_plan  # brings torch, once there is something to run

    folder = out_folder or Path("studies") / f"{preset}-{scale}"
    failed = run_plan(plan, folder, _bars if talk else _silence).failed
    tables = _write_and_show(folder, talk)
    if as_json:
        print_json(list(tables[-1].records))
    if failed:
        errors.print(f"{failed} of {plan.count} runs failed; the reports in {folder} say why.", soft_wrap=True)
        raise typer.Exit(1)


@contextmanager
def _bars(title: str) -> Iterator[StudyProgress]:
    from gradgate.study.progress import StudyBars

    with StudyBars(errors) as bars:
        bars.note(title)
        yield bars


@contextmanager
def _silence(title: str) -> Iterator[StudyProgress]:
    from gradgate.study.progress import SilentStudy

    yield SilentStudy()


def _write_and_show(folder: Path, show: bool) -> list[Table]:
    """Write the reports and tables of a reproduction, and print the tables that are short; the last one has it all."""
    from gradgate.papers.comparison import FULL_TABLE, write_tables
    from gradgate.papers.reproduce import read_reproduction, study_folders
    from gradgate.report import write_report
    from gradgate.report.export import to_terminal

    for study in study_folders(folder):
        write_report(study, all_sections=True)
    tables = write_tables(read_reproduction(folder), folder)
    if not show:
        return tables
    for table in tables:
        if table.name != FULL_TABLE:
            console.print(to_terminal(table, tuple(column.key for column in table.columns), console.width))
    print_line(f"Tables: {folder / 'tables'}; each study in {folder} has a report.")
    print_line(f"Claims: gradgate papers {folder}")
    return tables


def paper_records(only: str | None = None) -> list[dict[str, Any]]:
    """Return one record per paper, for scripts."""
    from gradgate.papers import papers, presets, stated_settings
    from gradgate.papers.claims import claims
    from gradgate.papers.scoreboard import scoreboard

    return [
        {
            "paper": key,
            "title": paper.title,
            "authors": paper.authors,
            "link": paper.link,
            "presets": [
                {"name": preset.name, "table": preset.table, "title": preset.title, "runs": len(preset.cells())}
                for preset in presets().values()
                if preset.paper == key
            ],
            "claims": [
                {
                    "claim": claim.id,
                    "wording": claim.wording,
                    "checked": claim.check is not None,
                    "states": {source: row.verdict for source, row in scoreboard()[claim.id].items()},
                }
                for claim in claims(key)
            ],
            "settings": [
                {"setting": stated.setting, "name": stated.name, "value": stated.value}
                for stated in stated_settings(key)
            ],
        }
        for key, paper in papers().items()
        if only in (None, key)
    ]


def papers_list(only: str | None = None) -> Group:
    """List each paper, or the one with this key, with its presets and its claims."""
    blocks: list[RenderableType] = []
    for paper in paper_records(only):
        blocks.append(Text(f"{_name(paper['paper'])}: {paper['title']}", style="bold"))
        blocks.append(_indented(f"{paper['authors']}, {paper['link']}"))
        width = max(len(preset["name"]) for preset in paper["presets"])
        blocks += [_indented(f"{preset['name']:<{width}}  {preset['title']}") for preset in paper["presets"]]
        stated = len(paper["settings"])
        blocks.append(_indented(f"{stated} stated settings: gradgate papers --paper {paper['paper']} --json"))
        blocks.append(_indented("claims (* what scores of runs can check), and what each source of numbers says:"))
        for claim in paper["claims"]:
            blocks.append(_indented(f"{claim['claim']:<3} {'*' if claim['checked'] else ' '} {claim['wording']}", 6))
            blocks.append(_indented(_states(claim["states"]), 12))
    return Group(*blocks)


def _states(states: dict[str, str]) -> Text:
    line = Text()
    for source, state in states.items():
        line.append(f"{', ' if line else ''}{source} ", style="dim")
        line.append(state, style=_STYLES[state])
    return line


def verdicts_list(verdicts: Sequence[ClaimVerdict]) -> Group:
    """List each claim that has numbers to compare, then the others in short, one block per source of numbers."""
    blocks: list[RenderableType] = []
    by_source = groupby(verdicts, lambda verdict: (verdict.claim.paper, verdict.notes))
    for (paper, notes), group in by_source:
        every = list(group)
        checked = [verdict for verdict in every if verdict.checked]
        rest = [verdict for verdict in every if not verdict.checked]
        if not checked:
            listed = ", ".join(verdict.claim.id for verdict in rest)
            blocks.append(Text(f"{_name(paper)}: nothing to compare ({listed})", style="dim"))
            continue
        blocks.append(Text(_name(paper), style="bold"))
        blocks += [_indented(f"Note: {note}.") for note in notes]
        blocks += [block for verdict in checked for block in _verdict(verdict)]
        blocks += [
            _indented(f"{v.claim.id:<3} cannot tell: {console.worded(v.outcome.findings[0].text)}") for v in rest
        ]
    return Group(*blocks)


def _verdict(verdict: ClaimVerdict) -> list[RenderableType]:
    outcome = verdict.outcome
    line = Text(f"{verdict.claim.id:<3} ")
    line.append(outcome.state, style=_STYLES[outcome.state])
    line.append(f": {verdict.claim.wording}")
    rule = f"; {outcome.rule}" if outcome.rule else ""
    lines: list[RenderableType] = [
        Padding(line, (0, 0, 0, 3), expand=False),
        _indented(f"on {verdict.source}{rule}", 7),
    ]
    if verdict.arms:
        arms = "; ".join(f"{label} = {' or '.join(names)}" for label, names in verdict.arms.items())
        lines.append(_indented(f"arms: {arms}", 7))
    lines += map(_finding, outcome.findings)
    if (steady := verdict.without_collapsed) is not None:
        line = Text("without collapsed runs: ", style="dim").append(steady.state, style=_STYLES[steady.state])
        lines.append(Padding(line, (0, 0, 0, 7), expand=False))
        changed = verdict.changed_without_collapsed
        lines += map(_finding, changed[:_CHANGED])
        if len(changed) > _CHANGED:
            lines.append(_indented(f"and {len(changed) - _CHANGED} more with other numbers; --json has all", 7))
    return lines


def _finding(finding: ClaimCheck) -> RenderableType:
    text = Text(f"{finding.state}: ", style=_STYLES[finding.state])
    text.append(console.worded(finding.text), style="default")
    return Padding(text, (0, 0, 0, 7), expand=False)


def plan_lines(plan: ReproductionPlan) -> list[str]:
    """Return the lines that announce a reproduction."""
    studies = len(plan.studies())
    lines = [f"{plan.preset.name}: {plan.preset.title}"]
    minutes = plan.minutes
    length = "" if minutes is None else f", about {max(1, round(minutes))} min on two cores"
    amount = f"{_count(plan.count, 'run')} in {_count(studies, 'study', 'studies')}"
    lines.append(f"{amount}, {_count(len(plan.seeds), 'seed')} each{length}.")
    if plan.search is not None:
        tried = f"{', '.join(plan.search.texts)} with {_count(len(plan.search.seeds), 'seed')} each"
        lines.append(f"Before them, {_count(plan.searches, 'run')} of a search: {tried}.")
    lines += [f"- {note}" for note in plan.notes]
    reasons: dict[str, list[str]] = {}
    for what, why in plan.left_out.items():
        reasons.setdefault(why, []).append(what)
    for why, cells in reasons.items():
        more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
        lines.append(f"- Left out: {'; '.join(cells[:3])}{more}: {why}.")
    return lines


def _name(key: str) -> str:
    from gradgate.papers import papers

    return papers()[key].name


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _indented(text: str | Text, by: int = 3) -> Padding:
    return Padding(Text(text) if isinstance(text, str) else text, (0, 0, 0, by), expand=False)
