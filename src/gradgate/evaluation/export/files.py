"""Write the weights of a finished run in one form."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from gradgate import adapters
from gradgate.adapters.archive import CONFIG_FILE as ADAPTER_CONFIG
from gradgate.adapters.attach import attached, inner
from gradgate.adapters.files import HEAD_CONFIG_FILE, HEAD_FILES, NORMS_FILE, WEIGHTS_FILES
from gradgate.adapters.keys import prefix_of, written_norms
from gradgate.adapters.kinds import NAME as TASK
from gradgate.deltas.delta import DELTA_FILE
from gradgate.deltas.model_files import copy_files
from gradgate.deltas.peft_export import NotSparseError, export
from gradgate.evaluation.finished import FinishedRun
from gradgate.evaluation.plain import plain_model
from gradgate.files import read_json, write_text
from gradgate.hub import model_source
from gradgate.replacing import share
from gradgate.runs.model import delta_of_run
from gradgate.settings.finished import Dtype
from gradgate.training.generation.decoding import Greedy, new_tokens

BASE, LANGUAGES = "base", "languages"
"""Folders in an export of a bottleneck adapter: a base model of its own, and a folder per language."""
_TOKENIZER_CONFIG = "tokenizer_config.json"
_NEW_TOKENIZER, _OLD_TOKENIZER = "TokenizersBackend", "PreTrainedTokenizerFast"


def write_transformers(run: FinishedRun, folder: Path, dtype: Dtype | None) -> None:
    """Write the whole model, with an adapter of PEFT merged into its weights."""
    model = plain_model(run, merge=run.config.adapter is not None)
    _write_model(run, model, folder, dtype)
    run.tokenizer.save_pretrained(folder)


def write_peft(run: FinishedRun, folder: Path, dtype: Dtype | None) -> None:
    """Write an adapter as ``PeftModel.from_pretrained`` reads it; a whole model as SHiRA and whole modules.

    Raises:
        DeltaError: if a whole model has no single changed weights, or its base cannot be read.
    """
    if run.config.adapter is None:
        _write_shira(run, folder)
    else:
        for name in (ADAPTER_CONFIG, "adapter_model.safetensors"):
            shutil.copyfile(run.folder.model / name, folder / name)
    config = read_json(folder / ADAPTER_CONFIG) | {"base_model_name_or_path": base_of(run)}
    write_text(folder / ADAPTER_CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")
    _cast_files(folder, dtype)
    _write_configuration(run, folder, dtype)
    run.tokenizer.save_pretrained(folder)


def _write_shira(run: FinishedRun, folder: Path) -> None:
    """Write a whole model as SHiRA and whole modules.

    Raises:
        NotSparseError: if the method changed no single weights of linear layers.
    """
    with tempfile.TemporaryDirectory() as scratch:
        delta = _delta_file(run, Path(scratch))
        try:
            export(delta, run.config.model, Path(scratch) / "peft")
        except NotSparseError:
            raise NotSparseError(
                f"to=peft: the run in {run.folder.path} changed no single weights of linear layers, which is all "
                f"that SHiRA stores. Export it as transformers or delta."
            ) from None
        for file in sorted((Path(scratch) / "peft").iterdir()):
            shutil.copyfile(file, folder / file.name)


def write_adapterhub(run: FinishedRun, folder: Path, dtype: Dtype | None) -> None:
    """Write a bottleneck adapter with its head as AdapterHub's library reads it, and the adapters of languages below.

    Their format has no place for layer norms that the adapter tunes, so these are written as a base model.
    """
    for name in (ADAPTER_CONFIG, WEIGHTS_FILES[0], HEAD_CONFIG_FILE, HEAD_FILES[0]):
        if (run.folder.model / name).is_file():
            shutil.copyfile(run.folder.model / name, folder / name)
    _write_languages(run, folder)
    _cast_files(folder, dtype)
    _write_configuration(run, folder, dtype)
    _write_older_tokenizer(run, folder)
    if needs_own_base(run):
        _write_own_base(run, folder / BASE, dtype)


def write_delta(run: FinishedRun, folder: Path) -> None:
    """Write what training changed as one file, with configuration and tokenizer."""
    _delta_file(run, folder)
    copy_files(run.folder.model, folder)
    _write_decoding(run, inner(run.model), folder)


def base_of(run: FinishedRun) -> str:
    """Return the name or the absolute path of the base model, as ``from_pretrained`` takes it."""
    source = model_source(run.config.model)
    return str(Path(source).resolve()) if Path(source).is_dir() else source


def needs_own_base(run: FinishedRun) -> bool:
    """Return True for a bottleneck adapter that changes the base model, by its layer norms or by new tokens."""
    return (run.folder.model / NORMS_FILE).is_file() or bool(run.config.open_new_tokens)


def _write_model(run: FinishedRun, model: Any, folder: Path, dtype: Dtype | None) -> None:
    if dtype is not None:
        model = model.to(getattr(torch, dtype))
    _keep_decoding(run, model)
    model.save_pretrained(folder)
    share(folder.rglob("*.safetensors"))


def _write_configuration(run: FinishedRun, folder: Path, dtype: Dtype | None) -> None:
    """Write the model's configuration and settings of generation, without weights."""
    model = inner(run.model)
    if dtype is not None:
        model.config.dtype = dtype
    _write_decoding(run, model, folder)
    model.config.save_pretrained(folder)


