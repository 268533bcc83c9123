"""Read what PEFT's adapters were asked to adapt, and which tables of a model have grown since it was pretrained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from gradgate.auditing.records import AdapterRecord
from gradgate.errors import RunError
from gradgate.files import read_json
from gradgate.layers.names import canonical_name

ADAPTER_PART = re.compile(
    r"\.(adamss|beft|boft|c3a|deft|delora|fourierft|frod|gralora|hada|hira|hra|ia3|lily|ln_tuning|loha|lokr|lora|miss|oft|"
    r"osf|peanut|poly|psoft|pvera|randlora|road|shira|supertuning|tinylora|unilora|vblora|vera|waveft)_"
)
"""Where the name of a module ends and that of a tensor of its adapter begins, in PEFT."""


def adapters_of(model: nn.Module) -> list[AdapterRecord]:
    """Return the adapters of a model, those that target modules."""
    found = []
    for config in _configs(model):
        targets = getattr(config, "target_modules", None)
        if targets:
            kind = getattr(config.peft_type, "value", str(config.peft_type))
            adapted = _homes(model)
            found.append(adapter_record(kind, targets, getattr(config, "layers_to_transform", None), adapted))
    return found


def adapted_modules_of(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules that have an adapter, by path."""
    homes = _homes(model)
    return {path: module for raw, module in model.named_modules() if (path := canonical_name(raw)) in homes}


def merged_modules_of(model: nn.Module) -> set[str]:
    """Return the paths of the modules whose adapter is in their own weights now."""
    return {canonical_name(raw) for raw, module in model.named_modules() if module.__dict__.get("merged_adapters")}


def _homes(model: nn.Module) -> set[str]:
    return {home for raw, _ in model.named_parameters() if (home := _home(raw))}


def adapter_record(kind: str, targets: str | Iterable[object], layers: object, adapted: set[str]) -> AdapterRecord:
    """Return the record of one adapter.

    Args:
        kind: its type, such as LORA.
        targets: ``target_modules`` of its configuration.
        layers: ``layers_to_transform`` of its configuration; None if it chooses none.
        adapted: paths of the modules that have it.
    """
    names = [] if isinstance(targets, str) else sorted(map(str, targets))
    chosen = layers is not None or any(map(_names_layers, [targets] if isinstance(targets, str) else names))
    return AdapterRecord(kind, names, sorted(adapted), chosen)


def _configs(model: nn.Module) -> Iterator[Any]:
    seen: set[int] = set()
    for module in model.modules():
        configs = module.__dict__.get("peft_config")
        for config in configs.values() if isinstance(configs, dict) else ():
            if id(config) not in seen and hasattr(config, "peft_type"):
                seen.add(id(config))
                yield config


def _names_layers(target: str) -> bool:
    """Return True if a target names layers by number; the digits of a module's own name do not count."""
    return re.search(r"(^|[.\\(\[|])[0-9]", target) is not None


def _home(raw: str) -> str:
    """Return the path of the adapted module of a parameter of LoRA and its relatives; empty for others."""
    name = canonical_name(raw)
    found = ADAPTER_PART.search(name)
    return name[: found.start()] if found else ""


def base_model_of(model: Any) -> Any:
    """Return the model that PEFT has wrapped; others as they are."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def new_rows_of(model: nn.Module) -> dict[str, int]:
    """Return the tables of embeddings that have more rows than in the pretrained model, with their rows there."""
    inner = base_model_of(model)
    rows = _pretrained_rows(getattr(inner, "config", None))
    if rows is None or not hasattr(inner, "get_input_embeddings"):
        return {}
    try:
        table = getattr(inner.get_input_embeddings(), "weight", None)
    except (AttributeError, NotImplementedError):
        return {}
    if table is None or table.shape[0] <= rows:
        return {}
    return {canonical_name(raw): rows for raw, each in model.named_parameters() if each is table}


def _pretrained_rows(config: Any) -> int | None:
    """Return the size of the vocabulary in the files that a configuration was loaded from, if they are here."""
    name = getattr(config, "_name_or_path", "") or ""
    if not name:
        return None
    path: Any = Path(name) / "config.json"
    if not path.is_file():
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            path = try_to_load_from_cache(name, "config.json")
        except HFValidationError:
            return None
    if not isinstance(path, str | Path) or not Path(path).is_file():
        return None
    try:
        size = read_json(Path(path)).get("vocab_size")
    except RunError:
        return None
    return size if isinstance(size, int) else None
