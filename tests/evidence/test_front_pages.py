"""The first pages have the numbers of the evidence, and their picture shows no more than these say."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from evidence.effects import ALL, BASE, ONE_RATE, OTHER_MODEL, PAIRS, ArmEffect, Where
from evidence.front_pages import INDEX, MARK, README, change, in_picture, replaced
from evidence.front_picture import FILE, drawn, shown, word
from evidence.limits import SHORT_TRAINING
from evidence.pooling import Pooled
from evidence.summaries import ArmInSituation, SituationAdvice, pool
from evidence.what_to_use import advices

SVG = "{http://www.w3.org/2000/svg}"


def arm(mean: float, low: float, high: float) -> ArmInSituation:
    return ArmInSituation("lora", Pooled(mean, (low, high), None, 1), ())


def advice(mean: float, low: float, high: float) -> SituationAdvice:
    return SituationAdvice(Where(PAIRS, ALL, BASE), (arm(mean, low, high),), arm(mean, low, high), "")


@pytest.mark.parametrize(
    ("numbers", "said", "in_picture"),
    [
        ((2.0, 0.5, 3.5), "gains 2.0 points (95 % interval 0.5 to 3.5)", "better"),
        ((-1.0, -1.6, -0.5), "costs 1.0 points (95 % interval 0.5 to 1.6)", "worse"),
        ((-0.5, -0.9, -0.1), "costs 0.5 points (95 % interval 0.1 to 0.9)", "worse by less than 1 point"),
        ((-1.0, -2.6, 0.5), "has an inconclusive effect of −1.0 points (95 % interval −2.6 to +0.5)", "undecided"),
    ],
)
def test_a_verb_needs_an_interval_on_one_side_of_zero(
    numbers: tuple[float, float, float], said: str, in_picture: str
) -> None:
    assert change(arm(*numbers).pooled) == said
    assert word(advice(*numbers)) == in_picture


def test_only_the_marked_part_of_a_page_is_replaced() -> None:
    page = f"before\n% begin a, {MARK}\nold\n% end a, {MARK}\nafter\n"
    made = replaced(page, "a", "new")
    assert made == f"before\n% begin a, {MARK}\nnew\n% end a, {MARK}\nafter\n"
    assert replaced(made, "a", "new") == made
    with pytest.raises(ValueError, match="has no lines 'begin b"):
        replaced(page, "b", "new")


def test_both_pages_begin_with_the_same_result_and_have_the_picture() -> None:
    texts = [page.read_text(encoding="utf-8") for page in (README, INDEX)]
    results = [text.partition(f"begin result, {MARK}")[2].partition("**")[2].partition("**")[0] for text in texts]
    assert results[0] == results[1]
    assert re.search(r"(gains|costs|has an inconclusive effect of) .* points \(95 % interval", results[0])
    assert all(FILE.name in text for text in texts)
    assert len(texts[0].splitlines()) <= 150


def test_the_result_has_the_interval_of_its_comparison_alone_and_the_picture_that_of_all_arms() -> None:
    glue = advices()[Where(PAIRS, ALL, BASE)]
    assert glue is not None
    half = next(arm for arm in glue.arms if arm.arm == "freeze half of the layers")
    own = pool(half.effects)
    assert change(own) in " ".join(README.read_text(encoding="utf-8").split())
    assert half.pooled.interval[0] < own.interval[0] < own.interval[1] < half.pooled.interval[1]


def test_runs_in_doubt_stay_out_of_the_picture_whichever_way_they_point() -> None:
    found = [advice(difference, difference - 0.5, difference + 0.5) for difference in (-2.0, 2.0)]
    assert in_picture(found) == found
    for doubt in (SHORT_TRAINING, ONE_RATE, OTHER_MODEL):
        effect = ArmEffect(found[0].where, "a", "lora", "lora:r=8", 0.0, 0.1, 5, "a study", doubts=(doubt,))
        assert in_picture([replace(each, use=replace(each.arms[0], effects=(effect,))) for each in found]) == []


def test_the_picture_has_each_situation_within_its_scale() -> None:
    found = in_picture([each for each in advices().values() if each is not None and each.shown is not None])
    root = ElementTree.fromstring(drawn(found))
    width = float(root.attrib["viewBox"].split()[2])
    circles = [float(circle.attrib["cx"]) for circle in root.iter(f"{SVG}circle")]
    assert len(circles) == len(found) > 5
    assert len({text.text for text in root.iter(f"{SVG}text") if "rows" in (text.text or "")}) == len(found)
    assert all(0 < x < width for x in circles)
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    for each in found:
        mean = f"{shown(each).pooled.mean:+.1f}".replace("-", "−")
        assert any(text.startswith(mean) and f"{shown(each).pooled.tasks} task" in text for text in texts), each.where


def test_a_wide_interval_is_cut_at_the_ends_of_the_scale() -> None:
    wide = advice(0.0, -90.0, 90.0)
    lines = [each.attrib for each in ElementTree.fromstring(drawn([wide])).iter(f"{SVG}line")]
    bar = next(each for each in lines if each["class"] == "undecided")
    narrow = next(
        each.attrib
        for each in ElementTree.fromstring(drawn([replace(wide, use=arm(0.0, -1.0, 1.0))])).iter(f"{SVG}line")
        if each.attrib["class"] == "undecided"
    )
    assert float(narrow["x1"]) > float(bar["x1"]) >= 0
    assert float(bar["x2"]) <= 360
