"""Write the lines that use what a study trained, and those that repeat or continue it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.errors import RunError
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.runs.state import RunState
from gradgate.settings.command_line import (
    export_command,
    load_lines,
    places_note,
    train_command,
    train_lines,
    without_places,
)
from gradgate.settings.run import RunConfig
from gradgate.study.command import compare_command, settings_as_typed
from gradgate.study.grid import Grid

_RETRAINED = "retrained"  # a folder in the study's, and not among its runs


@dataclass(frozen=True)
class Lines:
    """Lines to copy.

    Attributes:
        title: what they do.
        lines: of a shell or of Python.
    """

    title: str
    lines: Sequence[str]


def lines_of_use(study: StudySummary, arm: ArmSummary) -> list[Lines]:
    """Return the commands and the Python that use the best run of an arm, or train one if none kept its model.

    They are for the folder of the study, so that equal studies have equal pages. Imported results have no model, and
    means over several tasks no single one.
    """
    if study.record.imported is not None or study.parts:
        return []
    kept = (run for run in arm.finished if run.folder is not None and run.files.model.is_dir())
    run = study.results.best_on_dev(kept)
    config = _settings(study, arm, None if run is None else run.seed)
    if run is not None and run.folder is not None:
        place = run.folder.relative_to(study.results.folder)
        train = [] if config is None else [*commented_places(config), train_command(without_places(config), _RETRAINED)]
        return [
            Lines(
                f"In this folder: export {arm.name}, seed {run.seed}, or retrain",
                [export_command(place, "model"), *train],
            ),
            Lines("In Python", load_lines(place)),
        ]
    if config is None:
        return []
    return lines_of_training(config, _RETRAINED)


def lines_of_training(config: RunConfig, out: str) -> list[Lines]:
    """Return the command and the Python that train with some settings into a folder, on any machine."""
    note, near = commented_places(config), without_places(config)
    return [
        Lines("Train it", [*note, train_command(near, out)]),
        Lines("In Python", [*note, *train_lines(near, out)]),
    ]


def commented_places(*configs: RunConfig) -> list[str]:
    """Return a comment, in a shell's and Python's form, on the paths that lines for any machine leave out."""
    note = places_note(*configs)
    return [f"# {note}"] if note else []


def lines_of_repeating(study: StudySummary) -> list[Lines]:
    """Return the commands that continue a study, add to it, and repeat it.

    A budget is continued by its own command, and a part by that of the whole study, which has the queue.
    """
    again = Lines("Rewrite this page", ["gradgate report ."])
    if study.record.imported is not None or study.is_race or study.whole is not None:
        return [again]
    try:
        grids = [Grid.read(part.results.folder) for _, part in study.parts] or [Grid.read(study.results.folder)]
    except RunError:  # damaged; the page says so
        return [again]
    waits = any(study.results.count(state) for state in (RunState.MISSING, RunState.PAUSED))
    title = "Continue: train the unfinished runs" if waits else "Repeat, or add seeds and methods"
    note = commented_places(*settings_as_typed(grids))
    lines = [Lines(title, [*note, compare_command(grids, ".")]), again]
    if study.results.count(RunState.FAILED):
        retry = ["gradgate study retry .", "gradgate worker ."]
        lines.insert(0, Lines("Try failed runs again", retry))
    return lines


def _settings(study: StudySummary, arm: ArmSummary, seed: int | None) -> RunConfig | None:
    """Return the settings of an arm's run; None for a study whose settings cannot be used.

    Args:
        seed: of the run; None takes the study's first.
    """
    try:
        grid = Grid.read(study.results.folder)
    except RunError:
        return None
    own = next((each for each in grid.arms if each.name == arm.name), None)
    if own is None:
        return None
    chosen = {} if grid.search is None else grid.search.chosen.get(arm.name, {})
    return grid.config_of(own, grid.seeds[0] if seed is None else seed, chosen)
