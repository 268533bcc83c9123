"""Add seeds to a study that is recorded: train these alone, and write the numbers of all of its runs."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from evidence.arms import runs_by_arm
from evidence.commands import gradgate
from evidence.convergence import without_rate
from evidence.running import settings_here, write_measured
from evidence.searches import ROWS as SEARCHED
from evidence.studies import FIGURES, FOLDER, Study
from gradgate.files import write_text
from gradgate.papers.claims.numbers import SECONDS
from gradgate.runs.folder import RUNS_FOLDER, RunFolder
from gradgate.runs.records import DEV, RunRecord, read_record, write_record
from gradgate.runs.scores import Cost, Scores
from gradgate.settings.arms.recorded import recorded_arm
from gradgate.study.replay.curve_rows import CurveRow, read_rows
from gradgate.study.study_file import SearchRecord, StudyRecord, read_study_file, write_study_file
from gradgate.tasks.languages import AVERAGES

_SEARCH = ("search", "search_seeds", "prune")
_LOSSES = "losses.svg"
"""The figure of losses; those on train are not committed, so it stays that of the runs before."""


def add_seeds(study: Study, out: Path) -> None:
    """Train the seeds that the committed runs lack, at the committed rates, and write the numbers of all runs.

    The search is not repeated. The noise of test rows stays that of the runs before, whose predictions are not
    committed.

    Args:
        out: a folder for added seeds alone, as ``out / study.name`` in it is replaced; otherwise as in
            :func:`evidence.running.run_study`. The new runs are in ``parts``, a study per arm.

    Raises:
        ValueError: if the study cannot take more seeds, or the numbers of the committed ones do not come out as they
            are committed.
        subprocess.CalledProcessError: if a command fails; it has printed why.
    """
    committed = _committed_seeds(study)
    lacking = [seed for seed in range(study.compare["seeds"]) if seed not in committed]
    if not lacking:
        raise ValueError(f"No seed of {study.name} is lacking: raise 'seeds' in its file.")
    parts = list(_trained_parts(study, out, lacking))
    _join(study, parts, out / study.name)
    gradgate("report", str(out / study.name))
    write_measured(study, out)
    for file in (study.search, study.row_noise):
        if file.exists():
            shutil.copyfile(file, out / "runs" / file.name)
    if (losses := FIGURES / study.name / _LOSSES).exists():
        shutil.copyfile(losses, out / study.name / "figures" / _LOSSES)
    _require_same_numbers(study, out)


def _committed_seeds(study: Study) -> set[int]:
    """Return the seeds that all arms have.

    Raises:
        ValueError: if the study cannot take more seeds.
    """
    further = study.language_adapters or study.analyses or "method" not in study.compare
    if further or not study.search.exists() or not study.curves.exists() or len(runs_by_arm(study.runs)) > 1:
        raise ValueError(
            f"{study.name} cannot take more seeds: run it anew. Expected a study of 'method' with one training size, "
            "committed curves and a committed search, without language adapters and analyses."
        )
    (by_arm,) = runs_by_arm(study.runs).values()
    return set.intersection(*({int(run["seed"]) for run in runs} for runs in by_arm.values()))


def _trained_parts(study: Study, out: Path, seeds: list[int]) -> Iterator[Path]:
    """Train some seeds, and yield the study of each arm."""
    given = settings_here(study, "full", out)
    rates = {run.arm: run.lr for run in SEARCHED.read(study.search) if run.chosen}
    folder = out / "parts" / study.name
    folder.mkdir(parents=True, exist_ok=True)
    for text in given["method"]:
        arm = recorded_arm(text)
        own = {name: value for name, value in given.items() if name not in _SEARCH}
        own |= {"method": [text], "lr": rates[arm.name], "seeds": ",".join(map(str, seeds)) + ","}
        settings = folder / f"{arm.folder}.yaml"
        settings.write_text(yaml.safe_dump(own, sort_keys=False), encoding="utf-8")
        gradgate("compare", "--config", str(settings), "--out", str(folder / arm.folder))
        yield folder / arm.folder


def _join(study: Study, parts: list[Path], folder: Path) -> None:
    """Write a study with the new runs of some parts and the committed runs, as far as their numbers tell them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    records = [read_study_file(part) for part in parts]
    (by_arm,) = runs_by_arm(study.runs).values()
    committed = {name: {int(run["seed"]): run for run in runs} for name, runs in by_arm.items()}
    curves: dict[tuple[str, int], list[CurveRow]] = {}
    for row in read_rows(study.curves):
        curves.setdefault((without_rate(row.arm, row.method, row.adapter), row.seed), []).append(row)
    write_study_file(folder, _joined_record(records, {seed for runs in committed.values() for seed in runs}))
    for part, record in zip(parts, records, strict=True):
        (arm,) = record.arms
        shutil.copytree(
            part / RUNS_FOLDER / arm.folder,
            folder / RUNS_FOLDER / arm.folder,
            ignore=shutil.ignore_patterns("predictions"),
        )
        alike = RunFolder(part / RUNS_FOLDER / arm.folder / f"seed-{record.seeds[0]}")
        for seed, run in committed[arm.name].items():
            restored = RunFolder(folder / RUNS_FOLDER / arm.folder / f"seed-{seed}")
            _restore(restored, run, curves[arm.name, seed], alike)


