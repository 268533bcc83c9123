"""Train the sample's tokenizer: word pieces over all of its languages."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

MAX_LENGTH = 128
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def build_tokenizer(corpus: Iterable[str], pieces: int) -> PreTrainedTokenizerFast:
    """Train a lower-casing WordPiece tokenizer of at most ``pieces``; accents stay, Chinese is split by character."""
    tokenizer = _tokenizer(models.WordPiece(vocabulary(list(corpus), pieces), unk_token="[UNK]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=MAX_LENGTH,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **SPECIAL,
    )


def vocabulary(corpus: list[str], pieces: int) -> dict[str, int]:
    """Map pieces to ids, the same for the same corpus.

    The trainer numbers the inner characters in the order of a hash table, which decides between equally frequent
    merges; passed as special tokens, they get their numbers in advance.
    """
    tokenizer = _tokenizer(models.WordPiece(unk_token="[UNK]"))
    characters = {*string.printable.lower(), *(letter for text in corpus for letter in text.lower())}
    letters = sorted(letter for letter in characters if not letter.isspace())
    tokenizer.train_from_iterator(
        corpus,
        trainers.WordPieceTrainer(
            vocab_size=pieces,
            special_tokens=[*SPECIAL.values(), *letters, *(f"##{letter}" for letter in letters if _goes_on(letter))],
            show_progress=False,
        ),
    )
    return tokenizer.get_vocab()


def _goes_on(letter: str) -> bool:
    """Return True if the character can be inside a word: no punctuation, and no Chinese character, each a word here."""
    return unicodedata.category(letter)[0] in "LMN" and not unicodedata.name(letter, "").startswith("CJK")


def _tokenizer(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace("İ", "i"),
            normalizers.BertNormalizer(lowercase=True, strip_accents=False, handle_chinese_chars=True),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer
