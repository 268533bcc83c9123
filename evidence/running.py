"""Train a study of the evidence, measure what its claims need, and keep its numbers and figures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

from evidence.arms import read_runs
from evidence.commands import anywhere, first_rows, flags, gradgate
from evidence.language_adapters import ROWS as LANGUAGES
from evidence.language_adapters import pretrain, pretrained
from evidence.prompts import prompted_texts, write_prompts
from evidence.row_noise import ROWS as ROW_NOISE
from evidence.row_noise import row_noise
from evidence.searches import ROWS as SEARCHED
from evidence.searches import searched
from evidence.studies import DATA, FIGURES, Scale, Study
from evidence.vocabulary import cut_vocabulary
from gradgate.analysis.forgetting import NAME as FORGETTING
from gradgate.analysis.forgetting import forgetting_folder
from gradgate.papers.claims.numbers import SECONDS, TRACE_EARLY
from gradgate.papers.measured import SOURCE
from gradgate.papers.recorded import read_numbers, write_numbers


def run_study(study: Study, scale: Scale, out: Path, workers: int | None = None) -> None:
    """Run what is missing of a study; a finished study takes seconds.

    Args:
        out: the folder with the folders of all studies; the numbers go to ``results`` and ``runs`` in it.
        workers: runs at a time; by default one at full scale.

    Raises:
        subprocess.CalledProcessError: if a command fails; it has printed why.
    """
    folder, settings = out / study.name, out / f"{study.name}.yaml"
    out.mkdir(parents=True, exist_ok=True)
    given = settings_here(study, scale, out)
    settings.write_text(yaml.safe_dump(given, sort_keys=False), encoding="utf-8")
    gradgate("compare", "--config", str(settings), "--out", str(folder), "--workers", str(workers or _workers(scale)))
    for name, options in study.analyses.items():
        words = [word for key, value in options.items() for word in flags(key, value)]
        gradgate("analyze", name, str(folder), *(word.replace(DATA, str(given.get("data"))) for word in words))
    if study.analyses:
        gradgate("report", str(folder))
    write_measured(study, out)
    _write_further_rows(study, scale, out)


def write_measured(study: Study, out: Path) -> None:
    """Write the scores, costs and curves of a trained study to ``runs``, and what its claims need to ``results``."""
    folder = out / study.name
    _write_runs(study, out)
    if study.paper:
        results = out / "results" / study.file
        results.parent.mkdir(parents=True, exist_ok=True)
        gradgate("papers", str(folder), "--paper", study.paper, "--record", str(results), quiet=True)
        left_out = {SECONDS} if study.without_times else set()
        left_out |= {TRACE_EARLY} if study.without_early_traces else set()
        if left_out:
            _leave_out(left_out, results, study.name)


def settings_here(study: Study, scale: Scale, out: Path) -> dict[str, Any]:
    """Return its settings with the data and precision of this machine; the first rows of its data go below ``out``.

    A study that another machine began keeps its precision, since it can be finished in no other one.
    """
    given = study.settings(scale)
    begun = out / f"{study.name}.yaml"
    if "precision" in given and begun.is_file():
        given["precision"] = yaml.safe_load(begun.read_text(encoding="utf-8"))["precision"]
    elif given.get("precision") == "bf16" and not _fast_in_bf16():
        print("This machine has no instructions for bf16, which would take many times as long: fp32 in its place.")
        given["precision"] = "fp32"
    if rows := study.rows(scale):
        given["data"] = str(first_rows(Path(given["data"]), rows, out / f"{study.name}-data"))
    if study.prompts_of_words:
        target = _prompts(study, out)
        write_prompts(Path(given["data"]), study.prompts_of_words, Path(given["task"]), target)
        given["data"] = str(target)
    if study.language_adapters is not None:
        shared = {name: given[name] for name in ("model", "precision", "threads") if name in given}
        settings = study.language_adapters.at(scale) | shared
        given["language_adapters"] = pretrain(study.language_adapters, _languages(given), settings, out)
    if study.cut_vocabulary:
        texts = prompted_texts(given) if study.prompts_of_words else _words(given)
        given["model"] = str(cut_vocabulary(Path(given["model"]), texts, _cut_model(study, out)))
    return given


def _words(settings: dict[str, Any]) -> set[str]:
    """Return the words of the study's languages, or of all its files if its data have one language."""
    data = Path(settings["data"])
    folders = [data / name for name in _languages(settings)] if settings.get("languages") else [data]
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return {word for file in files for word in file.read_text(encoding="utf-8", errors="replace").split()}


