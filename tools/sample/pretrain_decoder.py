"""Pretrain the sample's decoder by language modelling: ``python -m tools.sample.pretrain_decoder``.

A Llama (Touvron et al. 2023, https://arxiv.org/abs/2302.13971) on running text: stories, reviews, and questions after
the sentences that answer them.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from gradgate.sample import DECODER
from tools.sample.corpus import review
from tools.sample.draw import Dice, Draw
from tools.sample.frames import Statement
from tools.sample.languages import GRAMMARS, SOURCE
from tools.sample.make_data import other_text, sentences
from tools.sample.tasks.answering import puzzle, realise
from tools.sample.tasks.describing import asked, description, response

SEED, VOCABULARY_SEED, HELD_OUT_SEED = 30, 31, 32
PIECES = 1200
BATCH = 32
WARMUP = 200
MAX_LENGTH = 256
_IGNORED = -100
CHAT = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] + ': ' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pretrain the embedded sample decoder.")
    parser.add_argument("--out", type=Path, default=DECODER, help="folder to write to (default: the package's own)")
    parser.add_argument("--steps", type=int, default=5000, help="optimizer steps (default: 5000)")
    args = parser.parse_args()
    loss = pretrain(args.out, args.steps)
    print(f"loss of held-out tokens: {loss:.3f} nats")


def pretrain(out: Path, steps: int, rate: float = 2e-3) -> float:
    """Build the vocabulary, train and save; return the mean loss of a token in nats on held-out texts."""
    avoid = sentences() | set(other_text().splitlines())
    tokenizer = build_tokenizer(islice(texts(VOCABULARY_SEED, avoid), 20_000))
    torch.manual_seed(SEED)
    model = LlamaForCausalLM._from_config(config(tokenizer), attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / WARMUP, (steps - step) / (steps - WARMUP))
    )
    for step, batch in enumerate(islice(batches(tokenizer, texts(SEED, avoid)), steps), 1):
        loss = language_loss(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    save(model, tokenizer, out)
    with torch.inference_mode():
        held_out = [language_loss(model, one) for one in islice(batches(tokenizer, texts(HELD_OUT_SEED, avoid)), 30)]
    return float(torch.stack(held_out).mean())


def texts(seed: int, avoid: AbstractSet[str]) -> Iterator[str]:
    """Yield English texts endlessly, the same for the same seed.

    None has a sentence of the tasks, or is one of the texts to be forgotten. A fifth of them are repeated, and a fifth
    are events with questions about them: a decoder of this size hardly learns to copy from anything else.
    """
    dice = Dice(seed)
    draw, grammar = Draw(dice), GRAMMARS[SOURCE]
    while True:
        chance = dice.below(100)
        if chance < 20:
            answered = realise(grammar, puzzle(draw))
            parts = [answered.context, answered.question, answered.answer]
        elif chance < 40:
            parts = [grammar.text(grammar.statement(one)) for one in review(draw)]
        elif chance < 60:
            item = description(draw)
            parts = [response(grammar, item), *asked(grammar, item)]
        else:
            parts = [grammar.text(grammar.statement(Statement((draw.event(),)))) for _ in range(1 + dice.below(3))]
            parts *= 1 if chance < 80 else 2
        text = " ".join(parts)
        if text not in avoid and not any(part in avoid for part in parts):
            yield text


def build_tokenizer(corpus: Iterator[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer, with tokens for beginning and end of text and a plain chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = CHAT
    return made


def config(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=192,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=384,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )


def batches(tokenizer: PreTrainedTokenizerFast, stream: Iterator[str]) -> Iterator[Tensor]:
    """Yield token ids of texts of similar length, padded, shape ``(BATCH, tokens)``, in an order drawn by the seed."""
    order = random.Random(SEED)
    while True:
        ids = tokenizer(list(islice(stream, BATCH * 50)), truncation=True, max_length=MAX_LENGTH - 1)["input_ids"]
        chunk = sorted(([*one, tokenizer.eos_token_id] for one in ids), key=len)
        groups = [chunk[place : place + BATCH] for place in range(0, len(chunk), BATCH)]
        order.shuffle(groups)
        for group in groups:
            longest = max(map(len, group))
            yield torch.tensor([one + [tokenizer.pad_token_id] * (longest - len(one)) for one in group])


def language_loss(model: Any, ids: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the next token, in nats; padding at the end is not counted."""
    labels = ids.masked_fill(ids == model.config.pad_token_id, _IGNORED)
    logits = model(input_ids=ids[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())


def save(model: Any, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write the decoder: float16 on disk, float32 once loaded."""
    model.half().save_pretrained(out)
    model.config.dtype = torch.float32
    model.config.save_pretrained(out)
    tokenizer.save_pretrained(out)
    model.float()


if __name__ == "__main__":
    main()
