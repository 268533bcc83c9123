"""Define the command for people who do not want to choose: the best way to train on some data, within a time."""

from __future__ import annotations

import time
from pathlib import Path

from gradgate.api.recommend import recommend_in
from gradgate.api.shown import PAGE
from gradgate.cli.options import AsJson, Config, Out, Quiet, takes_settings
from gradgate.cli.render import console, print_json, print_line
from gradgate.settings.compare import RecommendSettings


@takes_settings(of=RecommendSettings)
def recommend(
    settings: RecommendSettings,
    out_folder: Out = Path("studies/recommended"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Find the best way to train on your data, and train it.

    It compares full fine-tuning, a linear probe, the head alone, freezing, gradual unfreezing, GradDrop, LISA, LoRA and
    bottleneck adapters, at learning rates that suit the model's size. Methods that do not work on the model, do not fit
    the device's memory or do not fit the time are left out. The result is a trained model and the command that trains
    it again. Run the command again to resume.
    """
    found = recommend_in(settings, out_folder, quiet=quiet or as_json, began=_process_began())
    page = out_folder / PAGE
    if as_json:
        print_json(found.recommendation.record() | {"report": str(page)})
        return
    print_line(found.recommendation.text(console.worded))
    if not quiet:
        print_line(f"Report: {page}")


def _process_began() -> float:
    """Return when this process started, by :func:`time.monotonic`: imports take a part of the minutes."""
    import psutil  # takes a moment, which other commands need not wait for

    began: float = psutil.Process().create_time()
    return time.monotonic() - max(0.0, time.time() - began)
