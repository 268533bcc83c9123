"""Read a model's configuration and build the model without memory for its weights."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, get_args

import torch
import transformers
from torch import nn

from gradgate import hub
from gradgate.errors import RunError, UsageError, nearest
from gradgate.files import read_bytes
from gradgate.places import typed_path
from gradgate.settings.memory import Head

_FACTORIES: dict[str, tuple[str, str]] = {
    "causal-lm": ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING"),
    "seq2seq": ("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING"),
    "sequence": ("AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING"),
    "token": ("AutoModelForTokenClassification", "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING"),
}
_EXPECTED = (
    "Expected a folder with config.json, such a file, a hub name, 'sample', or a configuration or model of transformers"
)


def read_configuration(name: str, trust_remote_code: bool = False) -> Any:
    """Read the configuration in a folder or JSON file, of the embedded sample, or of a model on the hub.

    Raises:
        RunError: if there is none, or it describes a model that transformers does not know.
    """
    path = typed_path(name)
    if path.is_file():
        return _from_file(path)
    source = hub.model_source(name)
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if not Path(source).is_dir() and not hub.is_reachable(source):
        options["local_files_only"] = True
    try:
        return transformers.AutoConfig.from_pretrained(source, **options)
    except Exception as error:  # each architecture has errors of its own
        where = (
            ""
            if Path(source).is_dir()
            else f" {name!r} is not a folder or file, so it was looked for on the hub.{hub.nearest_model(name)}"
        )
        raise RunError(
            f"Cannot read the configuration of {name!r}: {hub.not_loaded(error)}.{where} {_EXPECTED}; "
            f"without a network, only models in the cache are found."
        ) from error


def _from_file(path: Path) -> Any:
    try:
        values = json.loads(read_bytes(path))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read as a configuration: {error}. {_EXPECTED}.") from None
    if isinstance(values, dict):
        hub.check_sizes(values, path)
    kind = values.get("model_type") if isinstance(values, dict) else None
    if not isinstance(kind, str):
        raise RunError(f"{path} is not a model's configuration: it names no model_type. {_EXPECTED}.")
    if kind not in transformers.CONFIG_MAPPING:
        known = list(transformers.CONFIG_MAPPING.keys())
        raise RunError(
            f"{path} has model_type={kind!r}, which transformers {transformers.__version__} does not know."
            f"{nearest(kind, known)} Expected a type that it builds; correct the file or update transformers."
        )
    try:
        return transformers.CONFIG_MAPPING[kind].from_dict(values)
    except Exception as error:
        raise RunError(
            f"{path} is not a valid configuration of a {kind} model: {hub.first_line(error)}. Correct it."
        ) from error


def build(config: Any, dtype: torch.dtype, head: Head = "auto", trust_remote_code: bool = False) -> nn.Module:
    """Build the model of a configuration on the meta device, where weights have shapes but no memory.

    Args:
        config: of transformers.
        dtype: of the weights.
        head: of the model; ``auto`` is a language model's for decoders and encoder-decoders, and a classifier of the
            text for encoders.
        trust_remote_code: run code that comes with the configuration.

    Raises:
        UsageError: for a head that this kind of model cannot have.
        RunError: if the model cannot be built.
    """
    if head not in get_args(Head):
        raise UsageError(f"head={head!r}: expected one of {', '.join(get_args(Head))}.{nearest(head, get_args(Head))}")
    if not isinstance(config, transformers.PretrainedConfig):
        raise UsageError(f"{config!r} is not a configuration. {_EXPECTED}.")
    hub.check_sizes(config.to_dict(), "The configuration")
    possible = [name for name, (_, mapping) in _FACTORIES.items() if type(config) in getattr(transformers, mapping)]
    chosen = _usual(config, possible) if head == "auto" else head
    if chosen not in possible and not trust_remote_code:
        raise UsageError(
            f"A {config.model_type} model cannot have head={head!r}: transformers builds it with "
            f"{', '.join(possible) or 'none of them'}. Pass one of these, or a model instead of a configuration."
        )
    config = copy.deepcopy(config)
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0  # classifiers of decoders require one, whatever its value
    factory = getattr(transformers, _FACTORIES[chosen][0])
    try:
        with torch.device("meta"):
            model: nn.Module = factory.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise RunError(
            f"Cannot build a {config.model_type} model from its configuration: {hub.first_line(error)}. Correct the "
            f"configuration; 'gradgate layers MODEL' shows what is built."
        ) from error
    return model.to("meta")  # XLNet makes some weights where the context does not reach


def _usual(config: Any, possible: list[str]) -> str:
    """Return the head that a model of this kind usually has."""
    named = " ".join(getattr(config, "architectures", None) or ())
    if getattr(config, "is_encoder_decoder", False) and "seq2seq" in possible:
        return "seq2seq"
    if "CausalLM" in named or "LMHead" in named:
        return "causal-lm" if "causal-lm" in possible else next(iter(possible), "causal-lm")
    fills = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING
    if fills and not getattr(config, "is_decoder", False) and "sequence" in possible:
        return "sequence"
    return next(iter(possible), "causal-lm")
