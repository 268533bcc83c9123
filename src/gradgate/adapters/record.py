"""Read and write adapter_config.json: the adapter, and the model that it was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradgate.adapters.config import KINDS, AdapterConfig
from gradgate.adapters.keys import name_in
from gradgate.errors import AdapterFileError
from gradgate.places import short_name

VERSION = "adapters.1.3.0"  # of the library whose format is written
# Names of kinds in the oldest files, where "houlsby" has another meaning than here.
_OLD_KINDS = {"houlsby": "double_seq_bn", "houlsby+inv": "double_seq_bn_inv"}
# Without a version in the file, these names are those of transformers 2, which swapped them.
_OLD_ACTIVATIONS = {"gelu": "gelu_new", "gelu_orig": "gelu"}


@dataclass(frozen=True)
class Record:
    """One adapter as its file describes it.

    Attributes:
        name: of the adapter in the file, which its tensors carry.
        config: the adapter.
        hidden_size: width of the model; None if the file lacks it.
        model_type: of transformers; None if the file lacks it.
    """

    name: str
    config: AdapterConfig
    hidden_size: int | None
    model_type: str | None

    @classmethod
    def read(cls, values: Mapping[str, Any], tensors: Iterable[str], where: str) -> Record:
        """Read the record in a file.

        Raises:
            AdapterError: if it does not describe a bottleneck adapter.
        """
        tensors = tuple(tensors)
        name = values.get("name") or name_in(tensors)
        if not isinstance(name, str):
            raise AdapterFileError(
                f"{where}: adapter_config.json gives no name, and neither do the tensors. Expected a 'name'; add it."
            )
        config = _config(values.get("config"), where)
        if not values.get("version"):
            config = replace(
                config, non_linearity=_OLD_ACTIVATIONS.get(config.non_linearity.lower(), config.non_linearity)
            )
        has_block = any("invertible_" in key for key in tensors)
        if values.get("type") == "text_task" and config.inv_adapter and not has_block:
            config = replace(config, inv_adapter=None, inv_adapter_reduction_factor=None)
        return cls(name, config, values.get("hidden_size"), values.get("model_type"))

    def check_fits(self, model: Any, where: str) -> None:
        """Refuse an adapter of another model.

        Raises:
            AdapterFileError: if its width or type is not the model's.
        """
        mine = {"hidden_size": model.config.hidden_size, "model_type": model.config.model_type}
        theirs = {"hidden_size": self.hidden_size, "model_type": self.model_type}
        for entry, value in theirs.items():
            if value is not None and value != mine[entry]:
                raise AdapterFileError(
                    f"{where} was trained on a model with {entry} {value!r}; {type(model).__name__} has "
                    f"{mine[entry]!r}. Load it into a model of that kind."
                )

    def config_without(self, layers: Iterable[int]) -> AdapterConfig:
        """Return the adapter with further layers left out."""
        return replace(self.config, leave_out=tuple(sorted({*self.config.leave_out, *layers})))


def model_entries(model: Any) -> dict[str, Any]:
    """Return the entries of their files that describe the model; a local path is cut to its last part."""
    name = model.config.name_or_path or ""
    is_local = Path(name).exists()
    return {
        "hidden_size": model.config.hidden_size,
        "model_class": type(model).__name__,
        "model_name": Path(name).name if is_local else short_name(name),
        "model_type": model.config.model_type,
        "version": VERSION,
    }


def _config(value: Any, where: str) -> AdapterConfig:
    if isinstance(value, str):
        kind = _OLD_KINDS.get(value, value)
        if kind in KINDS:
            return KINDS[kind]
    if not isinstance(value, Mapping):
        raise AdapterFileError(
            f"{where}: adapter_config.json has no configuration of a bottleneck adapter. Expected 'config' with its "
            "fields, or the name of a kind."
        )
    return AdapterConfig.of_record(value)
