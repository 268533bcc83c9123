"""The curve of frozen layers: relative quality, what it saves, and where it is undefined."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from gradgate.report import write_report
from gradgate.report.sections.from_papers.freezing import FreezeCurve, FreezingSection, find_curve
from gradgate.report.study_summary import summarize_study
from gradgate.study.conditions import Conditions, TaskChoice
from gradgate.study.pooled import read_pooled
from gradgate.study.results import read_study
from support.study_folder import finish, write_study
from support.written_report import printed

# Of 2 layers, 200 parameters: embeddings 100, layers 40 each, head 20.
SCORES = {
    "full": [0.80, 0.84, 0.76],
    "freeze:layers=1": [0.78, 0.82, 0.77],
    "freeze:layers=2": [0.40, 0.44, 0.36],
}
UNITS = {"methods": tuple(SCORES), "scores": SCORES}


@pytest.fixture(autouse=True)
def _own_figures_alone(draw_only: Callable[..., None]) -> None:
    draw_only(FreezingSection)


def curve_of(folder: Path, **study: Any) -> FreezeCurve | None:
    return find_curve(summarize_study(read_study(write_study(folder, **{**UNITS, **study}))))


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "tables" / "freezing.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def grow(folder: Path, layers: int, embeddings: int, layer: int, head: int) -> None:
    """Make a model of other sizes of the toy model of a study."""
    sizes = {"embeddings": embeddings, **{f"layers.{i}": layer for i in range(layers)}, "head": head}
    for path in folder.glob("runs/*/seed-*/plan.yaml"):
        phases = [{"step": 0, "open": ["head"]}]
        path.write_text(yaml.safe_dump({"groups": list(sizes), "sizes": sizes, "steps": 80, "phases": phases}))


def shown(folder: Path) -> str:
    return " ".join(printed(folder, 140, all_sections=True).split())


def test_relative_quality_is_the_ratio_of_means_and_each_seed_has_its_own(tmp_path: Path) -> None:
    curve = curve_of(tmp_path)
    assert curve is not None
    first, second = curve.points
    assert (first.frozen, first.quality) == (1, pytest.approx(0.79 / 0.80))
    assert second.quality == pytest.approx(0.5)
    assert second.ratios == pytest.approx((0.5, 0.55, 0.45))
    assert second.spread == pytest.approx(0.05)
    assert curve.fewest_tuned is first


def test_over_languages_relative_quality_is_the_mean_of_their_ratios(tmp_path: Path) -> None:
    splits = ("test.en", "test.de", "test.sw")
    spoken = {split: split.removeprefix("test.") for split in splits}
    write_study(tmp_path, methods=tuple(SCORES), tests=splits, languages=spoken)
    by_language = {"full": (0.9, 0.8, 0.4), "freeze:layers=1": (0.9, 0.4, 0.4), "freeze:layers=2": (0.9, 0.8, 0.2)}
    for method, row in by_language.items():
        for seed in (0, 1):
            file = finish(tmp_path, method, seed, 0.5, splits) / "scores.json"
            record = json.loads(file.read_text())
            record["tests"] = {split: {"macro_f1": score} for split, score in zip(splits, row, strict=True)}
            record["averages"] = {"zero-shot": {"macro_f1": sum(row[1:]) / 2}}
            file.write_text(json.dumps(record))
    curve = find_curve(summarize_study(read_study(tmp_path)))
    assert curve is not None
    # Of the averages 0.6, 0.4 and 0.5 the ratios would be 0.667 and 0.833.
    assert [point.quality for point in curve.points] == pytest.approx([0.75, 0.75])
    assert curve.points[0].ratios == pytest.approx((0.75, 0.75))
    assert "the mean of 2 ratios, each its mean score over that of full on one language" in _page(tmp_path)


def test_over_tasks_relative_quality_is_the_mean_of_their_ratios(tmp_path: Path) -> None:
    record = {"tasks": [{"task": "alpha", "data": None}, {"task": "beta", "data": None}], "models": ["toy"]}
    (tmp_path / "parts.json").write_text(json.dumps(record))
    parts = Conditions((TaskChoice("alpha"), TaskChoice("beta")), ("toy",))
    for path, name, full in zip(parts.paths(tmp_path), ("alpha", "beta"), (0.4, 0.8), strict=True):
        scores = {"full": [full], "freeze:layers=1": [0.4], "freeze:layers=2": [0.2]}
        write_study(path, methods=tuple(SCORES), seeds=(0,), scores=scores, name=name)
    curve = find_curve(summarize_study(read_pooled(tmp_path)))
    assert curve is not None
    assert [point.quality for point in curve.points] == pytest.approx([0.75, 0.375])
    assert "freezing.svg" in {path.name for path in write_report(tmp_path, all_sections=True).figures}


def test_the_table_has_quality_and_savings_in_every_form(tmp_path: Path) -> None:
    written = write_report(write_study(tmp_path, **UNITS))
    assert {path.name for path in written.tables} >= {"freezing.csv", "freezing.md", "freezing.tex"}
    full, first, second = rows(tmp_path)
    assert (full["frozen_layers"], full["tuned_layers"], full["relative_quality"]) == ("", "2", "")
    assert (first["tuned_layers"], second["tuned_layers"]) == ("1", "0")
    assert (first["enough"], second["enough"]) == ("1", "0")
    assert float(first["saved_8_tasks_model"]) == pytest.approx(7 * 140 / (8 * 200))
    assert float(second["saved_limit_model"]) == pytest.approx(180 / 200)
    assert first["saved_8_tasks_paper"] == ""  # the paper has no model of 2 layers
    text = (tmp_path / "tables" / "freezing.md").read_text()
    assert "| freeze:layers=1 | 1 of 2 | 79.0 ± 2.6 | 0.988 ± 0.033 | 200 | 61 % | 70 % |" in text
    assert "paper" not in text
    latex = (tmp_path / "tables" / "freezing.tex").read_text()
    assert r"\textbf{freeze:layers=1}" in latex
    assert r"\textbf{freeze:layers=2}" not in latex


def test_the_files_that_the_runs_have_stored_are_counted(tmp_path: Path) -> None:
    write_study(tmp_path, **UNITS)
    stored = {"full": [(800, 800, 0)], "freeze:layers=1": [(240, 800, 780), (250, 800, 780)]}
    for method, sizes in stored.items():
        for seed, (task, whole, base) in enumerate(sizes):
            path = finish(tmp_path, method, seed, SCORES[method][seed]) / "scores.json"
            scores = json.loads(path.read_text())
            scores["cost"]["files"] = {"stored": task, "whole": whole, "base": base}
            path.write_text(json.dumps(scores))
    write_report(tmp_path, all_sections=True)
    text = (tmp_path / "tables" / "freezing.md").read_text()
    assert "| 6.40 kB of 6.40 kB |" in text
    assert "| 2.78 kB of 6.40 kB |" in text  # 780 + 8 × 250 of 8 × 800
    assert "| not stored |" in text
    full, first, second = rows(tmp_path)
    assert (full["saved_8_tasks_files"], second["saved_8_tasks_files"]) == ("0.0", "")
    assert float(first["saved_8_tasks_files"]) == pytest.approx(1 - 2780 / 6400)


def test_a_model_of_12_layers_has_the_savings_with_the_sizes_of_the_paper_too(tmp_path: Path) -> None:
    methods = ("full", "freeze:layers=9", "freeze:layers=12")
    write_study(tmp_path, methods=methods, scores={method: [0.8, 0.7] for method in methods})
    grow(tmp_path, 12, embeddings=192_000_000, layer=7_100_000, head=600_000)
    write_report(tmp_path, all_sections=True)
    _, nine, twelve = rows(tmp_path)
    assert round(float(nine["saved_8_tasks_paper"]), 2) == 0.72
    assert round(float(twelve["saved_8_tasks_paper"]), 2) == 0.87
    assert float(nine["saved_limit_paper"]) == pytest.approx(0.826, abs=5e-4)
    assert float(nine["saved_limit_model"]) == pytest.approx((192 + 9 * 7.1) / (192 + 12 * 7.1 + 0.6))
    assert "Saved, 8 tasks (paper's sizes)" in (tmp_path / "tables" / "freezing.md").read_text()


def test_the_figure_says_in_words_what_it_shows(tmp_path: Path) -> None:
    written = write_report(write_study(tmp_path, **UNITS), all_sections=True)
    assert tmp_path / "figures" / "freezing.svg" in written.figures
    root = ElementTree.parse(tmp_path / "figures" / "freezing.svg").getroot()
    described = root.findtext("{http://www.w3.org/2000/svg}desc")
    assert described == (
        "Relative quality with full 1; 1 layer frozen 0.988 ± 0.033 (3 seeds); 2 layers frozen 0.500 ± 0.050 (3 seeds)."
    )
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"0.95", "full", "1", "2", "relative quality"} <= texts
    html = written.html.read_text(encoding="utf-8")
    assert "figures/freezing.svg" in html
    assert "Training 1 layer of 2 kept at least 0.95 of full" in html
    assert "Tied weights count once" in html


def test_the_terminal_says_how_few_layers_suffice(tmp_path: Path) -> None:
    write_study(tmp_path, **UNITS)
    assert (
        "Training 1 layer of 2 kept at least 0.95 of full's macro-F1 on test: freeze:layers=1 keeps 0.988 "
        "(mean of 3 seeds, not tested)."
    ) in shown(tmp_path)


def test_a_point_that_falls_short_below_one_that_suffices_is_named(tmp_path: Path) -> None:
    write_study(tmp_path, methods=tuple(SCORES), scores={**SCORES, "freeze:layers=1": [0.4], "freeze:layers=2": [0.9]})
    assert "Training the head alone kept at least 0.95 of full" in shown(tmp_path)
    assert "although freeze:layers=1 keeps less." in shown(tmp_path)


def test_no_point_that_suffices_is_said(tmp_path: Path) -> None:
    write_study(tmp_path, methods=tuple(SCORES), scores={**SCORES, "freeze:layers=1": [0.72, 0.756, 0.684]})
    text = "No measured point keeps 0.95 of full's macro-F1 on test; the nearest, freeze:layers=1, keeps 0.900."
    assert text in shown(tmp_path)


@pytest.mark.parametrize(
    ("names", "frozen"),
    [
        (("head", "freeze:layers=1", "full"), [1, 2]),
        (("full", "head", "freeze:layers=2", "freeze:layers=0"), [0, 2]),
        (("full", "head"), None),
        (("freeze:layers=1", "head"), None),
        (("full", "head", "gradual:every=40", "freeze:layers=1+layerwise-lr:decay=0.9", "a-stranger:x=1"), None),
    ],
)
def test_points_given_by_hand_make_a_curve_in_whatever_order(
    names: tuple[str, ...], frozen: list[int] | None, tmp_path: Path
) -> None:
    curve = curve_of(tmp_path, methods=names, scores={name: [0.8, 0.7] for name in names})
    assert (None if curve is None else [point.frozen for point in curve.points]) == frozen
    written = write_report(tmp_path, all_sections=True)
    assert any(path.name == "freezing.svg" for path in written.figures) == (frozen is not None)


def test_an_unfinished_study_compares_what_both_have_finished(tmp_path: Path) -> None:
    curve = curve_of(tmp_path, scores={"full": [0.8, 0.4], "freeze:layers=1": [0.8], "freeze:layers=2": [0.4, 0.2]})
    assert curve is not None
    assert [point.quality for point in curve.points] == pytest.approx([1.0, 0.5])
    assert curve_of(tmp_path / "one", scores={"full": [0.8], "freeze:layers=1": [0.8]}) is None


@pytest.mark.parametrize("full", [[0.0, 0.0, 0.0], [-0.1, 0.05, -0.02]], ids=["zero", "negative"])
def test_a_reference_of_zero_or_less_has_no_shares(full: list[float], tmp_path: Path, recwarn: Any) -> None:
    write_study(tmp_path, methods=tuple(SCORES), scores={**SCORES, "full": full}, metric="matthews_correlation")
    written = write_report(tmp_path, all_sections=True)
    assert not any(path.name == "freezing.svg" for path in written.figures)
    assert "Relative quality is undefined: full scored" in shown(tmp_path)
    assert "a share of a score is meaningful only above 0" in written.html.read_text(encoding="utf-8")
    assert [row["relative_quality"] for row in rows(tmp_path)] == ["", "", ""]
    assert rows(tmp_path)[1]["saved_8_tasks_model"] != ""
    assert not recwarn.list


def test_points_below_zero_have_a_quality_below_zero(tmp_path: Path) -> None:
    scores = {**SCORES, "freeze:layers=2": [-0.08, -0.08, -0.08]}
    curve = curve_of(tmp_path, scores=scores, metric="matthews_correlation")
    assert curve is not None
    assert curve.points[1].quality == pytest.approx(-0.1)
    assert "2 of 2 | −8.0 ± 0.0 | −0.100 ± 0.000" in _markdown(tmp_path)


def test_errors_are_turned_over_so_that_less_than_1_is_always_worse(tmp_path: Path) -> None:
    scores = {"full": [0.2, 0.4], "freeze:layers=1": [0.25, 0.35], "freeze:layers=2": [0.6, 0.6]}
    curve = curve_of(tmp_path, scores=scores, metric="mse", metric_higher_is_better=False)
    assert curve is not None
    assert [point.quality for point in curve.points] == pytest.approx([1.0, 0.5])
    assert curve.points[0].ratios == pytest.approx((1.2, 0.3 / 0.35))
    assert "score of full over its own" in write_report(tmp_path, all_sections=True).html.read_text(encoding="utf-8")


def test_an_error_of_zero_has_no_ratio(tmp_path: Path) -> None:
    scores = {"full": [0.2, 0.4], "freeze:layers=1": [0.0, 0.35], "freeze:layers=2": [0.6, 0.6]}
    curve = curve_of(tmp_path, scores=scores, metric="mse", metric_higher_is_better=False)
    assert curve is not None
    assert [point.quality for point in curve.points] == [None, pytest.approx(0.5)]
    assert "1 of 2 | 0.175" in _markdown(tmp_path)


def test_no_common_seed_is_said(tmp_path: Path) -> None:
    write_study(tmp_path, **UNITS)
    for path in [*tmp_path.glob("runs/method-0/seed-[12]"), *tmp_path.glob("runs/method-[12]/seed-0")]:
        (path / "scores.json").unlink()
    assert "is undefined: no point shares a finished seed with full" in shown(tmp_path)
    assert "freezing.svg" not in {path.name for path in write_report(tmp_path, all_sections=True).figures}


def test_without_any_readable_plan_there_is_no_curve_and_still_a_report(tmp_path: Path) -> None:
    write_study(tmp_path, **UNITS)
    for path in tmp_path.glob("runs/*/seed-*/plan.yaml"):
        path.write_text("groups: [")
    assert not any("freezing" in path.name for path in write_report(tmp_path, all_sections=True).tables)


def test_24_layers_fit(tmp_path: Path, recwarn: Any) -> None:
    names = ("full", *(f"freeze:layers={count}" for count in range(1, 25)))
    write_study(tmp_path, methods=names, scores={name: [0.8, 0.7] for name in names})
    grow(tmp_path, 24, embeddings=52, layer=12, head=1)
    write_report(tmp_path, all_sections=True)
    root = ElementTree.parse(tmp_path / "figures" / "freezing.svg").getroot()
    ticks = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"full", "2", "12", "24"} <= ticks
    assert "23" not in ticks
    assert not recwarn.list


def _markdown(folder: Path) -> str:
    write_report(folder, all_sections=True)
    return (folder / "tables" / "freezing.md").read_text(encoding="utf-8")


def _page(folder: Path) -> str:
    return write_report(folder, all_sections=True).html.read_text(encoding="utf-8")
