"""Find the embedding rows of tokens that were added to a tokenizer, and let them learn along with a method."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig

from gradgate.errors import UsageError, some_of
from gradgate.layers import named_parameters
from gradgate.layers.selectors import Rows, union
from gradgate.methods.base import Method
from gradgate.methods.new_tokens import NewTokens
from gradgate.settings.run import RunConfig
from gradgate.training.pretrained import load_pretrained

_SHOWN = 5  # tokens in a sentence


def new_token_rows(tokenizer: Any, base_size: int | None = None) -> Rows:
    """Return the embedding rows of the tokens that were added to a tokenizer.

    ``embeddings[start:stop]`` selects one range of them.

    Args:
        tokenizer: of transformers.
        base_size: rows of the table before tokens were added. By default the size of the tokenizer's own vocabulary
            (``tokenizer.vocab_size``), beyond which some models have special tokens that are not new.

    Returns:
        The ranges of rows as (start, stop), in order and without overlap.

    Raises:
        UsageError: if no token was added from row ``base_size`` on.
    """
    first = tokenizer.vocab_size if base_size is None else base_size
    rows = [row for row in tokenizer.get_added_vocab().values() if row >= first]
    if not rows:
        raise UsageError(
            f"The tokenizer has no added token with an id from {first} on; its {len(tokenizer)} tokens end below. "
            f"Expected tokens that were added by tokenizer.add_tokens; to train other rows, select them, as in "
            f"groups:open=embeddings[{max(0, first - 10)}:{first}]/layers/head."
        )
    ranges: Rows = ()
    for row in rows:
        ranges = union(ranges, ((row, row + 1),))
    return ranges


def describe_new_tokens(tokenizer: Any, rows: Rows) -> str:
    """Return one sentence that says which rows learn."""
    ids = [row for start, stop in rows for row in range(start, stop)]
    tokens = some_of(tokenizer.convert_ids_to_tokens(ids), _SHOWN)
    places = ", ".join(f"{start} to {stop - 1}" if stop - start > 1 else str(start) for start, stop in rows)
    return f"Of the embeddings, the rows of new tokens learn: {places} ({tokens})."


def method_of(config: RunConfig, tokenizer: Any) -> Method:
    """Return the method of a run, together with the rows of new tokens if ``open_new_tokens`` is set.

    Raises:
        UsageError: if no token was added to the tokenizer.
    """
    return NewTokens(method=config.method, rows=rows_of(config, tokenizer)) if config.open_new_tokens else config.method


def rows_of(config: RunConfig, tokenizer: Any) -> Rows:
    """Return the rows of new tokens in the model of a run.

    They begin after the rows of the pretrained table if it has too few, else after the tokenizer's own vocabulary.
    """
    rows = load_pretrained(AutoConfig, config, "configuration").get_text_config().vocab_size
    return new_token_rows(tokenizer, rows if max(tokenizer.get_vocab().values()) >= rows else None)


def tables(model: Any) -> frozenset[str]:
    """Return the names of the parameters with one row per token: the embeddings and an output layer over tokens."""
    both = [model.get_input_embeddings(), model.get_output_embeddings()]
    ids = {id(module.weight) for module in both if module is not None}
    return frozenset(name for name, parameter in named_parameters(model).items() if id(parameter) in ids)
