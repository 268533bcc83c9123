"""Numbers as people read them."""

from __future__ import annotations

import pytest

from gradgate.errors import counted
from gradgate.report import formats
from gradgate.report.formats import ScoreFormat


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0000123, "12.3 µs"),
        (0.0123, "12.3 ms"),
        (0.412, "412 ms"),
        (0.9996, "1.00 s"),
        (1.2, "1.20 s"),
        (20.0, "20.0 s"),
        (59.99, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (None, "–"),
    ],
)
def test_seconds(value, text):
    assert formats.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (2307, "2.31 k"), (22_700_000, "22.7 M"), (1.2e9, "1.20 B"), (None, "–")],
)
def test_counts(value, text):
    assert formats.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(512, "512 B"), (412_000_000, "412 MB"), (999_600_000, "1.00 GB"), (5e15, "5000 TB")]
)
def test_sizes(value, text):
    assert formats.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "100 %"), (0.334, "33 %"), (0.0025, "0.25 %"), (0.0, "0 %"), (None, "–")]
)
def test_shares(value, text):
    assert formats.share(value) == text


@pytest.mark.parametrize(("p", "text"), [(0.0123, "p = 0.012"), (0.0004, "p < 0.001"), (1.0, "p = 1.000")])
def test_p_values_are_never_zero(p, text):
    assert formats.p_equation(p) == text


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "pearson", "spearman", "matthews_correlation", "f1"])
def test_shares_and_correlations_are_shown_times_100(metric):
    shown = ScoreFormat.fitting(metric)
    assert shown.value(0.7123) == "71.2"
    assert shown.label.endswith("× 100")


@pytest.mark.parametrize("metric", ["mse", "loss", "rmse", "mae", "eval_loss"])
def test_errors_are_shown_as_they_are(metric):
    shown = ScoreFormat.fitting(metric)
    assert shown.value(0.7123) == "0.712"
    assert "100" not in shown.label


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("matthews", "Matthews correlation × 100"),
        ("ndcg@10", "NDCG@10 × 100"),
        ("mse", "mean squared error"),
        ("mean", "mean over tasks × 100"),
        ("own_score", "own score × 100"),
    ],
)
def test_metrics_are_called_by_their_titles(metric, label):
    assert ScoreFormat.fitting(metric).label == label


def test_a_spread_that_one_decimal_would_hide_gets_two():
    assert ScoreFormat.fitting("accuracy", [0.02, None, 0.0]).with_spread(0.7123, 0.02) == "71.2 ± 2.0"
    assert ScoreFormat.fitting("accuracy", [0.02, 0.0004]).with_spread(0.7123, 0.0004) == "71.23 ± 0.04"


def test_differences_carry_their_sign_and_zero_has_none():
    shown = ScoreFormat.fitting("accuracy")
    assert shown.difference(0.023) == "+2.3"
    assert shown.difference(-0.023) == "−2.3"
    assert shown.difference(-0.0001) == "0.0"
    assert shown.interval((-0.004, 0.05)) == "−0.4 to +5.0"


def test_labels_are_shortened_in_the_middle():
    assert formats.shortened("graddrop:p=0.2", 14) == "graddrop:p=0.2"
    assert formats.shortened("graddrop:p=0.2", 9) == "grad…=0.2"


def test_every_part_of_a_combined_arm_stays_recognisable_in_a_short_label():
    arm = "pfeiffer:reduction=16 + fun:every=8,batches=10"
    assert formats.shortened(arm, 40) == "pfeiffer:…ction=16 + fun:every…atches=10"
    assert formats.shortened(f"{arm} + wd", 40) == "pfeiffer…tion=16 + fun:ever…ches=10 + wd"
    assert formats.shortened(arm, 16) == "pfeiffer…ches=10"


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "study", "1 study"),
        (2, "study", "2 studies"),
        (3, "run", "3 runs"),
        (2, "day", "2 days"),
        (0, "batch", "0 batches"),
        (2, "loss", "2 losses"),
    ],
)
def test_nouns_are_counted_in_their_plural(number, noun, text):
    assert counted(number, noun) == text
