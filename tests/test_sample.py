"""The embedded sample: the files are what the generator writes, and the encoder has learnt from its language."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, set_seed

from gradgate.sample import MODEL, TASK
from gradgate.sample.grammar import Dice, Scene, denied, fact, sentence, stated, verdict, with_article
from gradgate.sample.lexicon import SHARES, Lexicon, for_split, load
from gradgate.sample.make_data import SPLITS, files
from gradgate.sample.pretrain import build_tokenizer, generate
from gradgate.sample.reviews import LABELS, labelled

Rows = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return {
        split: [json.loads(line) for line in (TASK / f"{split}.jsonl").read_text("utf-8").splitlines()]
        for split in SPLITS
    }


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL)


def judging_words(lexicon: Lexicon) -> set[str]:
    return {word for poles in lexicon.qualities.values() for words in poles.values() for word in words}


def words_of(texts: Sequence[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[a-z][a-z'-]*", text.lower())}


def test_committed_files_are_what_the_generator_writes() -> None:
    for name, content in files().items():
        assert (TASK / name).read_bytes() == content.encode(), name


def test_task_file_names_the_files_and_columns_that_exist(rows: Rows) -> None:
    task = yaml.safe_load((TASK / "task.yaml").read_text("utf-8"))
    assert set(task["files"]) == set(rows)
    for split, name in task["files"].items():
        assert (TASK / name).is_file()
        assert all(set(row) == {task["text"], task["label"]} for row in rows[split])


@pytest.mark.parametrize("split", list(SPLITS))
def test_labels_are_balanced(rows: Rows, split: str) -> None:
    counts = Counter(row["label"] for row in rows[split])
    assert counts == dict.fromkeys(LABELS, SPLITS[split][0] // 4)


def test_no_text_occurs_twice_within_or_across_splits(rows: Rows) -> None:
    texts = [row["text"] for split in rows.values() for row in split]
    assert len(set(texts)) == len(texts)


def test_test_judges_with_words_that_train_lacks_and_pretraining_has(rows: Rows, lexicon: Lexicon) -> None:
    used = {split: words_of([row["text"] for row in rows[split]]) & judging_words(lexicon) for split in rows}
    new = used["test"] - used["train"]
    assert len(new) > 0.3 * len(used["test"])
    assert new <= words_of(generate(10_000, seed=1))


def test_splits_share_a_lexicon_by_place(lexicon: Lexicon) -> None:
    whole = lexicon.qualities["person"][True]
    test = for_split(lexicon, "test").qualities["person"][True]
    assert test == tuple(word for place, word in enumerate(whole) if SHARES[place % len(SHARES)] != "dev")
    assert set(for_split(lexicon, "train").qualities["person"][True]) < set(test)
    assert for_split(lexicon, "test").people == lexicon.people


def test_no_judging_word_speaks_both_ways(lexicon: Lexicon) -> None:
    good = {word for poles in lexicon.qualities.values() for word in poles[True]}
    bad = {word for poles in lexicon.qualities.values() for word in poles[False]}
    assert not good & bad
    assert not set(lexicon.verdict_nouns[True]) & set(lexicon.verdict_nouns[False])


def test_every_label_can_be_written_for_every_domain(lexicon: Lexicon) -> None:
    dice = Dice(0)
    for domain in lexicon.domains:
        alone = Lexicon(**{**vars(lexicon), "domains": (domain,)})
        for label in LABELS:
            for _ in range(25):
                text = labelled(dice, alone, label).text
                assert re.fullmatch(r"[A-Z].*[.?]", text), text
                assert not re.search(r"[{}*/]|\s\s|\s[.,;?]", text), text


def test_dice_follow_the_seed_and_the_weights() -> None:
    assert [Dice(4).pick(range(1000)) for _ in range(3)] == [Dice(4).pick(range(1000))] * 3
    dice = Dice(0)
    counts = Counter(dice.weighted(((3, "often"), (1, "seldom"), (0, "never"))) for _ in range(4000))
    assert counts["never"] == 0
    assert counts["often"] == pytest.approx(3000, abs=150)


def test_a_clause_uses_words_of_its_own_pole_unless_it_denies_them(lexicon: Lexicon) -> None:
    scene = Scene(Dice(3), lexicon)
    claim = scene.claim(True)
    assert claim.adjective in {word for poles in lexicon.qualities.values() for word in poles[True]}
    assert claim.adjective in stated(scene, claim)
    assert re.search(r"\b(not|no|never|nothing|nobody|hardly|far|anything)\b", denied(scene, claim))
    assert fact(scene, True)
    assert scene.thing.text in verdict(scene, False)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("ordeal", "an ordeal"),
        ("useful lamp", "a useful lamp"),
        ("honest fee", "an honest fee"),
        ("unfair", "an unfair"),
    ],
)
def test_article_follows_the_sound(phrase: str, expected: str) -> None:
    assert with_article(phrase) == expected


def test_sentences_keep_a_question_mark() -> None:
    assert sentence("is it so?") == "Is it so?"
    assert sentence("it is so") == "It is so."


def test_the_sample_weighs_less_than_four_megabytes() -> None:
    folder = Path(MODEL).parent
    assert sum(path.stat().st_size for path in folder.rglob("*") if "__pycache__" not in path.parts) < 4 * 2**20


def test_every_text_is_tokenized_without_unknown_or_lost_words(rows: Rows, tokenizer: Any) -> None:
    texts = [row["text"] for split in rows.values() for row in split]
    for text, ids in zip(texts, tokenizer(texts)["input_ids"], strict=True):
        assert tokenizer.unk_token_id not in ids, text
        assert len(ids) <= 64
        spaceless = tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "")
        assert spaceless == text.lower().replace(" ", "")


def test_any_plain_word_or_pair_can_be_tokenized(tokenizer: Any) -> None:
    pair = tokenizer("Zyx9 qwv-jk!", "A second one?")
    assert tokenizer.unk_token_id not in pair["input_ids"]
    assert pair["token_type_ids"] == sorted(pair["token_type_ids"])
    assert set(pair["token_type_ids"]) == {0, 1}


def test_the_tokenizer_is_the_one_that_the_script_builds(tokenizer: Any, lexicon: Lexicon) -> None:
    assert set(build_tokenizer(generate(2_000, seed=3)).get_vocab()) <= set(tokenizer.get_vocab())
    assert {word for word in judging_words(lexicon) if "-" not in word} <= set(tokenizer.get_vocab())


def test_the_encoder_loads_in_float32_with_a_fresh_head() -> None:
    model, report = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=4, output_loading_info=True)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not report["unexpected_keys"]
    assert all(name.startswith(("classifier.", "bert.pooler.")) for name in report["missing_keys"])


def test_the_encoder_is_not_random(rows: Rows, tokenizer: Any) -> None:
    """A linear probe on frozen states reads the verdict better than on the same encoder re-initialised."""
    set_seed(0)
    pretrained = AutoModel.from_pretrained(MODEL)
    fresh = [AutoModel.from_config(pretrained.config) for _ in range(3)]
    assert probe(pretrained, tokenizer, rows) > max(probe(model, tokenizer, rows) for model in fresh) + 0.02


def probe(model: Any, tokenizer: Any, rows: Rows) -> float:
    """Test accuracy of logistic regression on mean states, from 600 training rows."""
    train, test = rows["train"][:600], rows["test"]
    probe = LogisticRegression(max_iter=300).fit(states(model, tokenizer, train), [row["label"] for row in train])
    return float(probe.score(states(model, tokenizer, test), [row["label"] for row in test]))


def states(model: Any, tokenizer: Any, rows: Sequence[dict[str, str]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    return ((hidden * mask).sum(1) / mask.sum(1)).numpy()
