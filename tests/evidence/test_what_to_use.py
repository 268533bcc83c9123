"""What should I use: effects of all committed runs, pooled over tasks, and one row per situation."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evidence.advised_command import command
from evidence.arms import scored_languages, study_arms
from evidence.authors import FILE as AUTHORS
from evidence.effects import (
    AFTER_TAPT,
    ALL,
    BASE,
    EMBEDDED,
    ON_LANGUAGES,
    OTHER_MODEL,
    PAIRS,
    ArmEffect,
    Where,
    effects,
    family,
)
from evidence.pooling import LEVEL
from evidence.studies import read_studies
from evidence.summaries import pool, summarize
from evidence.what_to_use import PAGE, SITUATIONS, advices, costs, freezing_section, points
from gradgate.methods import method
from gradgate.papers.claims.elsa import BASELINE
from gradgate.papers.claims.numbers import Key, Place
from gradgate.papers.recorded import read_numbers
from gradgate.settings.arms.arm import read_arm
from support.arm_effects import WHERE, effect


@pytest.mark.parametrize(
    ("differences", "use", "undecided"),
    [
        ([2.0, 2.1, 1.9], "lora", False),
        ([0.0, 0.1, -0.1], "lora", False),
        ([-3.0, -3.1, -2.9], None, False),
        ([-3.0, 3.1, -0.5], None, True),
    ],
    ids=["better", "as good and cheaper", "worse", "undecided"],
)
def test_the_arm_to_use_follows_from_its_interval(differences: list[float], use: str | None, undecided: bool) -> None:
    found = summarize(WHERE, [effect(task, value, 0.01) for task, value in zip("abc", differences, strict=True)])
    assert found is not None
    assert (found.use.arm if found.use else None, found.is_undecided) == (use, undecided)


def test_all_arms_that_a_source_compared_are_one_family() -> None:
    kept = [effect(task, 2.0, 0.04, arm="graddrop") for task in "abc"]
    alone, chosen = (summarize(WHERE, [replace(each, compared=arms) for each in kept]) for arms in (1, 23))
    assert alone is not None
    assert chosen is not None
    assert chosen.arms[0].pooled == pool(kept, 0.05 / 23)
    assert (alone.use is not None, chosen.use) == (True, None)


def test_a_situation_without_a_cheaper_arm_says_so() -> None:
    found = summarize(WHERE, [effect(task, value, 0.01, arm="graddrop") for task, value in (("a", 0.5), ("b", -0.5))])
    assert found is not None
    assert found.why == "no arm is shown to be better, and no cheaper one was compared"


def test_a_situation_without_runs_has_no_advice_and_the_page_says_so() -> None:
    assert summarize(Where("question answering", "any", "any"), effects()) is None
    unknown = [where for where, advice in advices().items() if advice is None]
    assert unknown
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for where in unknown:
        line = next(
            each for each in lines if each.startswith(f"| **{where.kind}**<br>{where.rows}<br>{where.model}<br>")
        )
        assert "nothing is known here" in line


def test_few_tasks_or_generated_data_give_low_confidence() -> None:
    found = summarize(WHERE, [effect("a", 2.0, 0.001)])
    assert found is not None
    assert found.confidence.startswith("low: 1 task,")
    assert all(
        advice.confidence.startswith("low") and "generated data" in advice.confidence
        for where, advice in advices().items()
        if advice is not None and "embedded" in where.model
    )


@pytest.mark.parametrize("difference", [2.0, 0.0], ids=["better", "as good and cheaper"])
def test_an_arm_whose_runs_are_in_doubt_does_not_replace_full_fine_tuning(difference: float) -> None:
    sure = [effect(task, difference, 0.001) for task in "abc"]
    doubted = [*sure, replace(effect("d", difference, 0.001), doubts=("short training",))]
    for given, used in ((sure, True), (doubted, False)):
        found = summarize(WHERE, given)
        assert found is not None
        assert (found.use is not None, found.is_undecided) == (used, not used)
        assert ("short training" in found.confidence) is not used
        assert (found.use or found.next) == found.arms[0]


def test_a_better_arm_in_doubt_does_not_hide_one_that_is_not() -> None:
    doubted = [replace(effect(task, 3.0, 0.001, arm="mixout"), doubts=("short training",)) for task in "abcdef"]
    sound = [effect(task, 2.0, 0.001, arm="lora") for task in "abcdef"]
    found = summarize(WHERE, doubted + sound)
    assert found is not None
    assert found.use is not None
    assert found.use.arm == "lora"


def test_a_cheaper_arm_that_may_be_as_good_leaves_a_row_undecided_whatever_its_mean() -> None:
    worse = [effect(task, -1.5, 0.001, arm="lora") for task in "abc"]
    open_ended = [
        effect(task, value, 4.0, arm="houlsby:size=64") for task, value in zip("abc", (-9, 2, 0), strict=True)
    ]
    found = summarize(WHERE, worse + open_ended)
    assert found is not None
    assert found.next is not None
    assert (found.next.arm, found.is_undecided) == ("houlsby:size=64", True)


def test_a_cheaper_arm_that_is_worse_by_less_than_a_point_but_in_doubt_leaves_a_row_undecided() -> None:
    little = replace(effect("a", -0.4, 0.01), doubts=("short training",))
    found = summarize(WHERE, [little])
    assert found is not None
    assert (found.use, found.is_undecided) == (None, True)
    assert found.why == "the second is no worse by more than 1 point in these runs"
    rows = freezing_section([replace(found, arms=(replace(found.arms[0], arm="head"),))])
    assert "| by less than 1 point, test rows not counted, short training |" in rows


def test_a_difference_without_collapsed_runs_says_that_it_lacks_the_test_rows_that_the_first_one_counts() -> None:
    steady = effect("a", 2.0, 0.5)
    found = {
        rows: shown_points(replace(effect("a", 1.0, 4.0), without_collapsed=steady, over_rows=rows))
        for rows in (None, (9.0, 30.0))
    }
    assert all("+2.0 [+0.0 to +4.0] without collapsed runs" in text for text in found.values())
    assert ["(test rows not counted)" in text for text in found.values()] == [False, True]


def shown_points(found: ArmEffect) -> str:
    advice = summarize(WHERE, [found])
    assert advice is not None
    return points(advice.arms[0])


def test_an_end_near_the_margin_has_two_digits() -> None:
    half = 2.776445  # times the standard error, with 4 degrees of freedom
    assert shown_points(effect("a", -0.6, (0.37 / half) ** 2)) == "−0.6 [−0.97 to −0.23]"
    assert shown_points(effect("a", -0.6, (0.47 / half) ** 2)) == "−0.6 [−1.1 to −0.1]"


def test_another_model_as_full_fine_tuning_gives_low_confidence() -> None:
    found = summarize(WHERE, [replace(effect(task, 2.0, 0.001), doubts=(OTHER_MODEL,)) for task in "abcdef"])
    assert found is not None
    assert found.confidence == f"low: 6 tasks, 5 or more runs per arm, test rows not counted, {OTHER_MODEL}"


@pytest.mark.parametrize(("doubted", "level"), [(2, "medium"), (3, "low")])
def test_doubts_about_most_of_the_tasks_give_low_confidence(doubted: int, level: str) -> None:
    runs = [effect(task, 2.0, 0.001) for task in "abcd"]
    found = summarize(WHERE, [replace(each, doubts=("short training",)) for each in runs[:doubted]] + runs[doubted:])
    assert found is not None
    assert found.confidence.partition(":")[0] == level


@pytest.mark.parametrize(
    ("differences", "use", "undecided"),
    [
        ((2.0, 7.0), "lora", False),
        ((-0.3, 7.0), "lora", False),
        ((-2.0, 7.0), None, True),
        ((-2.0, -7.0), None, False),
    ],
    ids=["better on both", "worse by less than 1 point on one", "better and worse", "worse on both"],
)
def test_two_tasks_decide_together_what_each_of_them_shows(
    differences: tuple[float, float], use: str | None, undecided: bool
) -> None:
    found = summarize(WHERE, [effect(task, value, 0.01) for task, value in zip("ab", differences, strict=True)])
    assert found is not None
    assert (found.use.arm if found.use else None, found.is_undecided) == (use, undecided)
    (arm,) = found.arms
    assert arm.pooled.mean == pytest.approx(sum(differences) / 2)
    alone = [pool([effect("a", value, 0.01)], LEVEL / 2) for value in differences]
    assert arm.pooled.each == tuple(zip("ab", alone, strict=True))
    rows = freezing_section([replace(found, arms=(replace(arm, arm="head"),))])
    assert ("| head |" in rows) == (max(differences) < 0)


@pytest.mark.parametrize(
    ("examples", "rows"), [((1000, 6920), "1,000 to 6,920 rows"), ((1000, 1000), "1,000 rows"), ((None, None), "")]
)
def test_a_row_has_the_training_sizes_of_its_own_runs(examples: tuple[int | None, ...], rows: str) -> None:
    runs = [replace(effect(task, 2.0), examples=size) for task, size in zip("ab", examples, strict=True)]
    found = summarize(WHERE, runs)
    assert found is not None
    assert found.where.rows == (rows or WHERE.rows)


def test_a_line_has_the_training_sizes_of_the_arm_that_it_shows() -> None:
    found = summarize(WHERE, [replace(effect(a, 3.0), arm=a, examples=n) for a, n in (("head", 1000), ("lora", 5000))])
    assert found is not None
    rows = {arm.arm: found.where_of(arm).rows for arm in found.arms}
    assert rows == {"head": "1,000 rows", "lora": "5,000 rows"}
    assert found.where_of(None).rows == "1,000 to 5,000 rows"


def test_every_effect_of_a_real_study_knows_its_training_size() -> None:
    real = {study.name for study in read_studies() if study.data == "real"}
    assert [each.source for each in effects() if each.source in real and each.examples is None] == []


def test_the_difference_without_collapsed_runs_leaves_out_their_pairs() -> None:
    numbers = read_numbers(AUTHORS)["elsa"]
    place = Place("RoBERTa-base", "CoLA")
    full = [s / 100 for s in numbers.scores[Key(place, BASELINE, "en")].values()]
    assert min(full) == 0.0
    steady = sum(s for s in full if s) / (len(full) - 1)
    half = [s / 100 for s in numbers.scores[Key(place, "frozen 6/12", "en")].values()]
    (found,) = (
        each
        for each in effects()
        if (each.source, each.task, each.example) == (f"the Elsa authors, {place.model}", "CoLA", "freeze:layers=6")
    )
    assert found.difference == pytest.approx(100 * (sum(half) / len(half) - sum(full) / len(full)))
    assert found.without_collapsed is not None
    assert found.without_collapsed.difference == pytest.approx(100 * (sum(half) / len(half) - steady))


def test_a_cost_that_few_tasks_recorded_names_their_number() -> None:
    runs = [effect(task, -0.1) for task in ("a", "b", "c")]
    found = summarize(WHERE, [replace(runs[0], seconds=0.4), *runs[1:]])
    assert found is not None
    assert costs(found.arms[0]) == "0.50× memory, 0.40× time (1 task)"


def test_a_data_set_in_two_forms_counts_once() -> None:
    small = next(advice for where, advice in advices().items() if advice and where == WHERE)
    half = next(arm for arm in small.arms if arm.arm == "freeze half of the layers")
    assert {each.source for each in half.effects} >= {"real-freezing-glue-sst2", "real-freezing-sst2"}
    assert half.pooled.tasks == len({each.source for each in half.effects}) - 1


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("synthetic-adapters", 10),  # names none, so that all of its data are scored
        ("real-gradient-dropout-wikiann", 8),  # on dev
        ("synthetic-freezing", 1),
        ("real-freezing-multilingual-sst2", 0),
    ],
)
def test_languages_are_those_of_the_scores(name: str, count: int) -> None:
    assert len(scored_languages(read_studies([name])[0])) == count


def test_every_committed_run_of_a_study_with_full_fine_tuning_is_used() -> None:
    used = {each.source for each in effects()}
    there = [study for study in read_studies() if study.runs.exists()]
    with_full = {
        study.name for study in there if any(arm.name == "full" for arms in study_arms(study).values() for arm in arms)
    }
    assert len(with_full) > 10
    assert with_full <= used
    assert {"SetFit", "PEFT"} <= used
    assert {each.where for each in effects()} <= set(SITUATIONS)
    on_glue = {each.source for each in effects() if each.where == Where(PAIRS, ALL, BASE)}
    assert on_glue == {"the Elsa authors, BERT-base", "the Elsa authors, RoBERTa-base"}


@pytest.mark.parametrize(
    ("arm", "layers", "name"),
    [
        ("freeze:layers=3", 6, "freeze half of the layers"),
        ("freeze:layers=5", 6, "freeze two thirds or more of the layers"),
        ("freeze:layers=4", 4, "head"),
        ("houlsby:size=64 + mixout", None, "houlsby + mixout"),
        ("houlsby:size=64,tapt_steps=200", None, "houlsby after pretraining on the task's text"),
        ("gradfreeze:order=bottom-up", None, "gradfreeze from the bottom up"),
        ("probe", None, "probe"),
        ("groups:open=@attention", 18, "groups:open=@attention"),
    ],
)
def test_arms_are_grouped_by_what_they_leave_closed(arm: str, layers: int | None, name: str) -> None:
    assert family(arm, layers) == name


@pytest.mark.parametrize(
    ("doubts", "words"), [((), "gradgate train"), (("short training",), "gradgate compare -m full")]
)
def test_the_command_of_an_arm_on_language_adapters_names_them(doubts: tuple[str, ...], words: str) -> None:
    arm = effect("a", 2.0, 0.2, arm=f"pfeiffer{ON_LANGUAGES}")
    found = summarize(WHERE, [replace(arm, example="pfeiffer:reduction=16", doubts=doubts)])
    assert found is not None
    assert command(found).startswith(
        f'{words} -m pfeiffer:reduction=16 --language-adapters "LANGUAGES/{{language}}" --'
    )


def test_the_command_has_the_form_of_the_arm_that_most_runs_are_of() -> None:
    runs = [
        replace(effect(task, 2.0, 0.2, arm="houlsby"), example=f"houlsby:size={size}")
        for task, size in (("a", 256), ("b", 64), ("c", 64))
    ]
    found = summarize(WHERE, runs)
    assert found is not None
    assert command(found).startswith("gradgate train -m houlsby:size=64 ")


def test_no_command_has_a_number_that_the_reader_must_work_out() -> None:
    shown = [command(advice) for advice in advices().values() if advice is not None]
    assert len(shown) > 10
    for text in shown:
        arms = re.findall(r'-m ("[^"]+"|\S+)', text)
        assert all(read_arm(arm.strip('"')) for arm in arms)


def test_a_grid_whose_full_fine_tuning_was_at_the_edge_of_its_rates_advises_nothing() -> None:
    real = [each for each in effects() if each.source.startswith("grids/") and each.where.model != EMBEDDED]
    assert real == []
    assert any(each.source == "grids/sample" for each in effects())


@pytest.mark.parametrize("before", [ON_LANGUAGES, AFTER_TAPT])
def test_an_arm_that_needs_something_pretrained_first_is_not_cheaper(before: str) -> None:
    alone, stacked = (summarize(WHERE, [effect("a", 0.0, 0.01, arm=f"pfeiffer{name}")]) for name in ("", before))
    assert alone is not None
    assert stacked is not None
    assert alone.use is not None
    assert (stacked.use, stacked.next) == (None, None)


def test_the_methods_that_the_page_names_exist() -> None:
    commands = re.findall(r"gradgate train -m \"?([a-z]+)", PAGE.read_text(encoding="utf-8"))
    assert commands
    adapters = {"houlsby", "lora", "rslora", "dora", "pfeiffer"}
    for name in set(commands) - adapters:
        method(name if name != "freeze" else "freeze:layers=1")


def test_each_line_on_memory_or_freezing_names_its_situation_in_full() -> None:
    lists = PAGE.read_text(encoding="utf-8").split("## Where freezing")[1].split("## How the numbers")[0]
    lines = [line for line in lists.splitlines() if line.startswith("| ") and not line.startswith("| situation")]
    situations = [line.strip("| ").split(" | ")[0] for line in lines]
    assert len(situations) > len(set(situations)) > 5
    known = [advice for advice in advices().values() if advice is not None]
    assert set(situations) <= {str(each.where_of(arm)) for each in known for arm in each.arms}


def test_freezing_was_nowhere_better_on_real_data_as_the_faq_says() -> None:
    found = [each for each in advices().values() if each is not None and each.where.model != EMBEDDED]
    frozen = [arm for each in found for arm in each.arms if arm.arm.startswith(("freeze", "head"))]
    assert len(frozen) > 20
    assert not [arm for arm in frozen if arm.pooled.interval[0] > 0]
