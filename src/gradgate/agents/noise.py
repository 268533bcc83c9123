"""Answer how large the noise of seeds is, from results or from recorded runs of like tasks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import Field

from gradgate.agents.judging import MARGIN, limits
from gradgate.agents.results import COLUMNS, RESULTS, ask_columns, read_results
from gradgate.agents.tool import ToolAnswer, shortened
from gradgate.errors import UsageError
from gradgate.settings.base import CheckedSettings

if TYPE_CHECKING:
    from gradgate.study.noise_floor import NoiseFloor


class NoiseFloorArguments(CheckedSettings):
    """The arguments of ``noise_floor``."""

    results: str | None = Field(None, description=RESULTS)
    task: str | None = Field(None, description="instead of results, before any run: a task whose spread was recorded")
    model: str = Field("", description="with task: the model, whose own recorded spread is preferred")
    metric: str | None = Field(None, description="with results the metric to compare on, with task the task's metric")
    seeds: int = Field(5, ge=2, le=10_000, description="with task: how many seeds each arm will have")
    arms: int = Field(2, ge=2, le=1000, description="with task: how many arms will be compared")
    margin: float | None = Field(None, ge=0, description=f"with results: {MARGIN}")
    columns: dict[str, Any] = Field({}, description=COLUMNS)


def noise_floor(asked: NoiseFloorArguments) -> ToolAnswer:
    """Say what differences seeds alone make, and which difference is found among them."""
    if (asked.results is None) == (asked.task is None):
        raise UsageError("Expected one of results= and task=: results to measure, or a task whose spread was recorded.")
    if asked.results is None:
        return _recorded(asked)
    if passed := [name for name in ("model", "seeds", "arms") if name in asked.model_fields_set]:
        raise UsageError(f"{passed[0]}= is for task=; results= has its own. Leave it out.")
    from gradgate.study.noise_floor import NoiseFloor

    found = read_results(asked.results, ask_columns(asked.columns, metric=asked.metric))
    floors = [NoiseFloor.of(results, asked.margin) for results in found.conditions]
    record = {"conditions": [each.record() for each in floors], **found.said}
    notes = _notes(floors[0]) if len(floors) == 1 else []
    lines = [*shortened([_sentence(each) for each in floors]), *notes, *limits(found)]
    return ToolAnswer("\n".join(lines), record)


def _notes(floor: NoiseFloor) -> list[str]:
    """Return what limits the numbers of a condition, each sentence once."""
    from gradgate.report.formats import said_once

    return said_once((each.verdict.arm, each.note) for each in floor.comparisons)


def _sentence(floor: NoiseFloor) -> str:
    from statistics import median

    from gradgate.errors import counted
    from gradgate.report.formats import ScoreFormat

    study = floor.results.study
    spreads = floor.differences or [each.sd for each in floor.arms if each.sd is not None]
    where = f"{study.part}: " if study.part else ""
    if not any(spreads) or floor.smallest is None:
        return f"{where}No noise floor can be computed: no two runs of an arm have different scores."
    shown = ScoreFormat.fitting(study.task.metric, spreads)
    metric = f"points of {shown.name}" if floor.factor == 100 else shown.name
    middle = shown.value(median(spreads))
    if len(spreads) > 1:
        middle += f" (median; {shown.value(min(spreads))} to {shown.value(max(spreads))})"
    fewest, most = (end(len(each.scores) for each in floor.arms) for end in (min, max))
    runs = counted(fewest, "run") if fewest == most else f"{fewest} to {most} runs"
    of = f"differences to {study.arm_names[0]} vary by" if floor.differences else "scores of one arm vary by"
    lost = sum(len(each.collapsed) for each in floor.arms)
    with_lost = f" Collapsed runs are in these numbers: {lost}." if lost else ""
    return (
        f"{where}With {runs} of each arm, {of} {middle} {metric} over seeds (standard deviation). A difference of "
        f"{shown.value(floor.smallest)} between two arms is found with 80 % power, smaller ones less often.{with_lost}"
    )


def _recorded(asked: NoiseFloorArguments) -> ToolAnswer:
    """Answer from the recorded runs of like tasks."""
    from gradgate.study.spreads import decidable, recorded_tasks

    assert asked.task is not None
    if asked.metric is None:
        raise UsageError("metric= is missing: name the metric of the task, such as accuracy, as spreads differ by it.")
    for name in ("columns", "margin"):
        if name in asked.model_fields_set:
            raise UsageError(f"{name}= is for results=. Leave it out.")
    found = decidable("", asked.task, asked.metric, asked.model, asked.seeds, asked.arms - 1, None)
    if found.basis is None:
        raise UsageError(
            f"No spread of {asked.metric} on task={asked.task!r} was recorded. Train one arm with 3 seeds or more, and "
            f"pass its results=. Recorded: {', '.join(recorded_tasks())}."
        )
    return ToolAnswer(f"{found.sentence} This is not from runs of yours.", {"recorded": asdict(found)})
