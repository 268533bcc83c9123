"""Export a delta as a PEFT adapter: SHiRA for single weights of linear layers, full modules for everything else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from gradgate import hub
from gradgate.deltas.delta import Delta, load
from gradgate.deltas.layout import Layout
from gradgate.deltas.model_files import CONFIG_FILE
from gradgate.deltas.patched import Patched, open_weights
from gradgate.deltas.plain_model import check_plain_weights
from gradgate.errors import DeltaError, RunError
from gradgate.files import in_use, write_files
from gradgate.places import typed_path

_PREFIX = "base_model.model."


class NotSparseError(DeltaError):
    """A delta without single changed weights of linear layers, which SHiRA is made of."""


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes:
        folder: for ``PeftModel.from_pretrained``.
        shira: linear layers of which single weights are stored.
        modules: modules that are stored in full, such as a head, a norm, or a layer with a changed bias.
        rank: SHiRA's ``r``: each layer with m inputs and n outputs has r (m + n) indices.
    """

    folder: Path
    shira: tuple[str, ...]
    modules: tuple[str, ...]
    rank: int


def export(
    delta: str | os.PathLike[str] | Delta,
    base: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    *,
    to: str = "peft",
) -> Exported:
    """Write a delta as an adapter of another library.

    PEFT's SHiRA (Bhardwaj et al. 2024, https://arxiv.org/abs/2406.13175) adds differences to the weights, so a sum may
    differ from the trained weight in its last bit. All its layers have the same ``r``; spare indices get a difference
    of 0. A layer with fewer than r (m + n) weights is stored in full.

    Args:
        delta: the file.
        base: the model that it belongs to; None for the one named in the delta.
        out: a folder that is absent or empty.
        to: ``peft``, the only one so far.

    Raises:
        DeltaError: if no linear layer has single weights that changed, the delta is damaged or of another base, or the
            folder cannot be written.
    """
    if to != "peft":
        raise DeltaError(f"There is no export to {to!r}. Expected 'peft'.")
    delta = delta if isinstance(delta, Delta) else load(Path(delta))
    out = typed_path(out)
    if in_use(out):
        raise DeltaError(f"{out} is not empty. Pass a new folder.")
    trained = Patched.checked(open_weights(os.fspath(base) if base is not None else delta.origin.base), delta)
    model = _structure(trained)
    layout = Layout.of(model, model.state_dict())
    tied = _tied(model)
    changed = _by_module(tied, layout, delta.names)
    if not changed:
        raise DeltaError(f"{delta.path} changes no weight, so there is nothing to export. Use its base as it is.")
    _check_modules(delta, model, changed)
    rank, sparse = _rank(trained, model, changed)
    whole = _outermost([module for module in changed if module not in sparse])
    config = _config(trained, rank, sparse, whole)
    tensors = dict(_shira(trained, sparse, rank)) | dict(_whole(trained, model, layout, tied, whole))
    _write(out, tensors, config)
    trained.close()
    return Exported(out, tuple(sparse), tuple(whole), rank)


def _write(out: Path, tensors: dict[str, Tensor], config: dict[str, Any]) -> None:
    try:
        # Each module has its own copy of a tied weight, and safetensors writes no memory twice.
        own = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
        weights = save(own, {"format": "pt"})
        write_files(out, {"adapter_model.safetensors": weights, "adapter_config.json": json.dumps(config, indent=2)})
    except RunError as error:
        raise DeltaError(str(error)) from error


def _structure(trained: Patched) -> nn.Module:
    """Build the model without its weights, from the configuration in the delta."""
    import transformers

    check_plain_weights(trained.base.folder, trained.base.where)
    delta = trained.delta
    try:
        values = json.loads(delta.origin.files[CONFIG_FILE])
        hub.check_sizes(values, f"The configuration in {delta.path}")
        config = transformers.AutoConfig.for_model(**values)
        factory: Any = getattr(transformers, values["architectures"][0])
        with torch.device("meta"):
            model: nn.Module = factory(config)
    except Exception as error:  # each architecture has errors of its own
        raise DeltaError(
            f"The model of {delta.path} cannot be built from the configuration in it: {hub.first_line(error)}. "
            f"Expected an architecture of the installed transformers."
        ) from error
    return model


def _tied(model: nn.Module) -> dict[str, list[str]]:
    """Return the name of each parameter to all names of it; PEFT stores each module with a copy of its own."""
    model.tie_weights()  # type: ignore[operator]
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {name: several for several in names.values() for name in several}