def _joined_record(records: list[StudyRecord], committed: set[int]) -> StudyRecord:
    """Return the study of all arms and seeds, whose search has found the rates that the parts were trained at."""
    first = records[0]
    rates = {record.arms[0].name: {"lr": record.settings["lr"]} for record in records}
    return replace(
        first,
        methods=tuple(method for record in records for method in record.methods),
        seeds=tuple(sorted({*committed, *first.seeds})),
        search=SearchRecord(space=(), settings=tuple(rates.values()), seeds=(), chosen=rates),
    )


def _restore(folder: RunFolder, run: Mapping[str, str], curve: list[CurveRow], alike: RunFolder) -> None:
    """Write a committed run.

    Args:
        run: its row of the committed runs.
        curve: its scores on dev.
        alike: a run of the same arm that differs in its seed alone.
    """
    record, scores = read_record(alike.run_file, RunRecord), read_record(alike.scores_file, Scores)
    folder.path.mkdir(parents=True)
    config = {**record.config, "seed": int(run["seed"])}
    write_record(folder.run_file, replace(record, config=config, fingerprint=None, versions={}))
    splits: dict[str, dict[str, float]] = {}
    for name, value in run.items():
        split, _, metric = name.rpartition(".")
        if value and split and split not in ("cost", "setting"):
            splits.setdefault(split, {})[metric] = float(value)
    own = replace(
        scores,
        best_step=None,
        dev=splits.pop(DEV),
        averages={name: splits.pop(name) for name in AVERAGES if name in splits},
        tests=splits,
        cost=_cost(run, scores.cost),
    )
    write_record(folder.scores_file, own)
    lines = [
        {"step": row.step, "split": DEV, row.metric: row.dev} | ({} if row.dev_loss is None else {"loss": row.dev_loss})
        for row in curve
        if row.dev is not None
    ]
    write_text(folder.history_file, "".join(f"{json.dumps(line)}\n" for line in lines))


def _cost(run: Mapping[str, str], alike: Cost) -> Cost:
    return replace(
        alike,
        steps=int(run["cost.steps"]),
        seconds_per_step=float(run["cost.seconds_per_step"]),
        seconds_total=float(run["cost.seconds_total"]),
        peak_memory_bytes=int(run["cost.peak_memory_bytes"]),
        trainable_share=float(run["cost.trainable_share"]),
        parameters_trained=int(run["cost.parameters_trained"]),
        prefix_rows=None,
        files=None,
    )


def _require_same_numbers(study: Study, out: Path) -> None:
    """Refuse numbers that leave out or change a committed one, times aside; older files have fewer columns."""
    for file in (study.runs, study.curves, *([study.results] if study.paper else [])):
        now = out / file.relative_to(FOLDER)
        then, columns = _rows(file)
        lasting = (row for row in then if row.get("on") != SECONDS)
        lacking = {tuple(row.values()) for row in lasting} - {tuple(map(row.get, columns)) for row in _rows(now)[0]}
        if lacking:
            raise ValueError(f"{now} has not all rows of {file.name}: nothing can be added to {study.name}.")


def _rows(file: Path) -> tuple[list[dict[str, str]], list[str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        return list(reader), list(reader.fieldnames or ())
