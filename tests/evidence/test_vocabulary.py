"""A model with a vocabulary that is cut to some texts: the same pieces and outputs, and fewer rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, BertConfig, BertModel

from evidence.vocabulary import cut_vocabulary

BLANK = "\u2581"
PIECES = ["<s>", "<pad>", "</s>", "<unk>", f"{BLANK}x", f"{BLANK}a", "b", f"{BLANK}ab", f"{BLANK}cd", "c", "<mask>"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a folder with a tiny model of random weights whose tokenizer is like XLM-R's."""
    folder = tmp_path / "whole"
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=16, pad_token_id=1,
    )  # fmt: skip
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - i / 10) for i, piece in enumerate(PIECES)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(BLANK, "always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    return folder


def test_words_of_the_texts_have_the_same_pieces_and_outputs(source: Path, tmp_path: Path) -> None:
    text = tmp_path / "dev.tsv"
    text.write_text("ab\tB-PER\nc\tO\n\ncd\tO\n", encoding="utf-8")
    target = cut_vocabulary(source, [text], tmp_path / "cut")
    whole, cut = (Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (source, target))
    before, after = whole.encode("ab cd"), cut.encode("ab cd")
    assert before.tokens == after.tokens
    assert before.ids != after.ids
    assert cut.token_to_id(f"{BLANK}x") is None
    outputs = [
        AutoModel.from_pretrained(folder, add_pooling_layer=False)
        .eval()(input_ids=torch.tensor([encoded.ids]))
        .last_hidden_state
        for folder, encoded in ((source, before), (target, after))
    ]
    assert torch.equal(*outputs)
    assert json.loads((target / "config.json").read_text())["vocab_size"] == cut.get_vocab_size() < len(PIECES)


def test_a_tokenizer_of_another_kind_is_refused(source: Path, tmp_path: Path) -> None:
    Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")).save(str(source / "tokenizer.json"))
    with pytest.raises(ValueError, match="WordPiece tokenizer"):
        cut_vocabulary(source, [], tmp_path / "cut")
