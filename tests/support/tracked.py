"""Read back what trackers have of a run."""

from __future__ import annotations

import math
from pathlib import Path

Points = dict[str, list[tuple[int, float]]]


def tensorboard_points(folder: Path) -> Points:
    """Steps and values of each scalar in a folder of event files, without the prefix of a training."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    found = {tag: sorted((each.step, each.value) for each in events.Scalars(tag)) for tag in events.Tags()["scalars"]}
    return {tag.removeprefix("train/"): points for tag, points in found.items()}


def mlflow_points(client: object, run: str) -> Points:
    """Steps and values of each metric of a run, by the names that TensorBoard shows."""
    found = {name: client.get_metric_history(run, name) for name in client.get_run(run).data.metrics}
    return {_as_shown(name): [(each.step, each.value) for each in points] for name, points in found.items()}


def trackio_points(project: str, run: str) -> Points:
    """Steps and values of each metric of a run."""
    from trackio.sqlite_storage import SQLiteStorage

    found: Points = {}
    for log in SQLiteStorage.get_logs(project, run):
        assert "train/global_step" in log, log
        step = log["train/global_step"]
        for name, value in log.items():
            if isinstance(value, float | int) and name not in ("train/global_step", "step"):
                found.setdefault(name.removeprefix("train/"), []).append((step, value))
    return found


def assert_same_points(points: Points, others: Points) -> None:
    """The same metrics at the same steps, each once, with values that are equal as far as float32 is; times apart."""
    assert points.keys() == others.keys()
    for name, own in points.items():
        steps = [step for step, _ in own]
        assert len(set(steps)) == len(steps), (name, steps)
        if "runtime" in name or "per_second" in name or name in ("total_flos", "train_loss"):
            continue  # of one session
        assert steps == [step for step, _ in others[name]], name
        for (_, value), (_, other) in zip(own, others[name], strict=True):
            assert math.isclose(value, other, rel_tol=1e-6), name


def _as_shown(name: str) -> str:
    for prefix in ("eval_", "test_"):
        if name.startswith(prefix):
            return f"{prefix[:-1]}/{name.removeprefix(prefix)}"
    return name
