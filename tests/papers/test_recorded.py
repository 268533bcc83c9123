"""Numbers of studies as CSV files: claims are checked on them as on the studies themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate.errors import DataError, RunError
from gradgate.papers.check import check_studies, numbers_in, record_studies
from gradgate.papers.claims.numbers import Key, Numbers, Place
from gradgate.papers.recorded import read_numbers, write_numbers
from gradgate.printable import visible
from gradgate.settings.arms.recorded import arm_name
from support.study_folder import write_study

PLACE = Place("mBERT", "XNLI", "1000")
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8"), min_size=1).map(visible)  # control characters become pictures


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    scores = {"full": (0.7, 0.71, 0.72), "freeze:layers=1": (0.5, 0.52, 0.51), "graddrop:p=0.2": (0.8, 0.7, 0.75)}
    write_study(folder, methods=tuple(scores), scores=scores)
    return folder


def test_a_file_gives_the_verdicts_of_its_study(study: Path, tmp_path: Path) -> None:
    record_studies([study], tmp_path / "numbers.csv")
    on_study, on_file = ([found.record() | {"source": ""} for found in check_studies([path])] for path in
                         (study, tmp_path / "numbers.csv"))  # fmt: skip
    assert on_file == on_study
    assert any(found["arms"] for found in on_file)


def test_the_files_of_a_folder_are_checked_together_and_folders_below_it_apart(study: Path, tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    for name in ("real", "sample"):
        (recorded / name).mkdir(parents=True)
        record_studies([study], recorded / name / "numbers.csv")
    found = check_studies([recorded], "elsa")
    assert {verdict.source for verdict in found} == {str(recorded / "real"), str(recorded / "sample")}
    (alone,) = (verdict for verdict in check_studies([study], "elsa") if verdict.claim.id == "E2")
    assert [verdict.outcome for verdict in found if verdict.claim.id == "E2"] == [alone.outcome] * 2
    assert [verdict.parts for verdict in found if verdict.claim.id == "E2"] == [
        (str(recorded / name / "numbers.csv"),) for name in ("real", "sample")
    ]


def test_two_sizes_of_a_stand_in_are_compared_although_a_task_of_the_paper_is_there(tmp_path: Path) -> None:
    """A5 compares two training sets of one task: no study has both here, and ACL-ARC, of the paper, has one."""
    small, large, other = Place("MiniLM", "sst2", "1000"), Place("MiniLM", "sst2", "5000"), Place("MiniLM", "acl_arc")
    for place, gain in ((small, 3), (large, 1), (other, 9)):
        scores = {Key(place, name, "en"): {0: 80 + more, 1: 81 + more, 2: 83 + 1.1 * more}
                  for name, more in (("Fine-tune", 0), ("Adapter-64", gain))}  # fmt: skip
        numbers = Numbers(scores, False, stand_in=place is not other)
        write_numbers({"study": {"adaptereff": numbers}}, tmp_path / f"{place.task}-{place.size}.csv")
    (found,) = (verdict for verdict in check_studies([tmp_path], "adaptereff") if verdict.claim.id == "A5")
    assert "Adapter-64 - Fine-tune at 1000, minus at 5000 = 2.07" in found.outcome.findings[0].text
    assert [Path(part).name for part in found.parts] == ["sst2-1000.csv", "sst2-5000.csv"]


def test_tasks_of_the_paper_and_tasks_that_stand_in_for_them_have_a_verdict_each(tmp_path: Path) -> None:
    for task, gain in (("acl_arc", -9), ("sst2_sentences", 9)):
        scores = {
            Key(Place("MiniLM", other), name, "en"): {0: 60 + more, 1: 61 + more, 2: 63 + 1.1 * more}
            for name, more in (("Fine-tune", 0), ("Adapter-256", gain))
            for other in (task, "chemprot", "scierc")
        }
        numbers = Numbers(scores, False, stand_in=task != "acl_arc")
        write_numbers({"study": {"adaptereff": numbers}}, tmp_path / f"{task}.csv")
    found = [verdict for verdict in check_studies([tmp_path], "adaptereff") if verdict.claim.id == "A2"]
    assert [(verdict.stand_in, verdict.outcome.state) for verdict in found] == [(False, "fails"), (True, "cannot tell")]
    assert [Path(*verdict.parts).name for verdict in found] == ["acl_arc.csv", "sst2_sentences.csv"]
    assert [verdict.record()["stand_in"] for verdict in found] == [False, True]


def test_numbers_of_one_paper_alone_are_recorded(study: Path, tmp_path: Path) -> None:
    record_studies([study], tmp_path / "numbers.csv", "elsa")
    assert list(read_numbers(tmp_path / "numbers.csv")) == ["elsa"]


@given(
    values=st.dictionaries(st.integers(0, 1000), FINITE, min_size=1),
    label=TEXT,
    arms=st.lists(TEXT.map(arm_name), min_size=1, unique=True),  # earlier names are read as those of this version
    note=TEXT,
    stand_in=st.booleans(),
)
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    values: dict[int, float],
    label: str,
    arms: list[str],
    note: str,
    stand_in: bool,
) -> None:
    file = tmp_path_factory.getbasetemp() / "numbers.csv"
    key = Key(PLACE, label, "avg")
    numbers = Numbers({key: values}, False, stand_in, (note,), {key: tuple(arms)})
    write_numbers({"study": {"fun": numbers}}, file)
    found = read_numbers(file)["fun"]
    assert (found.scores, found.stand_in, found.notes, found.arms) == (
        numbers.scores,
        stand_in,
        (note,),
        {key: tuple(arms)},
    )


def test_a_damaged_line_is_named(study: Path, tmp_path: Path) -> None:
    file = tmp_path / "numbers.csv"
    record_studies([study], file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1].replace(",0,", ",many,", 1)]))
    with pytest.raises(DataError, match=r"numbers.csv, line 2: seed: expected a whole number, got 'many'"):
        read_numbers(file)


def test_a_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_text("method,score\nfull,1\n")
    with pytest.raises(DataError, match=r"has no column paper, study.* --record FILE"):
        numbers_in(file)


def test_a_study_without_finished_runs_has_nothing_to_record(tmp_path: Path) -> None:
    write_study(tmp_path / "study", methods=("full",))
    with pytest.raises(RunError, match="has no finished run"):
        record_studies([tmp_path / "study"], tmp_path / "numbers.csv")
    assert not (tmp_path / "numbers.csv").exists()
