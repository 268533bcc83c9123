"""Check the papers' claims on the numbers that the papers print, and on studies and reproductions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.papers.claims import Claim, ClaimCheck, ClaimOutcome, check, claims
from gradgate.papers.claims.collapsed import without_collapsed
from gradgate.papers.claims.numbers import Numbers, printed, together
from gradgate.papers.preset import presets
from gradgate.papers.published import papers
from gradgate.papers.recorded import SUFFIX, read_numbers, record_folders, recorded_files, write_numbers


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim and what one source of numbers says about it.

    Attributes:
        source: studies, a folder of their recorded numbers, or tables of the paper.
        notes: what a reader of the numbers must know.
        parts: the studies or files of a source whose numbers were taken together.
        stand_in: whether they are on tasks that stand in for the paper's. If a source has both, each has a verdict.
        generated: whether they are on generated tasks, which have a verdict of their own too.
        without_collapsed: the outcome without collapsed runs; None if it is the same.
    """

    claim: Claim
    outcome: ClaimOutcome
    source: str
    notes: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    stand_in: bool = False
    generated: bool = False
    without_collapsed: ClaimOutcome | None = None

    @property
    def tasks(self) -> str:
        """The tasks of the numbers, in words."""
        if self.generated:
            return "generated tasks"
        return "other tasks" if self.stand_in else "the paper's tasks"

    @property
    def checked(self) -> bool:
        """Whether the source had anything to compare."""
        return any(finding.compared for finding in self.outcome.findings)

    @property
    def arms(self) -> dict[str, list[str]]:
        """The labels that were compared, each with the arms that were run for it; empty for printed numbers."""
        found: dict[str, list[str]] = {}
        for label, arm in dict.fromkeys(pair for finding in self.outcome.findings for pair in finding.arms):
            found.setdefault(label, []).append(arm)
        return found

    @property
    def changed_without_collapsed(self) -> tuple[ClaimCheck, ...]:
        """The findings without collapsed runs that differ from those with them, with another state first."""
        if self.without_collapsed is None:
            return ()
        states = {_quantity(finding): finding.state for finding in self.outcome.findings}
        changed = [f for f in self.without_collapsed.findings if f not in self.outcome.findings]
        return tuple(sorted(changed, key=lambda finding: states.get(_quantity(finding)) == finding.state))

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "claim": self.claim.id,
            "paper": self.claim.paper,
            "wording": self.claim.wording,
            "source": self.source,
            "stand_in": self.stand_in,
            "state": self.outcome.state,
            "rule": self.outcome.rule,
            "findings": _findings(self.outcome),
            "without_collapsed": None
            if self.without_collapsed is None
            else {"state": self.without_collapsed.state, "findings": _findings(self.without_collapsed)},
            "arms": self.arms,
            "notes": list(self.notes),
        }


def _quantity(finding: ClaimCheck) -> str:
    """Return what a finding is about, without its numbers."""
    return finding.test.what if finding.test is not None else finding.found.partition(" = ")[0]


def _findings(outcome: ClaimOutcome) -> list[dict[str, str]]:
    return [{"state": finding.state, "text": finding.text} for finding in outcome.findings]


def check_printed(paper: str | None = None) -> list[ClaimVerdict]:
    """Check every claim on the numbers that its paper prints; a claim without printed numbers stays undecided."""
    return [
        ClaimVerdict(claim, check(claim, printed(source)), _tables(source))
        for claim in claims(paper)
        for source in claim.sources or ((),)
    ]


def check_studies(folders: Sequence[Path], paper: str | None = None) -> list[ClaimVerdict]:
    """Check every claim of one paper, or of all, on several studies, reproductions and files of their numbers.

    A folder of such files is one source: claims are checked on all of them together. Claims that none of the sources
    can check alone, such as one that compares methods of two presets, are checked on all sources together; these
    verdicts come last.

    Raises:
        RunError: if a folder is neither.
    """
    sources = [source for folder in folders for source in record_folders(folder) or [folder]]
    numbers = [(source, [numbers_in(each, paper) for each in recorded_files(source) or [source]]) for source in sources]
    verdicts = [
        verdict
        for source, parts in numbers
        for key in papers()
        if (own := [by_paper[key] for by_paper in parts if key in by_paper])
        for verdict in _check(claims(key), own, str(source))
    ]
    checked = {verdict.claim.id for verdict in verdicts if verdict.checked}
    for key in papers():
        named = [(source, by_paper[key]) for source, parts in numbers for by_paper in parts if key in by_paper]
        if len(dict(named)) > 1:
            source = " and ".join(dict.fromkeys(str(source) for source, _ in named))
            open_claims = [claim for claim in claims(key) if claim.id not in checked]
            joined = _check(open_claims, [found for _, found in named], source)
            verdicts += [verdict for verdict in joined if verdict.checked]
    return verdicts


