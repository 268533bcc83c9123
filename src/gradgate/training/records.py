"""What a run's folder says about it: its configuration, its data, its model, and what computed it."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from gradgate.distributed import launch
from gradgate.errors import RunError
from gradgate.files import read_json, write_json
from gradgate.tasks import TaskData, greater_is_better
from gradgate.training.config import RunConfig
from gradgate.training.run_folder import RunFolder


def write_run_file(config: RunConfig, folder: RunFolder, task: dict[str, Any], model: Any, examples: int) -> None:
    """Write the record of a run into its folder before it trains.

    Raises:
        RunError: if the folder was begun with another number of processes or on other data.
    """
    record = {
        "config": config.record(),
        "fingerprint": config.fingerprint(),
        "versions": versions(),
        "task": task,
        "train_examples": examples,
        "processes": launch.count(),
        "model": {"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())},
    }
    before = read_json(folder.run_file)
    if before.get("processes", launch.count()) != launch.count():
        raise RunError(
            f"{folder.path} was begun with {before['processes']} processes, and {launch.count()} were launched: "
            f"each would see other batches. Launch as many as before, or give another --out."
        )
    begun = before.get("task")
    if begun is not None and begun["fingerprint"] != task["fingerprint"]:
        raise RunError(
            f"{folder.path} was begun on other data: the files of task {task['name']!r} have changed since. "
            f"Give another --out to train on them."
        )
    write_json(folder.run_file, record)


def versions() -> dict[str, str]:
    """What the numbers of a run depend on besides its configuration."""
    packages = (
        "gradgate",
        "torch",
        "transformers",
        "accelerate",
        "datasets",
        "tokenizers",
        "numpy",
        "scikit-learn",
    )
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: version(name) for name in packages},
    }


def task_record(data: TaskData) -> dict[str, Any]:
    """What a result should say about its data."""
    return {
        "name": data.spec.name,
        "kind": data.spec.kind,
        "metric": data.spec.metric,
        "metric_higher_is_better": greater_is_better(data.spec.metric),
        "labels": list(data.labels) if data.labels is not None else None,
        "fingerprint": data.fingerprint,
        "rows": data.rows,
        "languages": data.languages,
        "source": data.spec.source,
    }
