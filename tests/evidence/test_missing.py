"""What the evidence lacks is counted from the committed files."""

from __future__ import annotations

from evidence.limits import limits_of
from evidence.missing import missing_section
from evidence.repetition import Repetition
from evidence.studies import read_studies


def test_studies_that_were_not_repeated_or_not_searched_are_counted() -> None:
    studies = read_studies(["real-freezing-bc5cdr", "real-freezing-cola", "real-adapters-sst2"])
    text = missing_section(studies, {"real-freezing-cola": Repetition("real-freezing-cola", 209, 210, 0)})
    elsewhere = Repetition("real-freezing-cola", 1, 210, 0, "another", 0.42)
    assert "1 of the 2 studies with a committed search was run again from a fresh clone, 0 of them on generated" in text
    assert "1 was run on the same machine; in 0 of these every number was the same" in text
    assert "No other machine has run them." in text
    text = missing_section(studies, {"real-freezing-cola": elsewhere})
    assert "Another machine ran 1" in text
    assert "means of arms moved by at most 0.42 points, and no verdict changed." in text
    assert "The search of `real-adapters-sst2` is not committed" in text
    assert sum(not limits_of(study) for study in studies) == 1
    assert (
        "Of 3 studies on real data, 2 have short training, 1 has rates at the edge and 1 has scores near guessing; 2 "
        "were changed after scores on test were known. 1 has none of these limits." in text
    )


def test_two_rates_within_a_point_on_dev_are_a_near_tie() -> None:
    # dev of CoLA: 20.8 and 20.3 at the two best rates of full fine-tuning, 16.4 and 10.1 of the adapter
    text = missing_section(read_studies(["real-adapters-glue-cola"]), {})
    assert "In 1 of 2 searches of an arm" in text
