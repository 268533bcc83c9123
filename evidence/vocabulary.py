"""Cut a multilingual model's vocabulary to the pieces of some texts: the same scores in less time and memory.

Rows of the embeddings whose pieces do not occur have no gradient, and change no output. Their moments of Adam, however,
are more than half of what a step moves in memory.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

_WORDS = "word_embeddings.weight"


def cut_vocabulary(source: Path, texts: Iterable[Path], target: Path) -> Path:
    """Copy a model with a Unigram tokenizer, without the pieces that no word of the texts takes.

    Args:
        source: folder of the model, with ``tokenizer.json`` and ``model.safetensors``.
        texts: files of text, or of tokens in tab-separated columns.
        target: folder of the copy; it is written again if it is there.

    Raises:
        ValueError: if the tokenizer is of another kind, or a word would be divided otherwise.
    """
    stored: dict[str, Any] = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    if stored["model"]["type"] != "Unigram":
        raise ValueError(f"{source} has a {stored['model']['type']} tokenizer. Only Unigram ones can be cut.")
    words = sorted({word for file in texts for word in file.read_text(encoding="utf-8").split()})
    whole = Tokenizer.from_file(str(source / "tokenizer.json"))
    special = {token["id"] for token in stored["added_tokens"]}
    kept = sorted(special.union(*(encoded.ids for encoded in whole.encode_batch(words))))
    target.mkdir(parents=True, exist_ok=True)
    (target / "tokenizer.json").write_text(json.dumps(_with(stored, kept), ensure_ascii=False), encoding="utf-8")
    _require_equal(whole, Tokenizer.from_file(str(target / "tokenizer.json")), words)
    weights = load_file(source / "model.safetensors")
    save_file(
        {name: tensor[kept] if name.endswith(_WORDS) else tensor for name, tensor in weights.items()},
        target / "model.safetensors",
        {"format": "pt"},
    )
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {
        name: kept.index(config[name]) for name in config if name.endswith("_token_id") and config[name] is not None
    }
    (target / "config.json").write_text(json.dumps(config | {"vocab_size": len(kept)}, indent=2), encoding="utf-8")
    shutil.copyfile(source / "tokenizer_config.json", target / "tokenizer_config.json")
    return target


def _with(stored: dict[str, Any], kept: list[int]) -> dict[str, Any]:
    """Return the settings of a tokenizer with these pieces alone, numbered anew."""
    new = {old: number for number, old in enumerate(kept)}
    model = stored["model"] | {
        "vocab": [stored["model"]["vocab"][old] for old in kept],
        "unk_id": new[stored["model"]["unk_id"]],
    }
    added = [token | {"id": new[token["id"]]} for token in stored["added_tokens"]]
    template = dict(stored["post_processor"])
    template["special_tokens"] = {
        name: token | {"ids": [new[old] for old in token["ids"]]} for name, token in template["special_tokens"].items()
    }
    return stored | {"model": model, "added_tokens": added, "post_processor": template}


def _require_equal(whole: Tokenizer, cut: Tokenizer, words: list[str]) -> None:
    pairs = zip(words, whole.encode_batch(words), cut.encode_batch(words), strict=True)
    other = next((word for word, before, after in pairs if before.tokens != after.tokens), None)
    if other is not None:
        raise ValueError(f"With the cut vocabulary {other!r} would be divided otherwise. Use the whole one.")
