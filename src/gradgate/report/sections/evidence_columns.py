"""The columns of the tables of evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gradgate.report import formats
from gradgate.report.formats import MINUS, NONE
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Entry, Raw, fields_of, interval_fields
from gradgate.statistics import BootstrapInterval, Comparison, Evidence

_UNPAIRED = {"failed": "failed", "missing": "not finished", "paused": "paused"}  # the worst first


@dataclass(frozen=True)
class EvidenceRow:
    """One arm with the tests against the reference; None for the reference itself."""

    arm: ArmSummary
    evidence: Evidence | None
    around: BootstrapInterval | None = None

    @property
    def comparison(self) -> Comparison | None:
        return self.evidence.comparison if self.evidence else None

    @property
    def bootstrap(self) -> BootstrapInterval | None:
        return self.evidence.bootstrap if self.evidence else None


def value_of(value: Callable[[Evidence], Raw]) -> Callable[[EvidenceRow], Raw]:
    """Return an accessor of the evidence that is empty for the reference."""
    return lambda row: None if row.evidence is None else value(row.evidence)


def shown_of(show: Callable[[Evidence], Entry]) -> Callable[[EvidenceRow], Entry]:
    """Return the same for what is shown."""
    return lambda row: Entry(NONE) if row.evidence is None else show(row.evidence)


def lost_columns(study: StudySummary) -> tuple[Column[EvidenceRow], ...]:
    lost = {arm.name: _lost(study, arm) for arm in study.arms}

    def pairs(row: EvidenceRow) -> Entry:
        found = lost[row.arm.name]
        why = ", ".join(f"{found[status]} {word}" for status, word in _UNPAIRED.items() if found[status])
        number = row.arm.score.n if row.arm.versus is None else row.arm.versus.n
        return Entry(f"{number} of {len(row.arm.cells)}", number, f"({why})" if why else "")

    return (
        Column("pairs", "Seeds compared", "seeds that both the method and the first one have finished", show=pairs),
        *fields_of(lambda row: lost[row.arm.name], _UNPAIRED),
    )


def _lost(study: StudySummary, arm: ArmSummary) -> Counter[str]:
    """Count the seeds that make no pair, by the worse of the two runs: failed, not finished, paused."""
    pairs = [{cell.state, other.state} for cell, other in zip(arm.cells, study.reference.cells, strict=True)]
    return Counter(next((status for status in _UNPAIRED if status in pair), "") for pair in pairs)


def score_columns(study: StudySummary) -> tuple[Column[EvidenceRow], ...]:
    metric = study.format

    def score(row: EvidenceRow) -> Entry:
        ends = row.arm.score.interval
        around = f"[{metric.value(ends[0])} to {metric.value(ends[1])}]" if ends else ""
        return Entry(metric.value(row.arm.score.mean), row.arm.score.mean, around)

    return (
        Column("finished", raw=lambda row: row.arm.score.n),
        Column(
            "score",
            f"Mean, {metric.label}",
            "over all finished seeds [95% t-interval]",
            show=score,
            raw=lambda row: row.arm.score.mean,
            field="mean",
        ),
        Column("sd", raw=lambda row: row.arm.score.sd),
        *_bootstrap_fields("mean", lambda row: row.around),
    )


def difference_columns(study: StudySummary) -> tuple[Column[EvidenceRow], ...]:
    metric, first = study.format, study.reference.name

    def difference(row: EvidenceRow) -> Entry:
        found = row.comparison
        if found is None:
            return Entry("reference")
        interval = f"[{metric.interval(found.interval)}]" if found.interval else ""
        return Entry(metric.difference(found.difference), found.difference, interval)

    def bootstrap(found: Evidence) -> Entry:
        around = (found.bootstrap.low, found.bootstrap.high) if found.bootstrap else None
        return Entry(metric.interval(around), around[0] if around else None)

    return (
        Column("paired_by", raw=value_of(lambda found: found.comparison.unit)),
        Column("pairs", raw=value_of(lambda found: found.comparison.n)),
        Column(
            "difference",
            f"Mean difference, {metric.label}",
            f"to {first} [95% t-interval, which assumes roughly normal differences]",
            show=difference,
            raw=value_of(lambda found: found.comparison.difference),
        ),
        Column("difference_sd", raw=value_of(lambda found: found.comparison.sd)),
        *interval_fields("difference_ci95", lambda row: row.comparison.interval if row.comparison else None),
        Column(
            "bootstrap",
            "95% bootstrap",
            "interval of the mean difference (BCa); too narrow for few pairs",
            show=shown_of(bootstrap),
        ),
        *_bootstrap_fields("difference", lambda row: row.bootstrap),
    )


def test_columns() -> tuple[Column[EvidenceRow], ...]:
    return (
        _statistic("t", "t", "statistic of the t-test", lambda found: found.comparison.t),
        Column(
            "p",
            "p, t-test",
            "two-sided, not corrected (after Holm's correction over the methods)",
            show=shown_of(lambda found: _p_entry(found.comparison.p, found.p_holm)),
            raw=value_of(lambda found: found.comparison.p),
        ),
        Column("p_holm", raw=value_of(lambda found: found.p_holm)),
        Column(
            "wilcoxon",
            "p, Wilcoxon",
            "signed-rank test, two-sided, exact, not corrected (after Holm's correction)",
            show=shown_of(lambda found: _p_entry(found.comparison.wilcoxon_p, found.wilcoxon_holm)),
            raw=value_of(lambda found: found.comparison.wilcoxon_p),
            field="wilcoxon_p",
        ),
        Column("wilcoxon_p_holm", raw=value_of(lambda found: found.wilcoxon_holm)),
        Column(
            "effect",
            "Effect size",
            "Cohen's d_z: mean difference over its standard deviation; g: corrected for few",
            show=shown_of(lambda found: _effect(found.comparison)),
            raw=value_of(lambda found: found.comparison.cohens_d),
            field="cohens_d",
        ),
        Column("hedges_g", raw=value_of(lambda found: found.comparison.hedges_g)),
        _statistic(
            "rank_biserial",
            "Rank-biserial",
            f"effect size of Wilcoxon's test, from {MINUS}1 to 1",
            lambda found: found.comparison.rank_biserial,
        ),
    )


def last_columns() -> tuple[Column[EvidenceRow], ...]:
    return (
        Column("pairs_needed_holm", raw=value_of(lambda found: found.needed_holm)),
        Column("remark", raw=value_of(lambda found: " ".join(found.remarks) or None)),
    )


def _statistic(key: str, title: str, about: str, of: Callable[[Evidence], float | None]) -> Column[EvidenceRow]:
    return Column(
        key, title, about, show=shown_of(lambda found: Entry(formats.decimal(of(found)), of(found))), raw=value_of(of)
    )


def _bootstrap_fields(
    prefix: str, of: Callable[[EvidenceRow], BootstrapInterval | None]
) -> tuple[Column[EvidenceRow], ...]:
    def ends(row: EvidenceRow) -> tuple[float, float] | None:
        interval = of(row)
        return (interval.low, interval.high) if interval else None

    def how(row: EvidenceRow) -> Raw:
        interval = of(row)
        return interval.method if interval else None

    return (*interval_fields(f"{prefix}_bootstrap95", ends), Column(f"{prefix}_bootstrap_method", raw=how))


def _effect(comparison: Comparison) -> Entry:
    g = "" if comparison.hedges_g is None else f"(g {formats.decimal(comparison.hedges_g)})"
    return Entry(formats.decimal(comparison.cohens_d), comparison.cohens_d, g)


def _p_entry(p: float | None, corrected: float | None) -> Entry:
    return Entry(formats.p_value(p), p, "" if corrected is None else f"(Holm {formats.p_value(corrected)})")


def needed_entry(row: EvidenceRow) -> Entry:
    found = row.evidence
    if found is None or found.comparison.cohens_d is None:
        return Entry(NONE)
    plain, corrected = ("> 1 M" if pairs is None else f"{pairs}" for pairs in (found.needed, found.needed_holm))
    return Entry(plain, found.needed, f"({corrected} with Holm)" if corrected != plain else "")