def _by_module(tied: Mapping[str, list[str]], layout: Layout, names: tuple[str, ...]) -> dict[str, list[str]]:
    """Return module to the names on disk of what changed in it; a tied weight is in several."""
    modules: dict[str, list[str]] = {}
    for name in names:
        memory = [each for own in layout.names_in_memory(name) for each in tied.get(own, [own])]
        for module in dict.fromkeys(each.rpartition(".")[0] for each in memory):
            modules.setdefault(module, []).append(name)
    return modules


def _outermost(modules: list[str]) -> list[str]:
    """Return the modules that are not inside another one, which PEFT stores with all that is in it."""
    return [module for module in modules if not _is_inside(module, modules)]


def _is_inside(module: str, others: Iterable[str]) -> bool:
    return any(module.startswith(f"{other}.") for other in others)


def _check_modules(delta: Delta, model: nn.Module, changed: Mapping[str, list[str]]) -> None:
    """Raise DeltaError if a changed tensor is in no module below the model, as PEFT stores modules."""
    known = dict(model.named_modules())
    stray = [names[0] for module, names in changed.items() if not module or module not in known]
    if stray:
        raise DeltaError(
            f"{delta.path} changes {stray[0]}, which is in no module of a {type(model).__name__}, but PEFT stores "
            f"modules. Use 'gradgate delta apply' instead."
        )


def _rank(trained: Patched, model: nn.Module, changed: Mapping[str, list[str]]) -> tuple[int, dict[str, int]]:
    """Return SHiRA's ``r``, and the number of changed weights in each of its layers."""
    delta = trained.delta
    counts = {
        module: delta.sparse[names[0]].elements
        for module, names in changed.items()
        if names == [f"{module}.weight"] and names[0] in delta.sparse
        if names[0] not in delta.origin.shapes and names[0] not in delta.origin.dtypes
        if isinstance(model.get_submodule(module), nn.Linear)
    }
    while counts:
        counts = {m: count for m, count in counts.items() if not _is_inside(m, changed.keys() - counts.keys())}
        if not counts:
            break
        rank = max(ceil(count / sum(trained.entries[f"{module}.weight"].shape)) for module, count in counts.items())
        full = [m for m in counts if rank * sum(shape := trained.entries[f"{m}.weight"].shape) > shape[0] * shape[1]]
        if not full:
            return rank, counts
        widest = max(full, key=lambda module: counts[module] / sum(trained.entries[f"{module}.weight"].shape))
        del counts[widest]
    raise NotSparseError(
        f"No linear layer in {delta.path} has single changed weights and room for SHiRA's r (m + n) indices: "
        f"{len(delta.whole)} tensors are stored in full. Use 'gradgate delta apply' instead."
    )


def _shira(trained: Patched, layers: Mapping[str, int], rank: int) -> Iterator[tuple[str, Tensor]]:
    for module in layers:
        name = f"{module}.weight"
        places, values = trained.patch(name)
        base = trained.base.read(name)
        rows, columns = base.shape
        places = _filled(places.long(), rank * (rows + columns), base.numel())
        changed = base.reshape(-1)[places].clone()
        changed[torch.isin(places, trained.patch(name)[0].long())] = values
        yield f"{_PREFIX}{module}.shira_weight", changed - base.reshape(-1)[places]
        yield f"{_PREFIX}{module}.shira_indices", torch.stack([places // columns, places % columns]).int()


def _filled(places: Tensor, count: int, elements: int) -> Tensor:
    """Fill indices up to ``count`` with the first free ones, and return them in increasing order."""
    free = torch.ones(elements, dtype=torch.bool)
    free[places] = False
    return torch.cat([places, free.nonzero().view(-1)[: count - len(places)]]).sort().values


def _whole(
    trained: Patched, model: nn.Module, layout: Layout, tied: Mapping[str, list[str]], modules: list[str]
) -> Iterator[tuple[str, Tensor]]:
    stored = {memory for disk in trained.entries for memory in layout.names_in_memory(disk)}
    for module in modules:
        for name in model.get_submodule(module).state_dict():
            own = f"{module}.{name}"
            found = next((each for each in tied.get(own, ()) if each in stored), own)
            yield f"{_PREFIX}{own}", layout.read(found, trained.read, trained.entries)


def _config(trained: Patched, rank: int, sparse: Mapping[str, int], whole: list[str]) -> dict[str, Any]:
    return {
        "peft_type": "SHIRA",
        "base_model_name_or_path": trained.delta.origin.base,
        "inference_mode": True,
        "r": rank,
        "mask_type": "random",
        "target_modules": list(sparse),
        "modules_to_save": whole or None,
    }
