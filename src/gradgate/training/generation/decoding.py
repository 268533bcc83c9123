"""Generate one text per prompt greedily, with the prompts shared among the processes of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError
from gradgate.specs import shown

Prompt = Sequence[int]
_USUAL = 128
_TOKENS = ("eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")
_ROUTERS = "output_router_logits"


@dataclass(frozen=True)
class Greedy:
    """Greedy decoding: the likeliest token at each step.

    Args:
        batch_size: prompts in one batch.
        max_new_tokens: limit of each text.
        precision: of the forward pass, as of the run.
    """

    batch_size: int
    max_new_tokens: int
    precision: str

    def texts(self, model: Any, tokenizer: Any, prompts: Sequence[Prompt]) -> list[str]:
        """Generate one text per prompt, in their order, without special tokens and surrounding white space.

        Batches are sorted by length. Shorter prompts are padded on the left, for the response to follow them, and on
        the right for an encoder, which may number its positions from the left edge.
        """
        cut = self._fitting(model, prompts)
        order = sorted(range(len(cut)), key=lambda number: -len(cut[number]))
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        generated: dict[int, str] = {}
        with _generating(model):
            for batch in launch.share(batches):
                ids = self.tokens(model, tokenizer, [cut[number] for number in batch])
                generated.update(zip(batch, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True))
        together = {number: text for part in launch.gather(generated) for number, text in part.items()}
        return [together[number].strip() for number in range(len(cut))]

    def keep(self, model: Any, tokenizer: Any) -> None:
        """Make these settings those that the model generates with by default, and saves."""
        settings = model.generation_config
        for name in _SAMPLING:
            if hasattr(settings, name):
                setattr(settings, name, None)
        settings.do_sample, settings.num_beams, settings.max_new_tokens = False, 1, self.max_new_tokens
        settings.pad_token_id = tokenizer.pad_token_id
        settings.eos_token_id = _end_tokens(model, tokenizer) or None

    def _fitting(self, model: Any, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return the prompts, each cut from the left so that the response has room."""
        positions = positions_of(model.config)
        if positions is None or model.config.is_encoder_decoder:
            return list(prompts)
        return [prompt[-(positions - self.max_new_tokens) :] for prompt in prompts]

    def tokens(self, model: Any, tokenizer: Any, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return the token ids that follow each prompt, up to the first end token."""
        device = next(model.parameters()).device
        side = "right" if model.config.is_encoder_decoder else "left"
        rows = {"input_ids": [list(prompt) for prompt in prompts]}
        batch = tokenizer.pad(rows, padding_side=side, return_attention_mask=True, return_tensors="pt").to(device)
        ends = _end_tokens(model, tokenizer)
        with torch.no_grad(), torch.autocast(device.type, **autocast_of(self.precision)):
            sequences = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                do_sample=False,
                num_beams=1,
                max_new_tokens=self.max_new_tokens,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=ends or None,
                tokenizer=tokenizer,  # finds the stop_strings of the model's settings
                synced_gpus=launch.count() > 1,
            )
        new = sequences if model.config.is_encoder_decoder else sequences[:, batch["input_ids"].shape[1] :]
        return [list(_until_end(row, ends, model.config.is_encoder_decoder)) for row in new.tolist()]


def check_settings(model: Any, tokenizer: Any, name: str) -> None:
    """Refuse a model's ``generation_config.json`` if it could not generate with it, or not be saved.

    One token is generated, as most settings are read only then.

    Args:
        model: of transformers.
        tokenizer: of the model.
        name: of the model, for messages.

    Raises:
        RunError: naming the setting, or what transformers says of it.
    """
    settings = model.generation_config
    wrong = {entry: getattr(settings, entry, None) for entry in _TOKENS}
    wrong = {entry: value for entry, value in wrong.items() if not _is_token(value)}
    strings = settings.stop_strings
    if not (strings is None or _is_text(strings) or (isinstance(strings, list) and all(map(_is_text, strings)))):
        wrong["stop_strings"] = strings
    if wrong:
        listed = ", ".join(f"{entry}={shown(repr(value))}" for entry, value in wrong.items())
        raise RunError(
            f"The generation_config.json of {name!r} has {listed}. Expected ids of tokens, from 0 on, and texts for "
            f"stop_strings. Correct it."
        )
    prompt = tokenizer("a")["input_ids"] or [0]
    try:
        settings.validate(strict=True)
        with _generating(model):
            Greedy(batch_size=2, max_new_tokens=1, precision="fp32").tokens(model, tokenizer, [prompt, prompt])
    except Exception as error:  # of transformers, for each setting another
        raise RunError(
            f"{name!r} cannot generate text with its generation_config.json: {' '.join(str(error).split())[:300]} "
            f"Correct the setting, or remove the file."
        ) from error


def _is_token(value: Any) -> bool:
    ids = value if isinstance(value, list) else [0 if value is None else value]
    return all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**31 for each in ids)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


@contextmanager
def _generating(model: Any) -> Iterator[None]:
    """Switch to evaluation mode, without the loss that balances experts.

    TRL turns that loss on in the model's configuration. It needs the router's choices for all tokens of a batch, and
    from the second new token on a forward pass has only one token per row.
    """
    was_training, settings = model.training, model.config.get_text_config()
    balances = getattr(settings, _ROUTERS, None)
    model.eval()
    if balances:
        setattr(settings, _ROUTERS, False)
    try:
        yield
    finally:
        model.train(was_training)
        if balances:
            setattr(settings, _ROUTERS, balances)


def positions_of(settings: Any) -> int | None:
    """Return the number of positions of a model with this configuration; None if it has no limit."""
    positions: int | None = getattr(settings.get_text_config(), "max_position_embeddings", None)
    return positions


def new_tokens(wished: int | None, settings: Any) -> int:
    """Return the most tokens of a response: ``wished``, or 128, but at most half of the model's positions.

    Raises:
        UsageError: if ``wished`` leaves no position for a prompt.
    """
    positions = positions_of(settings)
    if wished is None:
        return _USUAL if positions is None else max(1, min(_USUAL, positions // 2))
    if positions is not None and wished >= positions:
        raise UsageError(
            f"max_new_tokens={wished} leaves no room for a prompt: the model has {positions} positions. Lower "
            f"max_new_tokens=."
        )
    return wished


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Return the ids of tokens that end a text, for the model or for its tokenizer."""
    of_model = model.generation_config.eos_token_id
    ends = [*(of_model if isinstance(of_model, list) else [of_model]), tokenizer.eos_token_id]
    return list(dict.fromkeys(end for end in ends if end is not None))


def _until_end(ids: list[int], ends: list[int], starts: bool) -> Iterator[int]:
    """Yield the tokens before the first end, without the decoder's own first token if it ``starts`` with one."""
    for token in ids[1:] if starts else ids:
        if token in ends:
            return
        yield token


def autocast_of(precision: str) -> dict[str, Any]:
    """Return the arguments of ``torch.autocast`` for the precision of a run."""
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return {"enabled": precision in kinds, "dtype": kinds.get(precision, torch.bfloat16)}
