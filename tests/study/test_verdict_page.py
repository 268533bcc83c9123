"""Every number of a verdict and of its power, computed again as docs/guides/verdicts.md says, with numpy and scipy."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from gradgate.statistics import multibootstrap
from gradgate.study.power import study_power
from gradgate.study.row_noise import row_verdicts
from support.study_folder import write_study

SEEDS, ROWS, MARGIN = 5, 80, 0.01
ARMS = {"full": 0.70, "head": 0.62, "bitfit": 0.69}
Array = np.ndarray[Any, np.dtype[Any]]


def rows_of() -> dict[str, Array]:
    """Return which rows each run of each arm has right, ``(seeds, rows)``."""
    draw = np.random.default_rng(5)
    ease = draw.normal(size=ROWS)
    return {
        arm: draw.normal(size=(SEEDS, 1)) * 0.2 + draw.normal(size=(SEEDS, ROWS)) + ease < 1.9 * stats.norm.ppf(right)
        for arm, right in ARMS.items()
    }


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, right = tmp_path_factory.mktemp("page") / "study", rows_of()
    scores = {arm: own.mean(axis=1).tolist() for arm, own in right.items()}
    write_study(folder, methods=tuple(ARMS), seeds=range(SEEDS), scores=scores, metric="accuracy", labels=["no", "yes"])
    for number, own in enumerate(right.values()):
        for seed, each in enumerate(own):
            file = folder / f"runs/method-{number}/seed-{seed}/predictions/test.jsonl"
            file.parent.mkdir(parents=True)
            lines = [json.dumps({"gold": "yes", "predicted": "yes" if hit else "no"}) for hit in each.tolist()]
            file.write_text("\n".join(lines) + "\n")
    return folder


def differences(arm: str) -> Array:
    right = rows_of()
    return np.asarray(right[arm].mean(axis=1) - right["full"].mean(axis=1))


def test_tests_and_intervals_are_as_the_page_says(study: Path) -> None:
    right, ps = rows_of(), {}
    for arm in ("head", "bitfit"):
        ps[arm] = float(stats.ttest_rel(right[arm].mean(axis=1), right["full"].mean(axis=1)).pvalue)
    first, last = sorted(ps, key=ps.__getitem__)
    corrected = {first: min(1.0, 2 * ps[first])}
    corrected[last] = max(corrected[first], ps[last])
    shares = {first: 0.025, last: 0.05 if ps[first] < 0.025 else 0.025}
    for record in (each.record() for each in row_verdicts(study)):
        own, arm = differences(record["arm"]), record["arm"]
        mean, error = own.mean(), stats.sem(own)
        assert record["difference"] == pytest.approx(100 * mean)
        assert record["interval"] == pytest.approx(100 * np.array(stats.t.interval(0.95, SEEDS - 1, mean, error)))
        assert record["p"] == pytest.approx(ps[arm])
        assert record["p_corrected"] == pytest.approx(corrected[arm])
        wide = stats.t.interval(1 - shares[arm], SEEDS - 1, mean, error)
        assert record["interval_corrected"] == pytest.approx(100 * np.array(wide))
        m = SEEDS - 1
        factor = special.gamma(m / 2) / (np.sqrt(m / 2) * special.gamma((m - 1) / 2))
        assert record["hedges_g"] == pytest.approx(factor * mean / own.std(ddof=1))
        assert record["word"] == _word(mean, error, corrected[arm])


def _word(mean: float, error: float, p: float) -> str:
    low, high = stats.t.interval(0.9, SEEDS - 1, mean, error)
    if p < 0.05:
        return "better" if mean > 0 else "worse"
    if low > -MARGIN:
        return "equivalent" if high < MARGIN else "non-inferior"
    return "inconclusive"


@pytest.mark.parametrize("chunk", [multibootstrap._CHUNK, 7 * ROWS])
def test_rows_are_resampled_as_the_page_says(study: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multibootstrap, "_CHUNK", chunk)
    right = rows_of()
    for record in (each.record()["rows"] | {"arm": each.arm} for each in row_verdicts(study)):
        draw, n = np.random.default_rng(0), SEEDS
        weights = draw.multinomial(n, [1 / n] * n, 1000) / n
        chosen = draw.integers(ROWS, size=(1000, ROWS))
        ours, theirs = (right[arm][:, chosen].mean(axis=2).T for arm in (record["arm"], "full"))
        own, redrawn = differences(record["arm"]), ours - theirs
        both = (weights * redrawn).sum(axis=1)
        v, v_s, v_r = both.var(), (weights @ own).var(), redrawn.mean(axis=1).var()
        c = own.var(ddof=1) / n
        e = max(c + v_r - max(0, v - v_s - v_r) * n / (n - 1), c, v_r)
        freedom = e**2 / (c**2 / (n - 1) + (e - c) ** 2 / (ROWS - 1))
        half = max(stats.t.ppf(0.975, freedom) * e**0.5, stats.t.ppf(0.975, n - 1) * c**0.5)
        assert record["interval"] == pytest.approx(100 * np.quantile(both, [0.025, 0.975]))
        assert record["error"] == pytest.approx(100 * e**0.5)
        assert record["freedom"] == pytest.approx(freedom)
        assert record["interval_t"] == pytest.approx([100 * (own.mean() - half), 100 * (own.mean() + half)])
        shares = [record[f"variance_{part}"] for part in ("seeds", "rows", "rest")]
        assert shares == pytest.approx([v_s / v, v_r / v, 1 - (v_s + v_r) / v])
        apart = [right[arm].mean(axis=1).var(ddof=1) for arm in (record["arm"], "full")]
        assert record["removed_seeds"] == pytest.approx(1 - own.var(ddof=1) / sum(apart))
        assert record["removed_rows"] == pytest.approx(1 - v_r / (ours.mean(1).var() + theirs.mean(1).var()))


def power_to_find(delta: float, s: float, n: int, level: float) -> float:
    t, d = stats.t.isf(level / 2, n - 1), delta * n**0.5 / s
    return float(stats.nct.sf(t, n - 1, d) + stats.nct.cdf(-t, n - 1, d))


def power_equivalent(s: float, n: int) -> float:
    t = stats.t.ppf(0.95, n - 1)

    def shown(u: float) -> float:
        inside = 2 * stats.norm.cdf(MARGIN * n**0.5 / s - t * u) - 1
        return max(0.0, float(inside)) * 2 * u * (n - 1) * float(stats.chi2.pdf((n - 1) * u * u, n - 1))

    return float(integrate.quad(shown, 0, 4, limit=200)[0])


def reaches(power: Any, seeds: int) -> bool:
    """Return whether this is the fewest number of seeds with 80 % power."""
    return power(seeds) >= 0.8 - 1e-4 and (seeds == 2 or power(seeds - 1) < 0.8 + 1e-4)


@pytest.mark.parametrize("place", [0, 1])
def test_power_is_as_the_page_says(study: Path, place: int) -> None:
    record = study_power(study, 100 * MARGIN)[place].record()
    own, level = differences(record["arm"]), 0.05 / 2
    s = float(own.std(ddof=1))
    ends = [s * ((SEEDS - 1) / stats.chi2.ppf(share, SEEDS - 1)) ** 0.5 for share in (0.975, 0.025)]
    assert (record["sd"], record["level"]) == pytest.approx((100 * s, level))
    assert record["sd_interval"] == pytest.approx([100 * end for end in ends])
    assert power_to_find(record["detectable"] / 100, s, SEEDS, level) == pytest.approx(0.8, abs=1e-4)
    assert reaches(lambda n: power_to_find(float(own.mean()), s, n, level), record["seeds_difference"])
    for sd, seeds in zip((s, *ends), (record["seeds_margin"], *record["seeds_margin_interval"]), strict=True):
        assert reaches(partial(power_to_find, MARGIN, sd, level=level), seeds)
    assert reaches(lambda n: power_to_find(MARGIN, s, n, 0.1), record["seeds_non_inferior"])
    assert reaches(lambda n: power_equivalent(s, n), record["seeds_equivalent"])
