"""A model with a vocabulary that is cut to some texts: the same pieces and outputs, and fewer rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, AutoModelForCausalLM, BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from evidence.running import settings_here
from evidence.studies import Study
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
    named = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    return folder


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    """Return a folder with a tiny decoder of random weights whose tokenizer is like Gemma's."""
    folder = tmp_path / "whole"
    torch.manual_seed(0)
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<unused0>"]
    merges = [("a", "b"), ("c", "d"), ("ab", "cd"), ("b", "c"), ("x", "y"), (BLANK, "ab"), (BLANK, "abcd")]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *"abcdxyz", BLANK, *map("".join, merges)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    config = LlamaConfig(
        vocab_size=len(pieces), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        tie_word_embeddings=True, pad_token_id=0, eos_token_id=1, bos_token_id=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", BLANK)
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    return folder


def test_words_of_the_texts_have_the_same_pieces_and_outputs(source: Path, tmp_path: Path) -> None:
    target = cut_vocabulary(source, ["ab", "c", "cd"], tmp_path / "cut")
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


def test_a_decoder_keeps_what_its_pieces_are_merged_from_and_the_logits_of_all_that_is_left(
    decoder: Path, tmp_path: Path
) -> None:
    target = cut_vocabulary(decoder, ["z abcd", "é"], tmp_path / "cut")
    whole, cut = (Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (decoder, target))
    before, after = whole.encode("z abcdé"), cut.encode("z abcdé")
    assert before.tokens == after.tokens
    assert (cut.token_to_id("xy"), cut.token_to_id("<unused0>")) == (None, None)
    kept = [whole.token_to_id(piece) for piece in sorted(cut.get_vocab(), key=cut.token_to_id)]
    old, new = (
        AutoModelForCausalLM.from_pretrained(folder).eval()(input_ids=torch.tensor([encoded.ids])).logits
        for folder, encoded in ((decoder, before), (target, after))
    )
    torch.testing.assert_close(new, old[..., kept])
    config, generation = (json.loads((target / name).read_text()) for name in ("config.json", "generation_config.json"))
    assert (config["vocab_size"], config["eos_token_id"]) == (len(kept), cut.token_to_id("<eos>"))
    assert generation["bos_token_id"] == cut.token_to_id("<bos>")


ONE_LANGUAGE = {"train.tsv": b"ab\t1", "nested/test.tsv": b"cd\t0", "LICENSE.htm": b"\x82 is no UTF-8"}
SEVERAL = {"en/train.tsv": b"ab\t1", "de/test.tsv": b"cd\t0", "fr/test.tsv": b"x\t0"}


@pytest.mark.parametrize(("files", "languages"), [(ONE_LANGUAGE, {}), (SEVERAL, {"languages": "de"})])
def test_a_study_cuts_to_the_words_of_its_languages_or_of_all_files(
    files: dict[str, bytes], languages: dict[str, str], source: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    for name, content in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(content)
    compare = {"model": str(source), "data": str(data), **languages}
    study = Study(name="a", title="a", data="real", differs="", cut_vocabulary=True, compare=compare)
    cut = Path(settings_here(study, "full", tmp_path / "out")["model"])
    pieces = Tokenizer.from_file(str(cut / "tokenizer.json")).get_vocab()
    assert {f"{BLANK}ab", f"{BLANK}cd"} <= set(pieces)
    assert f"{BLANK}x" not in pieces


def test_a_tokenizer_of_another_kind_is_refused(source: Path, tmp_path: Path) -> None:
    Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")).save(str(source / "tokenizer.json"))
    with pytest.raises(ValueError, match="WordPiece tokenizer"):
        cut_vocabulary(source, [], tmp_path / "cut")
