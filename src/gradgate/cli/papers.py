"""The commands for the papers: what they did, what they claim, and doing it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gradgate.cli.options import AsJson, Config, Quiet, read_seeds, takes_settings
from gradgate.cli.render import console, errors, print_json, print_line


def papers(
    studies: Annotated[
        list[Path] | None, typer.Argument(help="Studies to check the claims on; none lists all.")
    ] = None,
    paper: Annotated[str | None, typer.Option(help="Only this paper: elsa, graddrop, fun or adaptereff.")] = None,
    printed: Annotated[bool, typer.Option("--printed", help="Check the claims on the papers' own numbers.")] = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """List the papers, their presets and claims, or check the claims on studies."""
    from gradgate.papers.check import check_printed, check_study, paper_key, paper_records
    from gradgate.papers.listing import papers_list, verdicts_list

    key = None if paper is None else paper_key(paper)
    verdicts = check_printed(key) if printed else []
    for study in studies or []:
        verdicts += check_study(study, key)
    listing = not (printed or studies)
    if as_json:
        print_json(paper_records(key) if listing else [verdict.record() for verdict in verdicts])
    else:
        console.print(papers_list(key) if listing else verdicts_list(verdicts))


@takes_settings("model", "task", "data", "method", "adapter", "seed", "fsdp")
def reproduce(
    settings: dict[str, Any],
    preset: Annotated[str, typer.Argument(help="A table of a paper, such as elsa-table4; see 'gradgate papers'.")],
    scale: Annotated[str, typer.Option(help="full, or sample: the same grid on the embedded model and data.")] = "full",
    seeds: Annotated[str | None, typer.Option(help="As of compare; default the paper's, or 2 on the sample.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model in place of the paper's first, or LABEL=MODEL of the one named so; repeatable."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the folders of the data sets.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Leave out what cannot be had.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")] = False,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="Default: studies/PRESET-SCALE.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Run a table of a paper and print what it publishes beside what was measured. Run again, it goes on."""
    from gradgate.papers.command import ReproduceRequest, reproduce_table
    from gradgate.papers.listing import plan_lines

    request = ReproduceRequest(
        preset, scale, None if seeds is None else read_seeds(seeds), model or [], data, partial, settings
    )
    talk = not (quiet or as_json)
    plan = request.plan()
    if talk or dry_run:
        for line in plan_lines(plan):
            print_line(line)
    if dry_run:
        return
    folder = out_folder or Path("studies") / f"{preset}-{scale}"
    failed = reproduce_table(plan, folder, console if talk else None, errors)
    if as_json:
        from gradgate.papers.comparison import full_table
        from gradgate.papers.reproduce import read_reproduction

        print_json(list(full_table(read_reproduction(folder)).records))
    if failed:
        errors.print(f"{failed} of {plan.count} runs failed; the reports in {folder} say why.", soft_wrap=True)
        raise typer.Exit(1)
