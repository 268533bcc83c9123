"""Encode conversations as token ids: by the tokenizer's chat template or as plain text, with response labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from string import ascii_letters
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError, RunError
from gradgate.tasks.kinds.template_trial import why_unbounded
from gradgate.tasks.readers.turns import ASSISTANT, RENDERED, Turn
from gradgate.tasks.types import IGNORED, GenerationOptions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TRIED: set[str] = set()  # templates that have rendered a conversation within bounds


@dataclass(frozen=True)
class Conversation:
    """Some turns of a row.

    Attributes:
        turns: the response last, if it is a whole row.
        messages: whether the source has them as messages.
        place: of the row, for errors.
        tools: descriptions of tools for the chat template.
    """

    turns: Sequence[Turn]
    messages: bool
    place: str
    tools: list[Any] | None = None

    def until(self, end: int) -> Conversation:
        """Return the turns before the one numbered ``end``."""
        return replace(self, turns=self.turns[:end])


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
                f"The task sets `template: chat`, but the tokenizer "
                f"{tokenizer.name_or_path or type(tokenizer).__name__} has no chat template. Use a model whose "
                f"tokenizer has one, or set `template: none`"
            )

    def sequence(self, row: Conversation, limit: int) -> dict[str, Any]:
        """Encode a conversation for a decoder, which reads the prompt and continues with the response.

        Args:
            row: the response last.
            limit: tokens at most; the rest is cut off.

        Raises:
            DataError: a chat template that fails, that changes a response when turns follow it, or that leaves out a
                field of the row.
        """
        self._check_fields(row)
        ids = self._ids(row, begins=False, ends=True)
        labels = list(ids) if self._options.loss_on == "all" else [IGNORED] * len(ids)
        if self._options.loss_on == "response":
            for number in self._learned(row.turns):
                begin, end = self._span(row, number, ids)
                labels[begin:end] = ids[begin:end]
        prompt = self._prompt(row.until(-1))
        cut = max(0, len(ids) - limit)
        return {"input_ids": ids[:limit], "labels": labels[:limit], "prompt_ids": prompt[-limit:], "cut": cut}

    def pair(self, row: Conversation, limit: int) -> dict[str, Any]:
        """Encode the prompt for an encoder and the response for a decoder; without an encoder, as ``sequence`` does."""
        self._check_fields(row)
        if row.turns[-1].weight == 0 or row.turns[-1].fields:
            raise DataError(
                f"{row.place}: the last turn has weight 0 or fields such as tool_calls, but a model with an encoder "
                f"learns only the text of the last turn. Remove the row, or train a decoder"
            )
        if self._by_template(row.messages):
            prompt = self._from_template(row.until(-1), begins=True, tokenize=False)
        else:
            prompt = self._separator(row.messages).join(turn.content for turn in row.turns[:-1])
        ids = self._tokenizer(prompt)["input_ids"]
        response = row.turns[-1].content
        labels = self._tokenizer(text_target=response)["input_ids"]
        cut = max(0, len(ids) - limit, len(labels) - limit)
        if len(ids) > limit:
            ids = self._tokenizer(prompt, truncation=True, max_length=limit)["input_ids"]
        if len(labels) > limit:
            labels = self._tokenizer(text_target=response, truncation=True, max_length=limit)["input_ids"]
        return {"input_ids": ids, "labels": labels, "prompt_ids": ids, "cut": cut}

    def response(self, row: Conversation) -> str:
        """Return the text to generate after the prompt: as the chat template writes it if the last turn has fields."""
        if not row.turns[-1].fields:
            return row.turns[-1].content
        ids = self._ids(row, begins=False, ends=True)
        begin = _common(self._prompt(row.until(-1)), ids)
        written: str = self._tokenizer.decode(ids[begin:], skip_special_tokens=True)
        return written.strip()

    def _learned(self, turns: Sequence[Turn]) -> list[int]:
        """Return the indices of the turns that are responses; weights of turns decide if a row has them."""
        if any(turn.weight is not None for turn in turns):
            return [number for number, turn in enumerate(turns) if number and turn.weight and turn.role == ASSISTANT]
        if self._options.turns == "last":
            return [len(turns) - 1]
        return [number for number, turn in enumerate(turns) if number and turn.role == ASSISTANT]

    def _check_fields(self, row: Conversation) -> None:
        """Refuse a row with fields that neither the chat template nor the loss would count."""
        if self._options.loss_on == "all" and any(turn.weight == 0 for turn in row.turns):
            raise DataError(f"{row.place} has turns of weight 0, but `loss_on: all` counts every turn; leave one out")
        fields = [name for name in RENDERED if any(name in turn.fields for turn in row.turns)]
        fields += ["tools"] if row.tools else []
        if not fields:
            return
        if not self._by_template(row.messages):
            raise DataError(
                f"{row.place} has {', '.join(fields)}, which only a chat template can write: the tokenizer has "
                f"none, or the task sets `template: none`. Use a model with a chat template, or remove the rows"
            )
        whole = self._from_template(row, begins=False, tokenize=False)
        for name in fields:
            tools = None if name == "tools" else row.tools
            if self._from_template(replace(row, tools=tools), begins=False, tokenize=False, without=(name,)) == whole:
                raise DataError(
                    f"{row.place} has {name}, but the tokenizer's chat template leaves it out: the model would "
                    f"never see it. Use a model whose template writes {name}, or remove it from the rows"
                )

    def _span(self, row: Conversation, number: int, ids: list[int]) -> tuple[int, int]:
        """Return the first token of a turn, and the one after its last."""
        begin = _common(self._ids(row.until(number), begins=True), ids)
        if number == len(row.turns) - 1:
            return begin, len(ids)
        end = _common(self._ids(row.until(number + 1), begins=False), ids)
        if end <= begin:
            raise DataError(
                f"{row.place}, message {number + 1}: the tokenizer's chat template changes this response when other "
                f"turns follow it, so it cannot be learned. Set `turns: last`, or give each response a row of its own"
            )
        return begin, end

    def _by_template(self, messages: bool) -> bool:
        wished = self._options.template
        return wished == "chat" or (wished == "auto" and messages and bool(self._tokenizer.chat_template))

    def _separator(self, messages: bool) -> str:
        given = self._options.separator
        return given if given is not None else "\n" if messages else ""

    def _ids(self, row: Conversation, *, begins: bool, ends: bool = False) -> list[int]:
        """Return the tokens of some turns.

        Args:
            row: the turns.
            begins: whether a response comes next.
            ends: whether the conversation ends here.
        """
        if self._by_template(row.messages):
            ids: list[int] = self._from_template(row, begins=begins, tokenize=True)["input_ids"]
            return ids
        separator = self._separator(row.messages)
        text = separator.join(turn.content for turn in row.turns) + (separator if begins else "")
        end = self._tokenizer.eos_token
        if ends and end is not None and not text.endswith(end):
            text += end
        plain: list[int] = self._tokenizer(text)["input_ids"]
        return plain

    def _prompt(self, row: Conversation) -> list[int]:
        """Return the tokens that a response is generated from.

        A trailing space is a token of its own here, and a part of the response's first token in training: it is left to
        the response if the tokenizer joins the two.
        """
        if self._by_template(row.messages):
            return self._ids(row, begins=True)
        separator = self._separator(row.messages)
        text = separator.join(turn.content for turn in row.turns) + separator
        ids: list[int] = self._tokenizer(text.rstrip(" ") if self._joins_spaces else text)["input_ids"]
        return ids[: len(ids) - self._behind]

    def _from_template(self, row: Conversation, *, begins: bool, tokenize: bool, without: Sequence[str] = ()) -> Any:
        messages = [turn.message(without) for turn in row.turns]
        self._try_template(messages)
        try:
            return self._tokenizer.apply_chat_template(
                messages,
                tools=row.tools,
                tokenize=tokenize,
                add_generation_prompt=begins,
                **({"return_dict": True} if tokenize else {}),
            )
        except Exception as error:  # templates raise whatever they like
            raise DataError(
                f"{row.place}: the tokenizer's chat template fails on this row: {error}. Its roles are "
                f"{', '.join(turn.role for turn in row.turns)}; expected turns that the template accepts. Correct "
                f"the row, or set `template: none` in the task"
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
                f"The chat template of {self._tokenizer.name_or_path or 'the tokenizer'} {why}. Correct it, use "
                f"another model, or set `template: none` in the task."
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