def record_studies(folders: Sequence[Path], file: Path, paper: str | None = None) -> None:
    """Write the numbers of studies and reproductions as CSV, which the checks accept in their place.

    Args:
        paper: under whose labels; None for those of each paper.

    Raises:
        RunError: if a folder is neither, or has none of the numbers; or if the file cannot be written.
        UsageError: if a folder is named twice.
    """
    studies = {str(folder): numbers_in(folder, paper) for folder in folders}
    lacking = [name for name, papers_of in studies.items() if not any(found.scores for found in papers_of.values())]
    if lacking:
        raise RunError(f"{', '.join(lacking)} has no finished run, so there are no numbers to write to {file}.")
    write_numbers(dict(zip(_short_names(folders), studies.values(), strict=True)), file)


def _short_names(folders: Sequence[Path]) -> list[str]:
    """Return the names of folders, with as many of their parents as tell them apart."""
    whole = [folder.resolve().parts for folder in folders]
    for kept in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-kept:]) for parts in whole]
        if len(set(names)) == len(names):
            return names
    raise UsageError(f"A study is named twice: {', '.join(map(str, folders))}. Name each once.")


def numbers_in(folder: Path, paper: str | None = None) -> dict[str, Numbers]:
    """Read the scores of a study under the labels of each paper, or of a reproduction under those of its paper.

    Args:
        folder: of the study or reproduction; or a CSV file of :func:`gradgate.papers.recorded.write_numbers`.

    Raises:
        RunError: if the folder is neither.
        DataError: if the file is not such a file.
    """
    if not folder.exists():
        raise RunError(_not_there(folder))
    if folder.suffix == SUFFIX and folder.is_file():
        found = read_numbers(folder)
        known = papers() if paper is None else (paper,)
        return {key: replace(found[key], source=str(folder)) for key in known if key in found}
    from gradgate.papers.measured import numbers_of_study  # reading studies brings scipy and matplotlib
    from gradgate.papers.reproduce import is_reproduction, read_reproduction, reproduction_with
    from gradgate.study.conditions import condition_folders
    from gradgate.study.results import read_study

    if is_reproduction(folder):
        reproduction = read_reproduction(folder)
        own = reproduction.preset.paper
        return {own: replace(reproduction.numbers(), source=str(folder))} if paper in (None, own) else {}
    parts = [read_study(part) for part in condition_folders(folder)]
    numbers = {
        key: together([numbers_of_study(key, part) for part in parts])
        for key in (papers() if paper is None else [paper])
    }
    whole = reproduction_with(folder)
    if whole is not None:  # it has the labels, the split and the metric of the table
        part = read_reproduction(whole, only=folder.name)
        numbers |= {part.preset.paper: part.numbers()} if part.preset.paper in numbers else {}
    return {key: replace(found, source=str(folder)) for key, found in numbers.items()}


def _not_there(folder: Path) -> str:
    """Explain what to do if a study is missing; its name may be that of something else."""
    name = str(folder)
    if name in presets():
        return (
            f"{name} is a preset, not a study. Run it with `gradgate reproduce {name}`, then pass the folder it writes."
        )
    if name.lower() in papers():
        return f"{name} is a paper, not a study. List it with `gradgate papers --paper {name.lower()}`."
    return f"There is no folder {name}. Expected one that `gradgate compare` or `gradgate reproduce` made."


def _check(asked: Iterable[Claim], parts: Sequence[Numbers], source: str) -> list[ClaimVerdict]:
    """Check claims on the parts of a source; verdicts on tasks that stand in for the paper's come last."""
    found = []
    for claim in asked:
        for used in _groups(claim, parts):
            numbers = together(used) if len(used) > 1 else used[0]
            names = tuple(part.source for part in used)
            outcome, steady = check(claim, numbers), without_collapsed(numbers)
            without = outcome if steady is numbers else check(claim, steady)
            found.append(
                ClaimVerdict(
                    claim, outcome, source, numbers.notes, names, numbers.stand_in, numbers.generated,
                    None if without == outcome else without,
                )
            )  # fmt: skip
    return sorted(found, key=lambda verdict: (verdict.stand_in, verdict.generated))


def _groups(claim: Claim, parts: Sequence[Numbers]) -> list[Sequence[Numbers]]:
    """Group the parts that have what a claim compares: the paper's tasks, stand-ins, and generated ones; else all."""
    if len(parts) == 1:
        return [parts]
    kinds: dict[tuple[bool, bool], list[Numbers]] = {}
    for part in parts:
        kinds.setdefault((part.stand_in, part.generated), []).append(part)
    return [_used(claim, group) for _, group in sorted(kinds.items()) if _compares(claim, group)] or [parts]


def _used(claim: Claim, group: Sequence[Numbers]) -> Sequence[Numbers]:
    """Return the parts that have what a claim compares by themselves, else all; without those that change nothing."""
    parts = [part for part in group if _compares(claim, [part])] or group
    outcome = check(claim, together(parts))
    without = ((part, [other for other in parts if other is not part]) for part in parts)
    needed = [part for part, others in without if check(claim, together(others)) != outcome]
    return needed if needed and check(claim, together(needed)) == outcome else parts


def _compares(claim: Claim, parts: Sequence[Numbers]) -> bool:
    return any(finding.compared for finding in check(claim, together(parts)).findings)


def _tables(source: tuple[str, ...]) -> str:
    if not source:
        return "not printed"
    more = len(source) - 1
    return source[0] if not more else f"{source[0]} and {more} table{'s' * (more > 1)} more"
