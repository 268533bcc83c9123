"""Claims where other tasks stand in for the paper's: each is tested on tasks of the kind that it speaks of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradgate.papers.claims import check, find_claim
from gradgate.papers.claims.numbers import Key, Numbers, Place


def measured(task: str, on: str = "en", **scores: list[float]) -> Numbers:
    """Scores of a model of 6 layers, by method; ``frozen_4`` has 4 of them frozen."""
    keys = {name: name.replace("_", " ") + "/6" * name.startswith("frozen") for name in scores}
    place = Place("all-MiniLM-L6-v2", task)
    found = {Key(place, keys[name], on): dict(enumerate(values)) for name, values in scores.items()}
    return Numbers(found, exact=False, stand_in=True)


def in_three_languages(task: str, **scores: list[float]) -> Numbers:
    """The same scores in each of three languages."""
    found = [measured(task, on, **scores).scores for on in ("en", "de", "nl")]
    return Numbers({key: by_seed for each in found for key, by_seed in each.items()}, exact=False, stand_in=True)


def of_model(numbers: Numbers, model: str) -> Numbers:
    """The same scores of another model."""
    scores = {key._replace(place=key.place._replace(model=model)): own for key, own in numbers.scores.items()}
    return replace(numbers, scores=scores)


@pytest.mark.parametrize(("model", "state"), [("XLM-R-base", "fails"), ("all-MiniLM-L6-v2", "cannot tell")])
def test_the_head_alone_has_a_limit_in_f1_on_named_entities(model: str, state: str) -> None:
    numbers = measured("ncbi_disease", baseline=[70.0, 71.0, 72.0], frozen_6=[18.0, 18.2, 18.4])
    assert check(find_claim("E2"), of_model(numbers, model)).state == state


@pytest.mark.parametrize(
    ("tasks", "state"),
    [
        (("sst2_sentences",), "cannot tell"),
        (("sst2_sentences", "citation_intent"), "cannot tell"),
        (("sst2_sentences", "citation_intent", "of-a-user"), "holds"),
    ],
)
def test_a_mean_over_tasks_takes_three_tasks(tasks: tuple[str, ...], state: str) -> None:
    scores = {"baseline": [70.0, 71.0], "frozen_3": [70.0, 70.9], "frozen_4": [69.5, 70.5], "frozen_5": [60.0, 61.0]}
    found: dict[Key, dict[int, float]] = {}
    for task in tasks:
        found |= measured(task, frozen_6=[18.0, 18.2], **scores).scores
    outcome = check(find_claim("E4"), Numbers(found, exact=False, stand_in=True))
    assert outcome.state == state
    assert all(("of the 3 needed" in finding.text) is (len(tasks) < 3) for finding in outcome.findings)


def test_returns_diminish_over_the_last_points_where_three_quarters_is_none_of_them() -> None:
    scores = {"baseline": [70.0, 71.0, 72.0], "frozen_3": [69.9, 70.8, 71.8]}
    lacking = check(find_claim("E4"), in_three_languages("ncbi_disease", **scores))
    assert (lacking.state, lacking.findings[0].state) == ("cannot tell", "holds")
    scores |= {"frozen_4": [69.0, 70.0, 71.0], "frozen_5": [60.0, 61.0, 61.8], "frozen_6": [18.0, 18.2, 18.4]}
    outcome = check(find_claim("E4"), in_three_languages("ncbi_disease", **scores))
    assert outcome.state == "holds"
    assert "from frozen 6/6 to frozen 5/6, minus from there to frozen 4/6" in outcome.findings[1].text


def test_the_bend_of_a_straight_line_is_none() -> None:
    frozen = {"baseline": 90.0, "frozen 12/24": 79.0, "frozen 17/24": 74.0, "frozen 24/24": 67.0}
    scores = {
        Key(Place("RoBERTa-large", task), method, "en"): {0: score, 1: score + 0.1}
        for task in ("CoLA", "MRPC", "RTE")
        for method, score in frozen.items()
    }
    texts = [finding.text for finding in check(find_claim("E4"), Numbers(scores, exact=False)).findings]
    assert any("evenly apart" in text for text in texts)
    assert not any("gained" in text for text in texts)


@pytest.mark.parametrize(("model", "compared"), [("all-MiniLM-L6-v2", True), ("BERT-base", False)])
def test_a_model_of_the_paper_stands_for_no_other_one(model: str, compared: bool) -> None:
    place = Place(model, "SST-2")
    found = {Key(place, "baseline", "en"): {0: 90.0, 1: 91.0}, Key(place, "frozen 4/6", "en"): {0: 91.0, 1: 93.0}}
    outcome = check(find_claim("E5"), Numbers(found, exact=False))
    assert any(finding.compared for finding in outcome.findings) is compared


@pytest.mark.parametrize(
    ("task", "compared"), [("ncbi_disease", False), ("udpos", False), ("sst2_sentences", True), ("of-a-user", True)]
)
def test_what_is_claimed_of_sst2_is_not_tested_on_tags_of_tokens(task: str, compared: bool) -> None:
    numbers = measured(task, baseline=[70.0, 71.0, 72.0], frozen_4=[69.0, 68.0, 69.5])
    assert any(finding.compared for finding in check(find_claim("E5"), numbers).findings) is compared


def test_fewer_layers_are_frozen_on_named_entities() -> None:
    scores = {"baseline": [70.0, 71.0, 72.0], "frozen_4": [69.0, 70.5, 71.5], "frozen_5": [20.0, 20.0, 20.0]}
    (entities, _) = check(find_claim("E3"), in_three_languages("ncbi_disease", **scores)).findings
    assert "relative quality of frozen 4/6" in entities.text
    assert "not of XLM-R, which the claim is about" in entities.text


def test_a_model_that_a_claim_does_not_name_decides_nothing() -> None:
    worse = measured("SST-2", baseline=[90.0, 91.0, 92.0], frozen_4=[80.0, 81.1, 82.0])
    outcome = check(find_claim("E5"), replace(worse, stand_in=False))
    assert (outcome.state, outcome.findings[0].limits) == (
        "cannot tell",
        ("not of MT-RoBERTa-large, which the claim is about",),
    )
    named = of_model(worse, "MT-RoBERTa-large")
    assert check(find_claim("E5"), replace(named, stand_in=False)).state == "fails"


def test_a_finding_has_all_reasons_why_it_decides_nothing() -> None:
    numbers = measured("SST-2", baseline=[90.0, 91.0, 92.0], frozen_6=[80.0, 81.1, 82.0])
    (finding, _) = check(find_claim("E2"), replace(numbers, stand_in=False)).findings
    assert finding.limits == ("1 task of the 3 needed", "not of MT-RoBERTa, which the claim is about")


@pytest.mark.parametrize(
    ("frozen", "compared"),
    [("frozen 8/12", True), ("frozen 9/12", False), ("frozen 19/24", True), ("frozen 16/24", False)],
)
def test_a_model_of_as_many_layers_as_the_papers_is_judged_at_what_the_paper_froze(frozen: str, compared: bool) -> None:
    of_six = in_three_languages("ncbi_disease", baseline=[70.0, 71.0, 72.0], frozen_4=[69.0, 70.5, 71.5])
    named = {"frozen 4/6": frozen}
    scores = {key._replace(method=named.get(key.method, key.method)): own for key, own in of_six.scores.items()}
    findings = check(find_claim("E3"), replace(of_six, scores=scores)).findings
    assert any(finding.compared for finding in findings) is compared


def test_a_claim_about_glue_and_named_entities_does_not_hold_on_one_of_them() -> None:
    low = measured("ncbi_disease", baseline=[70.0, 71.0, 72.0], frozen_6=[5.0, 5.2, 5.4])
    outcome = check(find_claim("E2"), of_model(low, "XLM-R-base"))
    assert [(f.state, f.found.partition(":")[0]) for f in outcome.findings] == [
        ("holds", "ncbi_disease, XLM-R-base, en"),
        ("cannot tell", "GLUE"),
    ]
    assert outcome.state == "cannot tell"


@pytest.mark.parametrize("claim", ["E2", "E3"])
def test_what_is_claimed_of_glue_and_named_entities_is_not_tested_on_parts_of_speech(claim: str) -> None:
    numbers = measured("udpos", baseline=[90.0, 91.0], frozen_4=[90.0, 91.0], frozen_6=[60.0, 61.0])
    assert not any(finding.compared for finding in check(find_claim(claim), numbers).findings)


@pytest.mark.parametrize(
    ("claim", "tasks"),
    [
        ("G1", {"sst2_sentences", "of-a-user"}),  # of XNLI
        ("G5", {"sst2_sentences", "of-a-user"}),  # of QAM
        ("G6", {"sst2_sentences", "udpos", "of-a-user"}),  # of NC and POS
        ("G7", {"ncbi_disease", "of-a-user"}),  # of NER
        ("G10", {"sst2_sentences", "of-a-user"}),  # of XNLI
    ],
)
def test_what_graddrop_claims_of_a_task_is_tested_on_tasks_like_it(claim: str, tasks: set[str]) -> None:
    scores = {"SFT": [70.0, 71.0], "GradDrop": [72.0, 74.0], "GradDrop-Epoch": [71.0, 74.0]}
    found = {
        task
        for task in ("sst2_sentences", "udpos", "ncbi_disease", "of-a-user")
        for finding in check(find_claim(claim), measured(task, "avg", **scores)).findings
        if finding.compared
    }
    assert found == tasks


@pytest.mark.parametrize("claim", ["A2", "A7"])
def test_what_adaptereff_claims_of_special_domains_is_not_tested_on_tags_of_tokens(claim: str) -> None:
    scores = {"Fine-tune": [70.0, 71.0], "Adapter-64": [70.0, 71.5], "Adapter-256": [72.0, 74.0]}
    compared = {
        task
        for task in ("citation_intent", "udpos")
        for finding in check(find_claim(claim), measured(task, **scores)).findings
        if finding.compared
    }
    assert compared == {"citation_intent"}
