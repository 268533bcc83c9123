"""Read results files of evaluation suites and trainers: PEFT's comparison, Trainer, lm-evaluation-harness."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from gradgate.study.importing.raw import RawTable, run_parts, text_of
from gradgate.tasks.metrics.names import split_name

_NO_SCORES = {
    "runtime", "samples_per_second", "steps_per_second", "jit_compilation_time", "model_preparation_time",
    "num_tokens", "num_input_tokens_seen", "mean_token_accuracy_runtime",
}  # fmt: skip
PEFT = "PEFT method comparison"
TRAINER_STATE = "trainer_state.json"


def is_peft_suite(content: Any) -> bool:
    """Return True for a results file of ``method_comparison`` in PEFT's repository."""
    return isinstance(content, Mapping) and {"run_info", "train_info"} <= content.keys()


def peft_suite(path: Path, content: Mapping[str, Any]) -> RawTable:
    """Return the scores of one run of PEFT's method comparison.

    The arm is the experiment's name. ``valid`` metrics are on dev, by step; ``test`` metrics are on test. A run whose
    status is not ``success`` is one row, which is rejected.
    """
    run, train = content["run_info"], content["train_info"]
    meta = content.get("meta_info") or {}
    settings = run.get("train_config") or {}
    optimizer = settings.get("optimizer_kwargs") or {}
    data = [name for name, about in (meta.get("dataset_info") or {}).items() if isinstance(about, Mapping)]
    shared = {
        "arm": str(run.get("experiment_name", path.stem)),
        "model": str(settings.get("model_id", "")),
        "task": " + ".join(data) or _benchmark(path),
        "seed": settings.get("seed", 0),
        "file": path.name,
        "created": run.get("created_at"),
        "lr": optimizer.get("lr"),
        "seconds": train.get("train_time"),
        "peak_memory_bytes": train.get("accelerator_memory_max", train.get("cuda_memory_max")),
        "parameters_trained": train.get("num_trainable_params"),
        "parameters": train.get("num_total_params"),
        "bytes_stored": train.get("file_size"),
    }
    entries = train.get("metrics") or []
    status = train.get("status", "success")
    if status != "success":
        rejected = {0: f"the run's status is {status}"}
        return RawTable.of_scores(path.name, [{**shared, "score": None}], PEFT, _within(path), rejected)
    rows = [{**shared, **score} for entry in entries for score in _by_split(entry)]
    return RawTable.of_scores(path.name, rows, PEFT, _within(path))


def _benchmark(path: Path) -> str:
    """Return the name of the folder of a benchmark, above those that PEFT calls ``results``."""
    names = [each.name for each in path.resolve().parents]
    return next((name for name in names if name not in ("results", "original", "")), "results")


def with_reruns(tables: Sequence[RawTable]) -> list[RawTable]:
    """Return runs of PEFT's comparison with one seed per run: an experiment that ran again did so with the same seed.

    A run that two files have, as the suite renamed its keys, is left out the second time.
    """
    created: dict[tuple[str, str], list[str]] = {}
    for table in tables:
        if table.form == PEFT and table.rows and not table.rejected:
            first = table.rows[0]
            created.setdefault((first["arm"], text_of(first["seed"])), []).append(text_of(first["created"]))
    found, seen = [], set()
    for table in tables:
        if table.form != PEFT or not table.rows or table.rejected:
            found.append(table)
            continue
        first = table.rows[0]
        times = created[first["arm"], text_of(first["seed"])]
        run = first["arm"], text_of(first["created"])
        if run in seen:
            found.append(replace(table, rows=(), left_out={"the same run again": len(table.rows)}))
        elif len(set(times)) > 1:
            seed = f"{text_of(first['seed'])} of {run[1]}"
            found.append(replace(table, rows=[{**row, "seed": seed} for row in table.rows]))
        else:
            found.append(table)
        seen.add(run)
    return found


