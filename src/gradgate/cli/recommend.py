"""The command for people who do not want to choose: the best way to train on some data, within a time."""

from __future__ import annotations

from pathlib import Path

from gradgate.api.recommend import recommend_in
from gradgate.api.shown import PAGE
from gradgate.cli.options import AsJson, Config, Out, Quiet, takes_settings
from gradgate.cli.render import print_json, print_line
from gradgate.settings.compare import RecommendSettings


@takes_settings(of=RecommendSettings)
def recommend(
    settings: RecommendSettings,
    out_folder: Out = Path("studies/recommended"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Find the best way to train on your data, in minutes.

    Full fine-tuning, freezing, gradual unfreezing, GradDrop, LISA, LoRA and Houlsby adapters compete at rates that suit
    the model's size. What the model refuses or the device has no memory for is left out. The answer has
    the command that trains the best one. Run again, it resumes.
    """
    found = recommend_in(settings, out_folder, quiet=quiet or as_json)
    page = out_folder / PAGE
    if as_json:
        print_json(found.recommendation.record() | {"report": str(page)})
        return
    print_line(found.recommendation.text)
    if not quiet:
        print_line(f"Report: {page}")
