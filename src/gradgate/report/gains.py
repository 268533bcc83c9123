"""A study of several languages, tasks or models: each method's score on each, averages, gains on the reference."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.tables import Column, Entry, Raw, Table, ranked, significance, star_note
from gradgate.study.results import DEV, LANGUAGE
from gradgate.study.statistics import Comparison, compare_paired, holm, summarize
from gradgate.tasks.averages import ALL, DISTANT, ZERO_SHOT, average_label

_TEST = "two-sided paired t-test over seeds, Holm-corrected over this table"
_FIRST = (ZERO_SHOT, ALL, DISTANT)


@dataclass(frozen=True)
class Gain:
    """A method's score on one split, and its differences to the reference's, paired by seed.

    ``relative`` is the mean difference over the mean score of the reference; None where there is none.
    """

    n: int
    mean: float | None
    sd: float | None
    versus: Comparison
    relative: float | None

    @property
    def difference(self) -> float | None:
        """The mean of the paired differences; None without pairs."""
        return self.versus.difference


def gain_splits(findings: Findings) -> tuple[str, ...]:
    """The averages that the study has, then its splits by language, the source's first; or by task or model."""
    results = findings.results
    if results.parts:
        return (*results.averages, *results.test_splits)
    source = results.study.task.source
    spoken = [split for split in (DEV, *results.test_splits) if results.language(split) != split]
    # Dev selected the checkpoint; it is shown where the other languages are scored on theirs.
    shown = [split for split in spoken if split != DEV or any(name.startswith(f"{DEV}.") for name in spoken)]
    ordered = sorted(shown, key=lambda split: results.language(split) != source)
    return (*(name for name in _FIRST if name in results.averages), *ordered)


def gain_table(findings: Findings) -> Table:
    """One row a language (task, model), the averages first; one column a method, with its gain on the first."""
    unit, metric, first = row_unit(findings).capitalize(), findings.format, findings.reference
    higher = findings.results.study.task.metric_higher_is_better
    splits = gain_splits(findings)
    gains = {(split, method.name): gain(findings, method, split) for split in splits for method in findings.methods}
    compared = [key for key in gains if key[1] != first.name]
    corrected = dict(zip(compared, holm([gains[key].versus.p for key in compared]), strict=True))
    better = f"mean ± standard deviation over seeds (mean of the differences to {first.name}, paired by seed)"
    columns = (
        Column("unit", unit, numeric=False),
        *(
            Column(method.name, method.name, "mean ± standard deviation over seeds" if method is first else better)
            for method in findings.methods
        ),
    )
    return Table(
        f"{row_unit(findings)}s",
        f"{unit}s: {metric.label}",
        columns,
        tuple(
            (
                Entry(name(findings, split), name(findings, split)),
                *ranked([_entry(gains[key], metric, corrected.get(key), key[1] == first.name) for key in row], higher),
            )
            for split in splits
            for row in [[(split, method.name) for method in findings.methods]]
        ),
        tuple(
            _record(findings, split, method, gains[split, method.name])
            for method in findings.methods
            for split in splits
        ),
        notes=star_note(list(corrected.values()), _TEST),
    )


def row_unit(findings: Findings) -> str:
    """What a row is; the files of these tables and figures are named after it, in the plural."""
    return findings.results.split_unit if findings.results.parts else LANGUAGE


def gain(findings: Findings, method: MethodFindings, split: str) -> Gain:
    """What a method scored on a split, over its seeds, against the reference."""
    ours, theirs = (
        {cell.seed: score for cell in m.finished if (score := cell.score(split)) is not None}
        for m in (method, findings.reference)
    )
    summary, versus = summarize(list(ours.values())), compare_paired(ours, theirs)
    base = [theirs[seed] for seed in ours.keys() & theirs.keys()]
    known = versus.difference is not None and sum(base) != 0
    relative = versus.difference * len(base) / sum(base) if known and versus.difference is not None else None
    return Gain(summary.n, summary.mean, summary.sd, versus, relative)


def name(findings: Findings, split: str) -> str:
    """A language's code, or an average's name; the source language says that it is one."""
    language = findings.results.language(split)
    if language == findings.results.study.task.source and language != split:
        return f"{language} ({DEV if split == DEV else 'source'})"
    return average_label(language)


def _entry(gain: Gain, metric: ScoreFormat, p: float | None, is_reference: bool) -> Entry:
    if gain.mean is None:
        return Entry(NONE)
    known = not is_reference and gain.difference is not None
    against = f"({metric.difference(gain.difference)}{significance(p)})" if known else ""
    return Entry(metric.with_spread(gain.mean, gain.sd), gain.mean, against)


def _record(findings: Findings, split: str, method: MethodFindings, gain: Gain) -> dict[str, Raw]:
    results = findings.results
    single = None if split in results.averages else results.language(split)
    return {
        "method": method.name,
        "split": split,
        **({results.split_unit: single} if results.parts else {"language": single}),
        "metric": findings.format.metric,
        "n": gain.n,
        "mean": gain.mean,
        "sd": gain.sd,
        "reference": findings.reference.name,
        "difference": gain.difference,
        "relative_difference": gain.relative,
        "t": gain.versus.t,
        "p": gain.versus.p,
    }
