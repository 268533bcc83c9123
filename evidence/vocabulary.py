"""Cut a model's vocabulary to the pieces of some texts: less time and memory for the same texts.

Rows of an encoder's embeddings whose pieces do not occur have no gradient, and change no output. Their moments of Adam,
however, are more than half of what a step moves in memory. A decoder also predicts its pieces: one with fewer gives
those that are left the probability of the others.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

_EMBEDDINGS = ("word_embeddings.weight", "embed_tokens.weight")
_TOKENIZER, _WEIGHTS, _SETTINGS = "tokenizer.json", "model.safetensors", "tokenizer_config.json"
_CONFIGS = ("config.json", "generation_config.json")


def cut_vocabulary(source: Path, texts: Iterable[str], target: Path) -> Path:
    """Copy a model with a Unigram or BPE tokenizer, without the pieces that the texts do not take.

    Args:
        source: folder of the model, with ``tokenizer.json`` and ``model.safetensors``.
        texts: whole ones for BPE, and also words for Unigram, whose pieces do not cross blanks.
        target: folder of the copy; it is written again if it is there.

    Raises:
        ValueError: if the tokenizer is of another kind, or a text would be divided otherwise.
    """
    stored: dict[str, Any] = json.loads((source / _TOKENIZER).read_text(encoding="utf-8"))
    kind = stored["model"]["type"]
    if kind not in ("Unigram", "BPE"):
        raise ValueError(f"{source} has a {kind} tokenizer. Only Unigram and BPE ones can be cut.")
    divided = sorted(set(texts))
    whole = Tokenizer.from_file(str(source / _TOKENIZER))
    used = _named(source, stored).union(*(encoded.ids for encoded in whole.encode_batch(divided)))
    kept = sorted(used if kind == "Unigram" else _with_their_parts(used, stored["model"]))
    new = {old: number for number, old in enumerate(kept)}
    target.mkdir(parents=True, exist_ok=True)
    model = _unigram(stored["model"], new) if kind == "Unigram" else _bpe(stored["model"], new)
    cut = _renumbered(stored, new) | {"model": model}
    (target / _TOKENIZER).write_text(json.dumps(cut, ensure_ascii=False), encoding="utf-8")
    _require_equal(whole, Tokenizer.from_file(str(target / _TOKENIZER)), divided)
    weights = load_file(source / _WEIGHTS)
    rows = {name: tensor[kept] for name, tensor in weights.items() if name.endswith(_EMBEDDINGS)}
    save_file(weights | rows, target / _WEIGHTS, {"format": "pt"})
    shutil.copyfile(source / _SETTINGS, target / _SETTINGS)
    for file in filter(Path.exists, (source / name for name in _CONFIGS)):
        _copy_config(file, target / file.name, new)
    return target


def _named(source: Path, stored: dict[str, Any]) -> set[int]:
    """Return the special tokens that the tokenizer's settings name; a decoder may have thousands without a use."""
    settings = json.loads((source / _SETTINGS).read_text(encoding="utf-8"))
    return {token["id"] for token in stored["added_tokens"] if token["content"] in settings.values()}


def _with_their_parts(used: set[int], model: dict[str, Any]) -> set[int]:
    """Return pieces with all that any of them can be merged from, and those of single bytes."""
    pairs: dict[str, list[list[str]]] = {}
    for pair in model["merges"]:
        pairs.setdefault("".join(pair), []).append(pair)
    pieces = {number: piece for piece, number in model["vocab"].items()}
    kept = {f"<0x{byte:02X}>" for byte in range(256)} & set(model["vocab"])
    waiting = [pieces[number] for number in used]
    while waiting:
        piece = waiting.pop()
        if piece not in kept:
            kept.add(piece)
            waiting += [part for pair in pairs.get(piece, ()) for part in pair]
    return {model["vocab"][piece] for piece in kept}


def _unigram(model: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    return model | {"vocab": [model["vocab"][old] for old in new], "unk_id": new[model["unk_id"]]}


def _bpe(model: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    vocabulary = {piece: new[old] for piece, old in model["vocab"].items() if old in new}
    merges = [[left, right] for left, right in model["merges"] if {left, right, left + right} <= vocabulary.keys()]
    return model | {"vocab": vocabulary, "merges": merges}


def _renumbered(stored: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    """Return the settings of a tokenizer around its model, with the new numbers."""
    added = [token | {"id": new[token["id"]]} for token in stored["added_tokens"] if token["id"] in new]
    template = dict(stored["post_processor"])
    template["special_tokens"] = {
        name: token | {"ids": [new[old] for old in token["ids"]]} for name, token in template["special_tokens"].items()
    }
    return stored | {"added_tokens": added, "post_processor": template}


def _copy_config(source: Path, target: Path, new: dict[int, int]) -> None:
    config = json.loads(source.read_text(encoding="utf-8"))
    ids = {name: new[old] for name, old in config.items() if name.endswith("_token_id") and old is not None}
    size = {"vocab_size": len(new)} if "vocab_size" in config else {}
    target.write_text(json.dumps(config | ids | size, indent=2), encoding="utf-8")


def _require_equal(whole: Tokenizer, cut: Tokenizer, texts: list[str]) -> None:
    pairs = zip(texts, whole.encode_batch(texts), cut.encode_batch(texts), strict=True)
    other = next((text for text, before, after in pairs if before.tokens != after.tokens), None)
    if other is not None:
        raise ValueError(f"With the cut vocabulary {other!r} would be divided otherwise. Use the whole one.")