def _languages(settings: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys([settings.get("source", SOURCE), *settings["languages"].split(",")]))


def _prompts(study: Study, out: Path) -> Path:
    return out.resolve() / f"{study.name}-prompts"


def _cut_model(study: Study, out: Path) -> Path:
    """Return where the copy is; its folder has the name of the model, which is the model's label."""
    return out.resolve() / f"{study.name}-model" / Path(study.compare["model"]).name


def _workers(scale: Scale) -> int:
    """Return the number of parallel runs; one at full scale, as claims may use times, which neighbours would slow."""
    return 1 if scale == "full" else min(4, os.cpu_count() or 1)


def _fast_in_bf16() -> bool:
    """Return True if there is a GPU, or a CPU that multiplies matrices in bf16: AVX512-BF16, AMX, or Arm's."""
    able = torch.cpu.get_capabilities()
    return torch.cuda.is_available() or any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def _write_runs(study: Study, out: Path) -> None:
    """Write the scores and costs of every run, without paths of this machine, and their scores on dev."""
    runs = gradgate("study", "export", str(out / study.name), "--csv", quiet=True)
    runs = anywhere(runs).replace(str(_cut_model(study, out)), study.compare["model"])
    file = out / "runs" / study.runs.name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(runs, encoding="utf-8")
    gradgate("study", "export", str(out / study.name), "--curves", str(file.with_name(study.curves.name)), quiet=True)


def _write_further_rows(study: Study, scale: Scale, out: Path) -> None:
    """Write the search, the noise of the test rows and the language adapters, as far as the study has them."""
    folder = out / "runs"
    for former in (study.search, study.row_noise):
        (folder / former.name).unlink(missing_ok=True)
    if tried := searched(out / study.name):
        SEARCHED.write(folder / study.search.name, tried)
    if noise := list(row_noise(out / study.name)):
        ROW_NOISE.write(folder / study.row_noise.name, noise)
    if study.language_adapters is not None:
        rows = pretrained(out, _languages(study.settings(scale)))
        LANGUAGES.write(folder / study.languages.name, rows)


def keep(study: Study, out: Path) -> None:
    """Replace a study's committed numbers, runs and figures; what it no longer has goes.

    Raises:
        FileNotFoundError: if the report lacks a figure.
        ValueError: if the committed runs are other ones, with scores on test, and the study does not say what changed.
            Nothing is replaced in either case.
    """
    if not study.after_test_scores and study.runs.exists():
        _require_same_runs(study, out / "runs" / study.runs.name)
    drawn = {figure.file: figure.drawn(out / study.name).read_bytes() for figure in study.figures}
    for file in (study.runs, study.curves, study.search, study.row_noise, study.languages):
        file.unlink(missing_ok=True)
        if (there := out / "runs" / file.name).exists():
            shutil.copyfile(there, file)
    if study.paper:
        shutil.copyfile(out / "results" / study.file, study.results)
    if FORGETTING in study.analyses:
        measured = forgetting_folder(out / study.name / "analyses" / FORGETTING).csv_file.read_text(encoding="utf-8")
        study.forgetting.write_text(measured.replace(str(_prompts(study, out)), DATA), encoding="utf-8")
    kept = FIGURES / study.name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for name, figure in drawn.items():
        (kept / name).write_bytes(figure)


def _require_same_runs(study: Study, new: Path) -> None:
    """Refuse runs of other arms, seeds or lengths than those that are committed, whose scores on test are known."""
    committed, found = (set(map(_trained, read_runs(file))) for file in (study.runs, new))
    if committed != found:
        raise ValueError(
            f"The runs of {study.name} are not those that are committed, whose scores on test are known. "
            "Say what changed in after_test_scores of its file, such as 'three of eight seeds'."
        )


def _trained(run: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(run[name] for name in ("train_size", "method", "adapter", "seed", "cost.steps"))


def _leave_out(measures: Collection[str], results: Path, name: str) -> None:
    """Write a study's numbers without these, which something else than the arms changed."""
    numbers = {
        paper: replace(each, scores={key: values for key, values in each.scores.items() if key.on not in measures})
        for paper, each in read_numbers(results).items()
    }
    write_numbers({name: numbers}, results)
