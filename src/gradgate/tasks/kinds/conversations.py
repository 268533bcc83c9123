"""Encode conversations as token ids: by the tokenizer's chat template or as plain text, with response labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from string import ascii_letters
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError, RunError
from gradgate.tasks.kinds.template_trial import why_unbounded
from gradgate.tasks.readers.turns import ASSISTANT, Turn
from gradgate.tasks.types import IGNORED, GenerationOptions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TRIED: set[str] = set()  # templates that have rendered a conversation within bounds


class Rendering:
    """Makes features of conversations whose last turn is the response.

    The labels begin where the tokens of the full conversation differ from those of the prompt alone, as in TRL's
    ``SFTTrainer``; plain text ends with the tokenizer's end token.

    Args:
        tokenizer: of the model.
        options: of the task.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: GenerationOptions) -> None:
        self._tokenizer: Any = tokenizer
        self._options = options
        if options.template == "chat" and not tokenizer.chat_template:
            raise RunError(
                f"`template: chat` of the task asks for a chat template, and the tokenizer "
                f"{tokenizer.name_or_path or type(tokenizer).__name__} has none. Give a model whose tokenizer has one, "
                f"or say `template: none`"
            )

    def sequence(self, turns: list[Turn], messages: bool, limit: int, place: str) -> dict[str, Any]:
        """Encode a conversation for a decoder, which reads the prompt and continues with the response.

        Args:
            turns: the response last.
            messages: whether the source has them as messages.
            limit: tokens at most; the rest is cut off.
            place: of the row, for messages.

        Raises:
            DataError: a chat template that fails, or that changes a response when turns follow it.
        """
        ids = self._ids(turns, messages, place, begins=False, ends=True)
        labels = list(ids) if self._options.loss_on == "all" else [IGNORED] * len(ids)
        if self._options.loss_on == "response":
            for number in self._learned(turns):
                begin, end = self._span(turns, number, messages, place, ids)
                labels[begin:end] = ids[begin:end]
        prompt = self._prompt(turns[:-1], messages, place)
        cut = max(0, len(ids) - limit)
        return {"input_ids": ids[:limit], "labels": labels[:limit], "prompt_ids": prompt[-limit:], "cut": cut}

    def pair(self, turns: list[Turn], messages: bool, limit: int, place: str) -> dict[str, Any]:
        """Encode the prompt for an encoder and the response for a decoder; without an encoder, as ``sequence`` does."""
        if self._by_template(messages):
            prompt = self._from_template(turns[:-1], place, begins=True, tokenize=False)
        else:
            prompt = self._separator(messages).join(turn.content for turn in turns[:-1])
        ids = self._tokenizer(prompt)["input_ids"]
        labels = self._tokenizer(text_target=turns[-1].content)["input_ids"]
        cut = max(0, len(ids) - limit, len(labels) - limit)
        if len(ids) > limit:
            ids = self._tokenizer(prompt, truncation=True, max_length=limit)["input_ids"]
        if len(labels) > limit:
            labels = self._tokenizer(text_target=turns[-1].content, truncation=True, max_length=limit)["input_ids"]
        return {"input_ids": ids, "labels": labels, "prompt_ids": ids, "cut": cut}

    def _learned(self, turns: list[Turn]) -> list[int]:
        """Return the indices of the turns that are responses."""
        if self._options.turns == "last":
            return [len(turns) - 1]
        return [number for number, turn in enumerate(turns) if number and turn.role == ASSISTANT]

    def _span(self, turns: list[Turn], number: int, messages: bool, place: str, ids: list[int]) -> tuple[int, int]:
        """Return the first token of a turn, and the one after its last."""
        begin = _common(self._ids(turns[:number], messages, place, begins=True), ids)
        if number == len(turns) - 1:
            return begin, len(ids)
        end = _common(self._ids(turns[: number + 1], messages, place, begins=False), ids)
        if end <= begin:
            raise DataError(
                f"{place}, message {number + 1}: the tokenizer's chat template changes this response when other turns "
                f"follow it, so `turns: all` cannot learn it. Say `turns: last`, or give each response a row of its own"
            )
        return begin, end

    def _by_template(self, messages: bool) -> bool:
        wished = self._options.template
        return wished == "chat" or (wished == "auto" and messages and bool(self._tokenizer.chat_template))

    def _separator(self, messages: bool) -> str:
        given = self._options.separator
        return given if given is not None else "\n" if messages else ""

    def _ids(self, turns: Sequence[Turn], messages: bool, place: str, *, begins: bool, ends: bool = False) -> list[int]:
        """Return the tokens of some turns.

        Args:
            begins: whether a response comes next.
            ends: whether the conversation ends here.
        """
        if self._by_template(messages):
            ids: list[int] = self._from_template(turns, place, begins=begins, tokenize=True)["input_ids"]
            return ids
        separator = self._separator(messages)
        text = separator.join(turn.content for turn in turns) + (separator if begins else "")
        end = self._tokenizer.eos_token
        if ends and end is not None and not text.endswith(end):
            text += end
        plain: list[int] = self._tokenizer(text)["input_ids"]
        return plain

    def _prompt(self, turns: Sequence[Turn], messages: bool, place: str) -> list[int]:
        """Return the tokens that a response is generated from.

        A trailing space is a token of its own here, and a part of the response's first token in training: it is left to
        the response if the tokenizer joins the two.
        """
        if self._by_template(messages):
            return self._ids(turns, messages, place, begins=True)
        separator = self._separator(messages)
        text = separator.join(turn.content for turn in turns) + separator
        ids: list[int] = self._tokenizer(text.rstrip(" ") if self._joins_spaces else text)["input_ids"]
        return ids[: len(ids) - self._behind]

    def _from_template(self, turns: Sequence[Turn], place: str, *, begins: bool, tokenize: bool) -> Any:
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        self._try_template(messages)
        try:
            return self._tokenizer.apply_chat_template(
                messages, tokenize=tokenize, add_generation_prompt=begins, **({"return_dict": True} if tokenize else {})
            )
        except Exception as error:  # templates raise whatever they like
            raise DataError(
                f"{place}: the tokenizer's chat template fails on this row: {error}. Its roles are "
                f"{', '.join(turn.role for turn in turns)}; expected turns that the template takes. Correct the row, "
                f"or say `template: none` in the task"
            ) from error

    def _try_template(self, messages: list[dict[str, str]]) -> None:
        """Refuse a template that does not end, or grows without end, before it runs in this process."""
        try:
            template = str(self._tokenizer.get_chat_template())
        except ValueError:  # several templates, of which none is the default: the tokenizer says so
            return
        if template in _TRIED:
            return
        why = why_unbounded(template, messages, self._tokenizer.special_tokens_map)
        if why is not None:
            raise RunError(
                f"The chat template of {self._tokenizer.name_or_path or 'the tokenizer'} {why}. Correct it, give "
                f"another model, or say `template: none` in the task."
            )
        _TRIED.add(template)

    @cached_property
    def _joins_spaces(self) -> bool:
        """Whether a space and the word after it can be one token."""
        spaced = self._tokenizer("a ", add_special_tokens=False)["input_ids"]
        words = self._tokenizer([f"a {letter}" for letter in ascii_letters], add_special_tokens=False)["input_ids"]
        return any(_common(spaced, ids) < len(spaced) for ids in words)

    @cached_property
    def _behind(self) -> int:
        """Number of tokens that the tokenizer puts after each text."""
        bare = self._tokenizer("a", add_special_tokens=False)["input_ids"]
        whole = self._tokenizer("a")["input_ids"]
        before = next((at for at in range(len(whole)) if whole[at : at + len(bare)] == bare), 0)
        return len(whole) - before - len(bare)


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """Count the tokens that two sequences have in common from their beginning."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))
