"""Read the files of AdapterHub's library, and write files that it can load."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from gradgate.adapters import heads, keys
from gradgate.adapters.architectures import architecture_of
from gradgate.adapters.archive import CONFIG_FILE, SETUP_FILE, Files, open_files
from gradgate.adapters.attach import attach, attached, inner
from gradgate.adapters.build import build
from gradgate.adapters.record import VERSION, Record, model_entries
from gradgate.adapters.stack import activate, active, check_new, remove, require, whole_numbers
from gradgate.errors import AdapterError, AdapterFileError, GradgateWarning, RunError
from gradgate.files import parse_json, write_files
from gradgate.places import typed_path

WEIGHTS_FILES = ("adapter.safetensors", "pytorch_adapter.bin")
HEAD_FILES = ("model_head.safetensors", "pytorch_model_head.bin")
HEAD_CONFIG_FILE = "head_config.json"
NORMS_FILE = "layer_norms.safetensors"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def load(
    model: nn.Module,
    where: str | os.PathLike[str],
    name: str | None = None,
    *,
    leave_out: Iterable[int] = (),
    head: bool | None = None,
    revision: str | None = None,
) -> str:
    """Load an adapter that AdapterHub's library or :func:`save` wrote, frozen and inactive.

    Args:
        model: from transformers, of the type that the adapter was trained on.
        where: a folder, a zip or tar archive, or the name of a repository on the hub, as a text.
        name: to load it under; by default that in the file.
        leave_out: numbers of further layers that get no module.
        head: load the prediction head, too, into the model's own. None loads one that fits and warns if it does not;
            True requires one; False leaves the model's head as it is.
        revision: branch, tag or commit on the hub.

    Returns:
        The name.

    Raises:
        AdapterFileError: if the files are absent, damaged, unsafe or of another model; then the model is unchanged.
        AdapterError: if the name is taken, or ``leave_out`` has anything but numbers of layers.
    """
    left_out = whole_numbers("leave_out", leave_out)
    return _load(model, open_files(where, revision=revision), name, left_out, head)


def save(
    model: nn.Module,
    name: str,
    folder: str | os.PathLike[str],
    *,
    head: bool = True,
    head_also: Collection[str] = (),
) -> None:
    """Write an adapter so that AdapterHub's library can load it (with ``use_safetensors=True``).

    ``adapter_config.json``, ``adapter.safetensors``, and for a model with a head ``head_config.json`` and
    ``model_head.safetensors``. Layer norms that the adapter tunes, which their format has no place for, go into
    ``layer_norms.safetensors``.

    Args:
        model: with the adapter.
        name: of the adapter.
        folder: created if absent; files of an adapter in it are replaced.
        head: write the head, too.
        head_also: names of parameters of the base model that belong to the head, such as a pooler that the pretrained
            weights lacked; :func:`load` puts them back.

    Raises:
        AdapterError: if there is no such adapter.
        AdapterFileError: if the folder cannot be written.
    """
    found = attached(model)
    if found is None:
        raise AdapterError(f"{name!r} cannot be saved: the model has no adapters. Add or load one first.")
    require(found, name)
    host, blocks = inner(model), found.blocks(name)
    prefix = keys.prefix_of(host)
    files = {WEIGHTS_FILES[0]: save_safetensors(keys.written(blocks.modules, name, prefix), {"format": "pt"})}
    if blocks.norms:
        files[NORMS_FILE] = save_safetensors(keys.written_norms(blocks.norms, prefix), {"format": "pt"})
    if head and (tensors := heads.written(host, head_also)):
        files[HEAD_FILES[0]] = save_safetensors(tensors, {"format": "pt"})
        files[HEAD_CONFIG_FILE] = _json(heads.static_record(host))
    config = {"config": found.configs[name].record(host.config.hidden_size), "name": name, **model_entries(host)}
    files[CONFIG_FILE] = _json(config)
    _write(typed_path(folder), files)


def load_setup(model: nn.Module, where: str | os.PathLike[str], *, revision: str | None = None) -> tuple[str, ...]:
    """Load every adapter of a stack that :func:`save_setup` or their ``save_adapter_setup`` wrote, and activate it.

    Returns:
        The names, from the bottom of the stack.

    Raises:
        AdapterFileError: as :func:`load` does; adapters that were loaded before the failure are taken out again.
    """
    files = open_files(where, revision=revision)
    names = _stack_of(read_record(files, SETUP_FILE), files.where)
    done: list[str] = []
    try:
        for name in names:
            done.append(_load(model, _inside(files, name), name, (), None))
        activate(model, *names)
    except AdapterError:
        if done:
            remove(model, *done)
        raise
    return names


def save_setup(model: nn.Module, folder: str | os.PathLike[str]) -> None:
    """Write the active stack as their ``save_adapter_setup`` does: ``adapter_setup.json`` and one folder each."""
    names = active(model)
    if not names:
        raise AdapterError("There is no active adapter to save. Use activate first.")
    for name in names:
        save(model, name, typed_path(folder) / name)
    children = [{"type": "single", "children": [name]} for name in names]
    stack = {"type": "Stack", "children": children} if len(names) > 1 else children[0]
    _write(typed_path(folder), {SETUP_FILE: _json({"adapter_setup": stack, "head_setup": None, "version": VERSION})})


def restore(model: nn.Module, folder: str | os.PathLike[str], *names: str) -> None:
    """Load the weights of the folders ``folder/NAME`` into the model's adapters, in place; an optimizer keeps them.

    Raises:
        AdapterError: if the model has no such adapter.
        AdapterFileError: if one is absent, damaged or does not fit; then no adapter is changed.
    """
    found, copies = attached(model), []
    if found is None:
        raise AdapterError("There is nothing to restore: the model has no adapters. Add or load them first.")
    for name in names or tuple(found.configs):
        require(found, name)
        files, stem, blocks = open_files(typed_path(folder) / name), keys.stem_of(inner(model)), found.blocks(name)
        tensors = read_tensors(files, WEIGHTS_FILES)
        read = keys.read(tensors, name, stem, blocks.modules, (), files.where)
        norms = read_tensors(files, (NORMS_FILE,)) if blocks.norms else {}
        read |= keys.read_norms(norms, stem, blocks.norms, files.where)
        copies += [(module, read[module]) for module in (*blocks.modules.values(), *blocks.norms.values())]
    for module, state in copies:
        module.load_state_dict(state)


def _load(model: nn.Module, files: Files, name: str | None, leave_out: tuple[int, ...], head: bool | None) -> str:
    host = inner(model)
    architecture, stem = architecture_of(host), keys.stem_of(host)
    described = read_record(files, CONFIG_FILE)
    if "peft_type" in described:
        raise AdapterFileError(
            f"{files.where} has an adapter of PEFT. Load it with "
            f"peft.PeftModel.from_pretrained(model, {files.where!r})."
        )
    tensors = read_tensors(files, WEIGHTS_FILES)
    try:
        record = Record.read(described, tensors, files.where)
        record.check_fits(host, files.where)
        name = record.name if name is None else name
        check_new(host, name)
        config = record.config_without(leave_out)
        blocks = build(host.base_model, architecture, config, seed=0)
    except AdapterFileError:
        raise
    except AdapterError as error:
        raise AdapterFileError(f"{files.where}: {error}") from error
    norms = read_tensors(files, (NORMS_FILE,)) if files.read(NORMS_FILE) is not None else {}
    blocks.norms = keys.norms_for(norms, stem, host.base_model, files.where)
    read = keys.read(tensors, record.name, stem, blocks.modules, config.leave_out, files.where)
    read |= keys.read_norms(norms, stem, blocks.norms, files.where)
    placed = _head(host, files, record.name, head)
    for module, state in read.items():
        if not any(parameter.is_meta for parameter in module.parameters()):  # on meta there are only shapes
            module.load_state_dict(state)
    for parameter in blocks.parameters():
        parameter.requires_grad_(False)
    adapters = attach(host)
    adapters.put(host, name, config, blocks)
    adapters.keep_out_of_saves(host)
    heads.put(host, adapters, placed)
    return name


def _head(host: Any, files: Files, name: str, wanted: bool | None) -> heads.Placed | None:
    """Return the tensors for the model's own head; None if none is to be loaded."""
    if wanted is False:
        return None
    if files.read(HEAD_CONFIG_FILE) is None:
        if wanted:
            raise AdapterFileError(
                f"{files.where} has no prediction head (no {HEAD_CONFIG_FILE}). Load it without head=True."
            )
        return None
    if wanted is None and host.base_model is host:
        return None
    try:
        return heads.place(
            host, read_record(files, HEAD_CONFIG_FILE), read_tensors(files, HEAD_FILES), name, files.where
        )
    except heads.HeadMismatchError as error:
        if wanted:
            raise
        told = f"The prediction head was not loaded. {error} Pass head=False to leave it out."
        warnings.warn(told, GradgateWarning, stacklevel=4)
        return None


