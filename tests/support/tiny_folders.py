"""Small pretrained models and data sets, written to folders as a user would have them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2Model,
    MixtralConfig,
    MixtralModel,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

GOOD = ("good", "fine", "happy", "bright", "warm")
BAD = ("bad", "poor", "sad", "dark", "cold")
OTHER = ("the", "a", "day", "film", "house", "road", "was", "seems", "very", "not")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (*SPECIAL, *GOOD, *BAD, *OTHER)


def save_bert(folder: Path, *, spoiled: bool = False) -> Path:
    """BERT with 2 layers of width 32; a spoiled one has a weight that is no number."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, initializer_range=0.3, **sizes)
    model = _seeded(BertModel, config)
    if spoiled:
        model.get_parameter("encoder.layer.0.output.dense.weight").data[0, 0] = torch.nan
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return _save(model, word_tokenizer(**special), folder)


def save_gpt2(folder: Path) -> Path:
    """GPT-2 with 2 layers of width 32, which knows an end of text, but no padding."""
    ends = {"bos_token_id": WORDS.index("[SEP]"), "eos_token_id": WORDS.index("[SEP]")}
    config = GPT2Config(vocab_size=len(WORDS), n_embd=32, n_layer=2, n_head=2, n_positions=64, **ends)
    return _save(_seeded(GPT2Model, config), word_tokenizer(eos_token="[SEP]"), folder)


def save_mixtral(folder: Path) -> Path:
    """Mixtral with 2 layers of width 32 and 2 experts, whose tensors have other names on disk than in memory."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = MixtralConfig(
        vocab_size=len(WORDS), intermediate_size=32, num_local_experts=2, pad_token_id=0, bos_token_id=2, **sizes
    )
    return _save(_seeded(MixtralModel, config), word_tokenizer(pad_token="[PAD]", eos_token="[SEP]"), folder)


def save_texts(folder: Path) -> Path:
    """A text and its label, ``bad`` or ``good``: which kind of word it has more of."""
    for split, rows, seed in (("train", 80, 1), ("dev", 30, 2), ("test", 30, 3)):
        draw = random.Random(seed)
        lines = ["text\tlabel"]
        for _ in range(rows):
            label = draw.choice(("bad", "good"))
            lines.append(f"{_sentence(draw, label)}\t{label}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def save_pairs(folder: Path) -> Path:
    """Two texts and whether they are of the same mood."""
    for split, rows, seed in (("train", 40, 1), ("dev", 16, 2), ("test", 16, 3)):
        draw = random.Random(seed)
        lines = []
        for _ in range(rows):
            moods = draw.choice(("bad", "good")), draw.choice(("bad", "good"))
            first, second = (_sentence(draw, mood) for mood in moods)
            label = "same" if moods[0] == moods[1] else "other"
            lines.append(json.dumps({"sentence1": first, "sentence2": second, "label": label}))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def save_scores(folder: Path) -> Path:
    """A text and the share of good words in it."""
    for split, rows, seed in (("train", 40, 1), ("dev", 16, 2), ("test", 16, 3)):
        draw = random.Random(seed)
        lines = ["text,score"]
        for _ in range(rows):
            words = [draw.choice((*GOOD, *BAD)) for _ in range(7)]
            lines.append(f"{' '.join(words)},{sum(word in GOOD for word in words) / 7 + 0.01:.3f}")
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return folder


def _sentence(draw: random.Random, label: str) -> str:
    mood = draw.choices(GOOD if label == "good" else BAD, k=2)
    words = [*mood, *draw.choices(OTHER, k=draw.randint(2, 6))]
    draw.shuffle(words)
    return " ".join(words)


def word_tokenizer(**special: str) -> PreTrainedTokenizerFast:
    """Knows WORDS and nothing else; the special tokens are named as transformers names them."""
    ids = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    names = ["input_ids", "token_type_ids", "attention_mask"] if "eos_token" not in special else None
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", **special, **({"model_input_names": names} if names else {})
    )


def _seeded(model: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return model(config)


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
