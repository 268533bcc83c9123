"""Load a pretrained model and its tokenizer from a folder, a hub name or the package itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from gradgate import hub
from gradgate.errors import GradgateError, RunError, UsageError
from gradgate.hub import model_source
from gradgate.layers.quantized import keep_one_kernel
from gradgate.runs.model import whole_model
from gradgate.settings.run import RunConfig
from gradgate.tasks import Kind, TaskData
from gradgate.tasks.kinds.generation import AutoModelForGeneration
from gradgate.training.checkpoint_head import CheckpointHead, apply_plan, find_label_rows, plan_head
from gradgate.training.weights import (
    add_rows,
    check_end_token,
    check_loaded,
    check_tokenizer,
    check_vocabulary,
    is_head,
    reason_of,
)


def silence_libraries() -> None:
    """Silence the progress bars and warnings of transformers and datasets, and two warnings that PEFT causes."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    for message in ("One of the base layers adapted with", "Sparse invariant checks are implicitly disabled"):
        warnings.filterwarnings("ignore", message, UserWarning)  # from SHiRA, about a weight with hooks


def load_tokenizer(config: RunConfig) -> Any:
    """Load the tokenizer; one without a padding token pads with its end-of-text token.

    Raises:
        RunError: if it cannot be loaded, or has an empty vocabulary.
    """
    tokenizer = load_pretrained(AutoTokenizer, config, "tokenizer")
    check_tokenizer(tokenizer, config.model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_for_task(
    config: RunConfig, kind: Kind, data: TaskData, tokenizer: Any, note: Callable[[str], None] = lambda text: None
) -> tuple[Any, frozenset[str]]:
    """Load the model with a head for the task, in the run's dtype; return it and its fresh parameters' names.

    A head that the checkpoint brings is kept if its labels are those of the task, in the task's order; else it is
    drawn from torch's random state, as is one that the checkpoint lacks. ``config.head`` asks for one or the other.

    Args:
        config: of the run.
        kind: of the task.
        data: of the task.
        tokenizer: of the model.
        note: receives a sentence on a head that the checkpoint brings.

    Raises:
        RunError: if the model cannot be loaded, or its weights do not fit it.
        UsageError: for texts longer than the model has positions, or a head that should be kept if neither the names
            nor the number of its labels say how.
    """
    settings = load_pretrained(AutoConfig, config, "configuration", **kind.config_overrides(data))
    if getattr(settings, "pad_token_id", None) is None:
        settings.pad_token_id = tokenizer.pad_token_id
    set_dropout(settings, config.dropout)
    loaded = _load_checked(kind.auto_model, config, settings, tokenizer)
    if kind.auto_model is AutoModelForGeneration:
        return loaded.model, loaded.fresh
    return loaded.model, loaded.fresh | _fit_head(loaded, config, kind, data, settings, note)


def _fit_head(
    loaded: _Loaded, config: RunConfig, kind: Kind, data: TaskData, settings: Any, note: Callable[[str], None]
) -> frozenset[str]:
    """Match the head that the checkpoint brings with the task; return the parameters that it changes."""
    model = loaded.model
    if not any(is_head(model, name) and name not in loaded.absent for name, _ in model.named_parameters()):
        return frozenset()  # the checkpoint brings none
    own = load_pretrained(AutoConfig, config, "configuration")
    plan = plan_head(CheckpointHead.of(own), data.labels, config.head, config.model, type(model).__name__)
    if plan is None:
        return frozenset()
    note(plan.note)

    def build(configuration: Any) -> Any:
        return kind.auto_model.from_config(configuration, trust_remote_code=config.trust_remote_code)

    def donor() -> Any:
        found, report = load_pretrained(kind.auto_model, config, "model", config=own, output_loading_info=True)
        check_loaded(found, report, config.model, head=False)
        return found

    return apply_plan(plan, model, loaded.fresh, lambda: find_label_rows(build, settings), donor)


def load_masked_model(config: RunConfig, tokenizer: Any) -> tuple[Any, frozenset[str]]:
    """Load the model with its head for masked words, in the run's dtype; return it and its fresh parameters' names.

    Raises:
        RunError: for a model without such a head, such as a decoder, or weights that do not fit it.
    """
    settings = load_pretrained(AutoConfig, config, "configuration")
    if type(settings) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise RunError(
            f"{config.model!r} is a {settings.model_type} model, which does not fill in masked words. Language "
            f"adapters and TAPT are trained on encoders: BERT, RoBERTa, XLM-R and similar ones. "
            f"Pass one of these as model=."
        )
    set_dropout(settings, config.dropout)
    loaded = _load_checked(AutoModelForMaskedLM, config, settings, tokenizer)
    return loaded.model, loaded.fresh


@dataclass(frozen=True)
class _Loaded:
    """A model, the names of its fresh parameters, and of those that are fresh because the checkpoint lacks them."""

    model: Any
    fresh: frozenset[str]
    absent: frozenset[str]


def _load_checked(factory: Any, config: RunConfig, settings: Any, tokenizer: Any) -> _Loaded:
    """Load a model, and check its weights and vocabulary."""
    model, report = load_pretrained(
        factory,
        config,
        "model",
        config=settings,
        dtype=getattr(torch, config.weight_dtype),
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    _check_fit(config, model, settings)
    if not config.open_new_tokens:
        check_vocabulary(model, tokenizer, config.model)
    fresh = check_loaded(model, report, config.model, head=factory is not AutoModelForGeneration)
    if config.open_new_tokens:
        add_rows(model, tokenizer)
    check_end_token(model, tokenizer, config.model)
    reshaped = {entry[0] for entry in report["mismatched_keys"]}  # which count as missing, too
    return _Loaded(model, fresh, frozenset(report["missing_keys"]) - reshaped)


def set_dropout(settings: transformers.PretrainedConfig, rate: float | None) -> None:
    """Replace every dropout rate of a model's configuration and of those nested in it; None leaves them.

    Raises:
        UsageError: for a rate above 0 if the model has none.
    """
    if rate is None:
        return
    nested = [each for each in vars(settings).values() if isinstance(each, transformers.PretrainedConfig)]
    found = [(each, name) for each in (settings, *nested) for name, value in vars(each).items() if _drops(name, value)]
    if not found and rate > 0:
        raise UsageError(
            f"dropout={rate:g}: a model of type {settings.model_type!r} has no dropout. Leave dropout= out."
        )
    for each, name in found:
        setattr(each, name, rate)


def _drops(name: str, value: object) -> bool:
    """Return True for a rate of dropout of elements; one of whole layers (``layerdrop``) is another thing."""
    return ("dropout" in name or name.endswith("pdrop")) and type(value) in (float, int)


def _check_fit(config: RunConfig, model: Any, settings: Any) -> None:
    limit = positions(model, settings)
    if limit is not None and config.max_length > limit:
        raise UsageError(
            f"max_length={config.max_length} is more than the {limit} positions of {config.model}. Lower max_length=."
        )
    if config.device == "cuda" and not torch.cuda.is_available():
        raise RunError("device='cuda', but torch sees no CUDA device. Use device='cpu' or auto.")


def positions(model: Any, settings: Any) -> int | None:
    """Return the number of tokens that have a position; None without a limit.

    RoBERTa and its kin count positions from the one of padding, so that the first rows of their table serve no token.
    """
    limit: int | None = getattr(settings, "max_position_embeddings", None)
    for name, module in model.named_modules() if limit is not None else ():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings - module.padding_idx - 1)
    return limit


def load_pretrained(factory: Any, run: RunConfig, what: str, /, **options: Any) -> Any:
    """Load ``what`` of the run's model with an ``Auto...`` class of transformers; raise RunError if that fails."""
    source = model_source(run.model)
    if not Path(source).is_dir() and not hub.is_reachable(source):
        options["local_files_only"] = True  # else transformers retries for a minute before it uses the cache
    try:
        with whole_model(source) if what == "model" else nullcontext(source) as place:
            loaded = factory.from_pretrained(place, trust_remote_code=run.trust_remote_code, **options)
    except GradgateError:
        raise
    except Exception as error:  # each architecture and each file format has errors of its own
        raise RunError(_not_loaded(error, run, source, what)) from error
    if what == "model":
        keep_one_kernel(loaded[0] if isinstance(loaded, tuple) else loaded)
    return loaded


def _not_loaded(error: Exception, run: RunConfig, source: str, what: str) -> str:
    where = (
        ""
        if Path(source).is_dir()
        else (
            f" {run.model!r} is not a folder, so it was looked for on the hub: check the name and the network "
            f"(HF_HUB_OFFLINE), or pass a folder.{hub.nearest_model(run.model)}"
        )
    )
    return f"Cannot load the {what} of {run.model!r}: {reason_of(error, source)}{where}"


def load_bare(name: str, trust_remote_code: bool = False) -> Any:
    """Build a model without weights from its configuration, with a classification head if it can have one.

    Raises:
        RunError: if the model does not exist, or transformers cannot build its type.
    """
    config = RunConfig(model=name, trust_remote_code=trust_remote_code)
    settings = load_pretrained(AutoConfig, config, "configuration")
    # A classification head cannot be built for decoders without a padding token, though its shape needs none.
    if getattr(settings, "pad_token_id", None) is None:
        settings.pad_token_id = 0
    with torch.device("meta"):
        for factory in (AutoModelForSequenceClassification, AutoModel):
            try:
                model = factory.from_config(settings, trust_remote_code=trust_remote_code)
                return model.to("meta")  # XLNet makes some weights where the context does not reach
            except ValueError:
                continue
            except Exception as error:
                raise RunError(
                    f"Cannot build the model of {name!r}: {reason_of(error, name)} Expected a configuration that "
                    f"transformers can build; correct config.json or pass another model=."
                ) from error
    raise RunError(
        f"transformers does not know how to build a model of type {settings.model_type!r}. Use a model of a type "
        f"that AutoModel builds, or trust_remote_code=True if the model comes with its own code."
    )
