"""The tables of evidence: what every test says of each method, over seeds and over test splits, and what it cannot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gradgate.report import formats
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import MINUS, NONE, ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.sections.t_statistics import scores_by_split
from gradgate.report.table import Column, Entry, Raw, Table
from gradgate.statistics import BootstrapInterval, Evidence, bootstrap_interval, compare_over, weigh
from gradgate.study.results import COMBINATION, LANGUAGE, SIZE

_SHARED = {
    LANGUAGE: "; languages share their models, so that the tests speak of these languages, not of other seeds",
    COMBINATION: "; combinations share tasks and models, and are no independent pairs",
    SIZE: "; training sizes share their rows, and are no independent pairs",
}
_TESTS = (
    Column("t", "t", "statistic of the paired t-test"),
    Column("p", "p, t-test", "two-sided, not corrected (after Holm's correction over the methods)"),
    Column("wilcoxon", "p, Wilcoxon", "signed-rank test, two-sided, exact, not corrected (after Holm's correction)"),
    Column("effect", "Effect size", "Cohen's d_z: mean difference over its standard deviation; g: corrected for few"),
    Column("ranks", "Rank-biserial", f"effect size of Wilcoxon's test, from {MINUS}1 to 1"),
)


_UNPAIRED = ("failed", "missing", "paused")  # the worst first


@dataclass(frozen=True)
class EvidenceSection(Section):
    """Tests, intervals and effect sizes."""

    @classmethod
    def find(cls, findings: Findings) -> EvidenceSection | None:
        """None if there is nothing to compare."""
        return cls(findings) if len(findings.methods) > 1 and findings.scored else None

    def tables(self) -> list[Table]:
        """Paired by seed, and by test split where there are several."""
        tables = [seed_statistics(self.findings)]
        return [*tables, split_statistics(self.findings)] if len(self.findings.results.test_splits) > 1 else tables


def seed_statistics(findings: Findings) -> Table:
    """One row a method: its score, its difference to the first method over common seeds, and every test of that."""
    evidence = weigh([method.versus for method in findings.methods if method.versus])
    around = [bootstrap_interval(method.score.values) for method in findings.methods]
    columns = (
        Column("method", "Method", numeric=False),
        Column(
            "pairs", "Seeds compared", "seeds that the method and the first one have both finished, of those planned"
        ),
        Column("score", f"Mean, {findings.format.label}", "over all finished seeds [95% bootstrap interval]"),
        *_difference_columns(findings),
        *_TESTS,
        Column(
            "needed",
            "Seeds needed",
            "to find an effect of the observed size at p < 0.05 with 80% power, by a paired t-test; a size that few "
            "seeds measured is uncertain, and this number with it",
        ),
    )
    rows = [_score_row(findings, *pair) for pair in zip(findings.methods, around, strict=True)]
    records = [_score_record(findings, *pair) for pair in zip(findings.methods, around, strict=True)]
    rows[0]["difference"] = Entry("reference")
    for row, record, found in zip(rows[1:], records[1:], evidence, strict=True):
        row |= _evidence_row(findings.format, found)
        record |= _evidence_record(found)
    title = f"Statistics: differences to {findings.reference.name}, paired by seed"
    notes = _notes([method.name for method in findings.methods[1:]], evidence)
    return Table("statistics", title, columns, _in_order(columns, rows), tuple(records), notes=notes)


def split_statistics(findings: Findings) -> Table:
    """The same with test splits as pairs, each with its mean over the seeds that both methods have."""
    splits, reference = findings.results.test_splits, findings.reference
    unit, scores = findings.results.split_unit, scores_by_split(reference, splits)
    evidence = weigh([compare_over(unit, scores_by_split(m, splits), scores) for m in findings.methods[1:]])
    columns = (
        Column("method", "Method", numeric=False),
        Column(
            "pairs",
            f"{unit.capitalize()}s compared",
            f"a pair is two means over common seeds{_SHARED.get(unit, '')}",
        ),
        *_difference_columns(findings),
        *_TESTS,
    )
    rows: list[dict[str, Entry]] = []
    records: list[dict[str, Raw]] = []
    for method, found in zip(findings.methods[1:], evidence, strict=True):
        pairs = Entry(f"{found.comparison.n} of {len(splits)}", found.comparison.n)
        row = {"method": Entry(method.name, method.name), "pairs": pairs}
        rows.append(row | _evidence_row(findings.format, found))
        record: dict[str, Raw] = {"method": method.name, "reference": reference.name, "planned": len(splits)}
        records.append(record | _evidence_record(found))
    title = f"Statistics: differences to {reference.name}, paired by {unit}"
    notes = _notes([method.name for method in findings.methods[1:]], evidence)
    return Table("statistics-splits", title, columns, _in_order(columns, rows), tuple(records), notes=notes)


def _notes(methods: list[str], evidence: list[Evidence]) -> tuple[str, ...]:
    """What the tests cannot say, each sentence once, with the methods that it is for unless it is for all."""
    said: dict[str, list[str]] = {}
    for name, found in zip(methods, evidence, strict=True):
        for remark in found.remarks:
            said.setdefault(remark, []).append(name)
    return tuple(
        remark if names == methods else f"{formats.listed(names)}: {remark[0].lower()}{remark[1:]}"
        for remark, names in said.items()
    )


def _in_order(columns: tuple[Column, ...], rows: list[dict[str, Entry]]) -> tuple[tuple[Entry, ...], ...]:
    return tuple(tuple(row.get(column.key, Entry(NONE)) for column in columns) for row in rows)


def _difference_columns(findings: Findings) -> tuple[Column, ...]:
    metric = findings.format.label
    return (
        Column(
            "difference",
            f"Mean difference, {metric}",
            f"to {findings.reference.name} [95% t-interval, which takes the differences as roughly normal]",
        ),
        Column("bootstrap", "95% bootstrap", "interval of the mean difference (BCa); too narrow for few pairs"),
    )


def _score_row(findings: Findings, method: MethodFindings, around: BootstrapInterval | None) -> dict[str, Entry]:
    metric, score = findings.format, method.score
    lost = _lost(findings, method)
    words = {"failed": "failed", "missing": "not finished", "paused": "paused"}
    why = ", ".join(f"{number} {words[status]}" for status, number in lost.items() if number)
    pairs = method.score.n if method.versus is None else method.versus.n
    return {
        "method": Entry(method.name, method.name),
        "pairs": Entry(f"{pairs} of {len(method.cells)}", pairs, f"({why})" if why else ""),
        "score": Entry(
            metric.value(score.mean),
            score.mean,
            f"[{metric.value(around.low)} to {metric.value(around.high)}]" if around else "",
        ),
    }


def _lost(findings: Findings, method: MethodFindings) -> dict[str, int]:
    """The seeds that make no pair, by the worse of the two runs: failed, not finished, paused."""
    pairs = [{cell.state, other.state} for cell, other in zip(method.cells, findings.reference.cells, strict=True)]
    worst = Counter(next((status for status in _UNPAIRED if status in pair), "") for pair in pairs)
    return {status: worst[status] for status in _UNPAIRED}


def _score_record(findings: Findings, method: MethodFindings, around: BootstrapInterval | None) -> dict[str, Raw]:
    lost = _lost(findings, method)
    return {
        "method": method.name,
        "reference": findings.reference.name,
        "planned": len(method.cells),
        "failed": lost["failed"],
        "missing": lost["missing"],
        "paused": lost["paused"],
        "finished": method.score.n,
        "mean": method.score.mean,
        "sd": method.score.sd,
        **_bootstrap_record("mean_", around),
    }


def _evidence_row(metric: ScoreFormat, found: Evidence) -> dict[str, Entry]:
    comparison = found.comparison
    around = (found.bootstrap.low, found.bootstrap.high) if found.bootstrap else None
    g = "" if comparison.hedges_g is None else f"(g {formats.decimal(comparison.hedges_g)})"
    interval = f"[{metric.interval(comparison.interval)}]" if comparison.interval else ""
    return {
        "difference": Entry(metric.difference(comparison.difference), comparison.difference, interval),
        "bootstrap": Entry(metric.interval(around), around and around[0]),
        "t": Entry(formats.decimal(comparison.t), comparison.t),
        "p": _p_entry(comparison.p, found.p_holm),
        "wilcoxon": _p_entry(comparison.wilcoxon_p, found.wilcoxon_holm),
        "effect": Entry(formats.decimal(comparison.cohens_d), comparison.cohens_d, g),
        "ranks": Entry(formats.decimal(comparison.rank_biserial), comparison.rank_biserial),
        "needed": _needed(found),
    }


def _p_entry(p: float | None, corrected: float | None) -> Entry:
    return Entry(formats.p_value(p), p, "" if corrected is None else f"(Holm {formats.p_value(corrected)})")


def _needed(found: Evidence) -> Entry:
    if found.comparison.cohens_d is None:
        return Entry(NONE)
    plain, corrected = ("> 1 M" if pairs is None else f"{pairs}" for pairs in (found.needed, found.needed_holm))
    return Entry(plain, found.needed, f"({corrected} with Holm)" if corrected != plain else "")


def _evidence_record(found: Evidence) -> dict[str, Raw]:
    comparison = found.comparison
    low, high = comparison.interval or (None, None)
    return {
        "paired_by": comparison.unit,
        "pairs": comparison.n,
        "difference": comparison.difference,
        "difference_sd": comparison.sd,
        "difference_ci95_low": low,
        "difference_ci95_high": high,
        **_bootstrap_record("difference_", found.bootstrap),
        "t": comparison.t,
        "p": comparison.p,
        "p_holm": found.p_holm,
        "wilcoxon_p": comparison.wilcoxon_p,
        "wilcoxon_p_holm": found.wilcoxon_holm,
        "cohens_d": comparison.cohens_d,
        "hedges_g": comparison.hedges_g,
        "rank_biserial": comparison.rank_biserial,
        "pairs_needed": found.needed,
        "pairs_needed_holm": found.needed_holm,
        "remark": " ".join(found.remarks) or None,
    }


def _bootstrap_record(prefix: str, interval: BootstrapInterval | None) -> dict[str, Raw]:
    return {
        f"{prefix}bootstrap95_low": interval.low if interval else None,
        f"{prefix}bootstrap95_high": interval.high if interval else None,
        f"{prefix}bootstrap_method": interval.method if interval else None,
    }