def _write_decoding(run: FinishedRun, model: Any, folder: Path) -> None:
    """Write the settings of generation of a run that generates text: those that its texts were scored with."""
    _keep_decoding(run, model)
    if run.task.kind == "generation":
        model.generation_config.save_pretrained(folder)


def _keep_decoding(run: FinishedRun, model: Any) -> None:
    """Make a model that generates text decode by default as the run's scores do."""
    if run.task.kind != "generation":
        return
    limit = new_tokens(run.config.max_new_tokens, model.config)
    Greedy(run.config.batch_size, limit, run.config.precision).keep(model, run.tokenizer)


def _write_languages(run: FinishedRun, folder: Path) -> None:
    """Write each language's adapter, as safetensors also where the original is not."""
    if run.language_adapters is None:
        return
    for language, place in run.language_adapters.kept().items():
        name = f"language_{language.replace('-', '_')}"
        adapters.load(run.model, place, name, head=False)
        adapters.save(run.model, name, folder / LANGUAGES / language, head=False)
        adapters.remove(run.model, name)


def _write_own_base(run: FinishedRun, folder: Path, dtype: Dtype | None) -> None:
    """Write the base model with the layer norms that the adapter tunes; the adapter is gone afterwards."""
    model = inner(run.model)
    found = attached(run.model)
    assert found is not None
    norms = written_norms(found.blocks(TASK).norms, prefix_of(model))
    adapters.remove(run.model)
    model.load_state_dict(norms, strict=False)
    _write_model(run, model, folder, dtype)


def _write_older_tokenizer(run: FinishedRun, folder: Path) -> None:
    """Write the tokenizer under a class that transformers 4 has, too, which AdapterHub's library needs."""
    run.tokenizer.save_pretrained(folder)
    config = read_json(folder / _TOKENIZER_CONFIG)
    if config.get("tokenizer_class") == _NEW_TOKENIZER:
        write_text(
            folder / _TOKENIZER_CONFIG, json.dumps(config | {"tokenizer_class": _OLD_TOKENIZER}, indent=2) + "\n"
        )


def _delta_file(run: FinishedRun, folder: Path) -> Path:
    """Write the delta of a run into a folder, and return the file."""
    stored, file = run.folder.model / DELTA_FILE, folder / DELTA_FILE
    if stored.is_file():
        shutil.copyfile(stored, file)
    else:
        delta_of_run(run.folder, file)
    return file


def _cast_files(folder: Path, dtype: Dtype | None) -> None:
    """Rewrite the safetensors of a folder with all floating-point tensors in one type."""
    if dtype is None:
        return
    wanted = getattr(torch, dtype)
    for file in sorted(folder.rglob("*.safetensors")):
        tensors = load_file(file)
        cast = {name: tensor.to(wanted) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
        save_file(cast, file, {"format": "pt"})
    share(folder.rglob("*.safetensors"))
