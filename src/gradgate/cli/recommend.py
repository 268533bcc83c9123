"""The command for people who do not want to choose: the best way to train on some data, within a time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gradgate.cli.options import AsJson, Config, Out, Quiet, read_seeds, run_config, takes_settings
from gradgate.cli.render import errors, print_json, print_line
from gradgate.errors import UsageError

_MOST_MINUTES = 60 * 24 * 365

Minutes = Annotated[
    float,
    typer.Option(
        metavar="<minutes>",
        help="How long to train, by the clock. An eighth of one run of each method is trained in any case; how long "
        "these take turns the time into steps, which stay the same when the study goes on.",
    ),
]
Seeds = Annotated[str, typer.Option(help="At most so many runs of each method, each with its own seed, or the seeds.")]


@takes_settings("method", "adapter", "seed", "fsdp")
def recommend(
    settings: dict[str, Any],
    minutes: Minutes = 30.0,
    seeds: Seeds = "5",
    out_folder: Out = Path("studies/recommended"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Find the best way to train on this data within some minutes, and print the command that does so.

    Full fine-tuning, freezing, gradual unfreezing, GradDrop, LISA, LoRA and Houlsby adapters race at rates that suit
    the model's size. What the model refuses or the device has no memory for is left out. Run again, it goes on.
    """
    from gradgate.training.named_tasks import check_tasks

    if not 0 < minutes <= _MOST_MINUTES:
        raise UsageError(f"--minutes {minutes:g}: expected more than 0 and at most {_MOST_MINUTES:,}, such as 30.")
    config, chosen = run_config(settings), read_seeds(seeds)
    check_tasks(config)

    from gradgate.report import write_report  # torch loads after the settings are checked
    from gradgate.study.progress import SilentStudy, StudyBars
    from gradgate.study.recommendation import recommend as race

    if quiet or as_json:
        found = race(config, minutes, chosen, out_folder, SilentStudy())
    else:
        with StudyBars(errors) as bars:
            found = race(config, minutes, chosen, out_folder, bars)
    written = write_report(out_folder)
    if as_json:
        print_json(found.record() | {"report": str(written.html)})
        return
    print_line(found.text)
    if not quiet:
        print_line(f"Report: {written.html}")