def read_tensors(files: Files, names: Iterable[str]) -> dict[str, Tensor]:
    """Read the tensors of the first existing file of these names.

    Raises:
        AdapterFileError: if none exists, or it is damaged, or has a number that is not finite or of another dtype.
    """
    names = tuple(names)
    for name in names:
        data = files.read(name)
        if data is None:
            continue
        try:
            tensors = load_safetensors(data) if name.endswith(".safetensors") else _unpickled(data)
        except Exception as error:  # pickle, zip, torch and safetensors have errors of their own
            raise AdapterFileError(f"{name} in {files.where} is damaged ({_reason(error)}). Fetch it again.") from None
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise AdapterFileError(
                f"{name} in {files.where} contains objects other than tensors. Expected a mapping of names to tensors; "
                "fetch it again."
            )
        _check_values(tensors, f"{name} in {files.where}")
        return tensors
    raise AdapterFileError(
        f"{files.where} has no {' or '.join(names)}. Expected a folder that adapters.save wrote, or fetch it again."
    )


def _reason(error: Exception) -> str:
    """Explain why a file cannot be read; torch's own text advises to run the code of a pickle."""
    if isinstance(error, pickle.UnpicklingError):
        return "it contains more than tensors; none of its code was run"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _check_values(tensors: Mapping[str, Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        is_dense = tensor.layout is torch.strided and not tensor.is_meta
        if not is_dense or ((tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype not in _FLOATS):
            raise AdapterFileError(
                f"{where} cannot be used: {name!r} is {tensor.dtype}, {tensor.layout}, on {tensor.device}. Expected "
                f"dense tensors of {', '.join(str(dtype).removeprefix('torch.') for dtype in _FLOATS)} or of whole "
                f"numbers; convert it."
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise AdapterFileError(
                f"{where} is damaged: {name!r} contains NaN or infinity. Expected finite numbers; fetch it again or "
                f"train "
                f"the adapter again with a lower learning rate."
            )


def _unpickled(data: bytes) -> dict[str, Tensor]:
    loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    if not isinstance(loaded, Mapping):
        raise ValueError(f"it holds {type(loaded).__name__}, not a mapping of names to tensors")
    return dict(loaded)


def read_record(files: Files, name: str) -> dict[str, Any]:
    """Read a JSON file.

    Raises:
        AdapterFileError: if it is absent or damaged.
    """
    data = files.read(name)
    if data is None:
        raise AdapterFileError(
            f"{files.where} has no {name}, so it is not an adapter. Expected a folder from adapters.save or the hub."
        )
    try:
        return parse_json(data)
    except ValueError as error:
        raise AdapterFileError(f"{name} in {files.where} is damaged: {error}. Fetch it again.") from None


def _stack_of(record: Mapping[str, Any], where: str) -> tuple[str, ...]:
    setup: Any = record.get("adapter_setup")
    try:
        members = setup["children"] if setup["type"] == "Stack" else [setup]
        names = [member["children"][0] for member in members if member["type"] == "single"]
    except (TypeError, KeyError, IndexError):
        members, names = [setup], []
    if len(names) != len(members) or not all(isinstance(name, str) for name in names):
        raise AdapterFileError(f"{where}: only a stack of adapters can be loaded, got {setup!r:.200}.")
    unsafe = [name for name in names if Path(name).name != name]
    if unsafe:
        raise AdapterFileError(
            f"{where}: {unsafe[0]!r} cannot be the name of an adapter. Expected the names of folders next to it."
        )
    return tuple(names)


def _inside(files: Files, name: str) -> Files:
    if files.folder is not None:
        return Files(f"{files.where}/{name}", folder=files.folder / name)
    inside = {key.removeprefix(f"{name}/"): data for key, data in (files.members or {}).items()}
    return Files(f"{files.where}/{name}", members=inside)


def _json(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, indent=2, sort_keys=True).encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files or none; then remove what an earlier save left and these do not replace."""
    try:
        write_files(folder, files)
        if CONFIG_FILE in files:
            for name in {*WEIGHTS_FILES, *HEAD_FILES, HEAD_CONFIG_FILE, NORMS_FILE} - files.keys():
                (folder / name).unlink(missing_ok=True)
    except (OSError, RunError) as error:
        raise AdapterFileError(f"Cannot write the adapter to {folder}: {error}") from error
