"""Check that the files of a pretrained model match its configuration, so that no weight is silently random."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn

from gradgate import hub
from gradgate.errors import RunError, some_of

_SHOWN = 4  # names in a message


def check_loaded(model: Any, report: Mapping[str, Any], name: str, *, head: bool = True) -> frozenset[str]:
    """Check that pretrained weights fill a model; only its head and its pooler may be fresh.

    Args:
        model: from ``from_pretrained``.
        report: its loading info.
        name: of the model, for messages.
        head: whether the head may be fresh.

    Returns:
        The names of the parameters that were drawn at random.

    Raises:
        RunError: naming the tensors that are absent or have another shape.
    """
    missing, mismatched = set(report["missing_keys"]), {entry[0]: entry[1:] for entry in report["mismatched_keys"]}
    fresh = missing | mismatched.keys()
    wrong = sorted(name for name in fresh if not (_is_pooler(name) or (head and is_head(model, name))))
    if not wrong:
        return frozenset(fresh)
    absent = [parameter for parameter in wrong if parameter in missing]
    parts = [f"{some_of(absent, _SHOWN)} absent from its weights"] if absent else []
    reshaped = [_shapes(parameter, mismatched[parameter]) for parameter in wrong if parameter in mismatched]
    parts += [f"{some_of(reshaped, _SHOWN)} of another shape"] if reshaped else []
    unexpected = sorted(report.get("unexpected_keys", ()))
    others = f" Its weights hold {some_of(unexpected, _SHOWN)} instead." if absent and unexpected else ""
    scope = " but its head" if head else ", with its output layer"
    raise RunError(
        f"The weights of {name!r} do not fit its configuration: {'; '.join(parts)}.{others} Expected every tensor of "
        f"{type(model).__name__}{scope}. Pass the config.json that the weights were saved with"
        f"{'' if head else ', or the model that was pretrained to generate text'}."
    )


def is_head(model: Any, parameter: str) -> bool:
    """Return True if a parameter is outside the encoder or decoder.

    The encoder or decoder is a module of its own in nearly every model with a head. In the others, such as T5's for
    question answering, a module counts as head if it contains neither layers nor the table of embeddings.
    """
    prefix = getattr(model, "base_model_prefix", "")
    if isinstance(getattr(model, prefix or "-", None), nn.Module):
        return not parameter.startswith(f"{prefix}.")
    top = getattr(model, parameter.partition(".")[0])
    embeddings = model.get_input_embeddings()
    return not any(isinstance(module, nn.ModuleList) or module is embeddings for module in top.modules())


def _is_pooler(parameter: str) -> bool:
    return "pooler" in parameter.split(".")


def _shapes(parameter: str, shapes: Collection[Any]) -> str:
    return f"{parameter} ({' in the file, '.join(str(tuple(shape)) for shape in shapes)} expected)"


def check_tokenizer(tokenizer: Any, name: str) -> None:
    """Check that a tokenizer has a vocabulary.

    Raises:
        RunError: if its vocabulary has special tokens only, as happens if its files are absent.
    """
    words = set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    if not words:
        raise RunError(
            f"The tokenizer of {name!r} has an empty vocabulary, so every word would be unknown. Expected "
            f"tokenizer.json or the vocabulary files that the model was saved with. Put them into its folder."
        )


def check_vocabulary(model: Any, tokenizer: Any, name: str) -> None:
    """Check that a model has an embedding for each token.

    Raises:
        RunError: if the tokenizer has ids beyond the table of embeddings.
    """
    table = model.get_input_embeddings()
    largest = max(tokenizer.get_vocab().values(), default=0)
    if isinstance(table, nn.Embedding) and largest >= table.num_embeddings:
        raise RunError(
            f"The tokenizer of {name!r} has token ids up to {largest}, and the model has embeddings for "
            f"{table.num_embeddings} tokens. Expected the tokenizer that the model was trained with; if tokens were "
            f"added to it on purpose, open_new_tokens=True adds rows for them."
        )


def check_end_token(model: Any, tokenizer: Any, name: str) -> None:
    """Check that a tokenizer ends its texts as a classifier over an encoder and a decoder needs it.

    Such models, T5 and BART among them, classify the decoder's state at the end token.

    Raises:
        RunError: if the tokenizer adds no end token.
    """
    at_the_end = type(model).__name__.endswith("ForSequenceClassification") and model.config.is_encoder_decoder
    end = model.config.eos_token_id
    if at_the_end and end not in tokenizer("a")["input_ids"]:
        raise RunError(
            f"{name!r} is a {model.config.model_type} model, which classifies a text at its end token (id {end}), "
            f"but its tokenizer adds none. Expected texts that end with it. Use the tokenizer that the model was "
            f"trained with, or one that adds its eos_token."
        )


def add_rows(model: Any, tokenizer: Any) -> None:
    """Add a row to a model's embeddings for each token that it lacks, drawn around the mean row.

    Draws from torch's random state, in ``resize_token_embeddings``.
    """
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(largest + 1)


def reason_of(error: Exception, source: str) -> str:
    """Return why the files of a model cannot be read, with the name of a damaged weights file.

    Args:
        error: raised by the library that read them.
        source: folder or hub name.
    """
    if isinstance(error, pickle.UnpicklingError):
        return "its weights are pickled with objects other than tensors, which are not read. Expected safetensors."
    for file in sorted(Path(source).glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):
                pass
        except (SafetensorError, OSError) as damage:
            return f"{file} is damaged ({hub.first_line(damage)}). Download it again."
    reason = hub.not_loaded(error)
    if not isinstance(error, OSError | ValueError | RuntimeError | ImportError):
        reason = f"{type(error).__name__}: {reason}"  # such as KeyError, which has the key alone
    return f"{reason}. Check config.json and the other files there." if Path(source).is_dir() else f"{reason}."