def _by_split(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the scores of one entry of PEFT's list of metrics, such as ``valid accuracy``."""
    for name, value in entry.items():
        first, _, metric = name.partition(" ")
        if metric and first in ("valid", "test"):
            split = split_name(first)
            yield {
                "split": split,
                "metric": metric.replace(" ", "_"),
                "score": value,
                "step": entry.get("step") if split == "dev" else None,
            }


def is_trainer_state(content: Any) -> bool:
    """Return True for a ``trainer_state.json`` of transformers' Trainer."""
    return isinstance(content, Mapping) and isinstance(content.get("log_history"), list) and "global_step" in content


def trainer_state(path: Path, content: Mapping[str, Any]) -> RawTable:
    """Return the evaluations of one run of Trainer.

    The arm is the name of the run's folder without its seed, ``lora-seed3`` for ``lora``; a folder ``checkpoint-500``
    belongs to the run above it.
    """
    folder = path.resolve().parent
    folder = folder.parent if re.fullmatch(r"checkpoint-\d+", folder.name) else folder
    shared = {**run_parts(folder.name, otherwise=folder.parent.name), "file": path.name}
    rows = []
    for entry in content["log_history"]:
        for name, value in entry.items():
            split, _, metric = name.partition("_")
            if metric and split in ("eval", "test") and metric not in _NO_SCORES and isinstance(value, int | float):
                step = entry.get("step") if split == "eval" else None
                score = {"split": split_name(split), "metric": metric, "score": value, "step": step}
                rows.append({**shared, **score})
    return RawTable.of_scores(path.name, rows, "Trainer state", _within(path))


def without_earlier_states(files: Iterable[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Return files without the states of a run's earlier checkpoints: each repeats the history before it."""
    found = list(files)
    latest: dict[Path, tuple[float, Path]] = {}
    for _, path in found:
        checkpoint = re.fullmatch(r"checkpoint-(\d+)", path.parent.name)
        if path.name == TRAINER_STATE:
            run = path.parent.parent if checkpoint else path.parent
            step = float(checkpoint[1]) if checkpoint else inf  # the state of the whole run, which save_state() writes
            latest[run] = max(latest.get(run, (-1.0, path)), (step, path))
    kept = {path for _, path in latest.values()}
    return [(name, path) for name, path in found if path.name != TRAINER_STATE or path in kept]


def is_harness(content: Any) -> bool:
    """Return True for a results file of lm-evaluation-harness."""
    return (
        isinstance(content, Mapping)
        and isinstance(content.get("results"), Mapping)
        and any(key in content for key in ("versions", "n-shot", "configs", "config"))
    )


def harness(path: Path, content: Mapping[str, Any]) -> RawTable:
    """Return the scores of one model by lm-evaluation-harness; the arm is the model.

    ``acc,none`` is the metric ``acc``; another filter stays in the name, ``exact_match,strict-match``. Standard errors
    are left out: they say how noisy the rows are, not the training. The file says of its metrics whether higher is
    better.
    """
    config = content.get("config") or {}
    arguments = dict(word.partition("=")[::2] for word in str(config.get("model_args") or "").split(",") if "=" in word)
    name = content.get("model_name") or arguments.get("peft") or arguments.get("pretrained") or path.stem
    counts = content.get("n-samples") or {}
    seed = config.get("random_seed", 0)
    rows = [
        {
            "arm": str(name),
            "task": task,
            "seed": seed if isinstance(seed, int) else 0,
            "split": "test",
            "metric": key.removesuffix(",none"),
            "score": value,
            "rows": (counts.get(task) or {}).get("effective"),
            "file": path.name,
        }
        for task, metrics in content["results"].items()
        for key, value in metrics.items()
        if isinstance(value, int | float) and "stderr" not in key
    ]
    stated: dict[str, bool] = {}
    for metrics in (content.get("higher_is_better") or {}).values():
        stated |= {name: higher for name, higher in (metrics or {}).items() if isinstance(higher, bool)}
    higher = {row["metric"]: stated[name] for row in rows if (name := row["metric"].partition(",")[0]) in stated}
    return RawTable.of_scores(path.name, rows, "lm-evaluation-harness", _within(path), higher=higher)


def _within(path: Path) -> Any:
    return lambda index: f"{path.name} score {index + 1}"
