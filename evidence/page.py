"""Write ``README.md`` of the evidence: every claim with its verdicts, from the committed numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evidence.arms import thread_hours
from evidence.paper_figures import figure_table
from evidence.studies import FOLDER, Study
from evidence.verdicts import AUTHORS, KINDS, Checked, lacking
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.published import papers

PAGE = FOLDER / "README.md"
_INTRODUCTION = """\
# Evidence

What the claims of four papers are worth outside of the papers. Each claim is a test
(`gradgate papers` lists them); a test has one of three answers:

- **holds** or **fails**: the 95% t interval over seeds, of what the claim compares, lies on one side of its threshold;
  that two methods are level takes a 90% interval within half a point on both sides (two one-sided tests);
- **cannot tell**: it does not, or the studies here do not have what the claim compares.

The tests of all parts of a claim are one family, with Holm's correction; the intervals are corrected alike. What is
claimed of the mean over a paper's tasks, of each of them or of most takes three. A claim about GLUE, XNLI, special
domains or one task is decided by these data alone: a task of another name decides it only if its kind is claimed (named
entities, parts of speech), and generated texts never do. A8 has one F test per learning rate.

*Printed* is the test on the paper's own numbers. *Real* is a pretrained encoder on public data sets: all-MiniLM-L6-v2
(22.7 M parameters) in English, and multilingual-e5-small (12 layers) where a study trains in English and scores other
languages. *Authors* is [the runs that the authors published](authors.md), which only those of Elsa did; every run
counts there, and nothing pairs them. *Synthetic* is the encoder that gradgate embeds, on its generated tasks in ten
languages: it shows whether a claim follows from the method on any model that transfers between languages, not whether
it holds for a large pretrained one. If studies of one kind are in part on tasks of the paper and in part on others of
their kind, each part has a verdict.

Each study searches the learning rate of each method on dev with the same number of runs, then trains with 3 seeds or
more. Nothing is selected on test data. No study has a `--budget`, which ends poor arms early: a claim needs every arm
with every seed.

[What should I use?](what-to-use.md) answers from the same runs, and the [scoreboard](scoreboard.md) has every claim in
one line. [Grids](grids/README.md) are the full grids that
`gradgate compare --budget` is tested on.

Commands: `make evidence` runs all studies again and compares their verdicts with these (hours);
`make evidence SCALE=quick` does the same with a few steps, to see that everything works (minutes);
`gradgate papers evidence/results` prints the verdicts from the committed numbers, and
`python -m evidence pages` writes these pages from them. Studies in bf16 run in fp32 on a CPU
that has no instructions for it. Runs on one machine repeat exactly; another machine may round sums differently, so that
scores move a little and a verdict near its threshold may change.
"""
_UNDECIDED = """\
No data here decides whether these claims hold or fail. Either the studies lack what a claim compares, or have fewer
tasks than its mean takes, or the interval of a difference contains the threshold: more seeds or longer runs may decide.
"""
_FIGURES_HERE = """\
Figures of the studies' reports that show what a figure of the paper shows.
"""
FINDINGS = 12
"""As many parts of a claim are shown; some have one for each language and layer."""
REASONS = 3
"""The most undecided parts that are shown per claim."""
_DATA = {"real": "Real", "synthetic": "Synthetic"}


def page(found: Sequence[Checked], studies: Sequence[Study]) -> str:
    """Return the page as Markdown."""
    there = [study for study in studies if study.results.exists()]
    blocks = [_INTRODUCTION, "## Verdicts", *_verdicts(found), "## Undecided claims", _UNDECIDED, _undecided(found)]
    blocks += ["## The papers' figures", _FIGURES_HERE, figure_table(there)]
    hours = sum(map(thread_hours, there))
    spent = (
        f"Their runs took {hours:.1f} hours of one CPU thread by the clock, without the searches for learning rates."
    )
    blocks += ["## Studies", spent, *(_study(study) for study in there)]
    missing = [study for study in studies if study not in there]
    if missing:
        blocks += ["## Studies that have not been run", "\n".join(map(_planned, missing))]
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def _verdicts(found: Sequence[Checked]) -> Iterator[str]:
    for key, paper in papers().items():
        own = [each for each in found if each.claim.paper == key]
        yield f"### {paper.name}\n\n{paper.authors}, [{paper.title}]({paper.link})."
        rows = [f"| {each.claim.id} | {each.claim.wording} | {_printed(each)} | {_cells(each)} |" for each in own]
        yield "\n".join(["| | claim | printed | authors | real | synthetic |\n|---|---|---|---|---|---|", *rows])
        yield "<details>\n<summary>The numbers</summary>\n\n" + "\n".join(map(_numbers, own)) + "\n\n</details>"


def _printed(each: Checked) -> str:
    states = (verdict.outcome.state if verdict.checked else "not printed" for verdict in each.printed)
    return ", ".join(dict.fromkeys(states))


def _cells(each: Checked) -> str:
    return " | ".join(_states(each.states(kind)) for kind in KINDS)


def _states(by_tasks: dict[str, str]) -> str:
    """Return one state, or those on the paper's tasks and on others if they differ."""
    shown = {tasks: state if state == "cannot tell" else f"**{state}**" for tasks, state in by_tasks.items()}
    if len(set(shown.values())) < 2:
        return next(iter(shown.values()), "–")
    return "; ".join(f"{state} on {tasks}" for tasks, state in shown.items())


def _numbers(each: Checked) -> str:
    """Return what was compared, with the paper's numbers first."""
    lines = [f"- **{each.claim.id}** {each.claim.wording}"]
    for verdict in each.printed:
        lines += _findings(verdict, f"printed ({verdict.source})") if verdict.checked else []
    for kind, verdicts in each.measured.items():
        for verdict in verdicts:
            names = ", ".join(Path(part).stem for part in verdict.parts)
            where = f"{kind} data, {verdict.tasks} ({names})" if kind != AUTHORS else "the authors' runs"
            lines += _findings(verdict, where)
    return "\n".join(lines)


def _findings(verdict: ClaimVerdict, where: str) -> Iterator[str]:
    outcome = verdict.outcome
    yield f"  - {where}: {outcome.state}{f' ({outcome.rule})' if outcome.rule else ''}"
    compared = sorted(
        (finding for finding in outcome.findings if finding.compared),
        key=lambda finding: finding.state != outcome.state,
    )
    yield from (f"    - {finding.state}: {finding.text}" for finding in compared[:FINDINGS])
    if len(compared) > FINDINGS:
        yield f"    - and {len(compared) - FINDINGS} more, which `gradgate papers --printed` or `evidence/results` list"


def _undecided(found: Sequence[Checked]) -> str:
    return "\n".join(line for each in found if not each.is_decided for line in _reasons(each))


def _reasons(each: Checked) -> Iterator[str]:
    """Yield why a claim is undecided: what is lacking, or each interval that contains the threshold."""
    yield f"- **{each.claim.id}** {each.claim.wording}"
    if not each.measured:
        yield f"  - {lacking(each.claim)}."
    for kind, verdicts in each.measured.items():
        findings = [finding for verdict in verdicts for finding in verdict.outcome.findings]
        undecided = [finding.text for finding in findings if finding.state == "cannot tell"]
        yield from (f"  - {kind} data: {text}" for text in undecided[:REASONS])
        if len(undecided) > REASONS:
            yield f"  - {kind} data: and {len(undecided) - REASONS} more"


def _planned(study: Study) -> str:
    return f"- {study.title}: [studies/{study.name}.yaml](studies/{study.name}.yaml)"


def _study(study: Study) -> str:
    files = [figure.file for figure in study.figures]
    pictures = "\n".join(f"![{Path(file).stem} of {study.name}](figures/{study.name}/{file})" for file in files)
    blocks = [
        f"### {study.name}",
        f"{study.title}. {_DATA[study.data]} data. Numbers: [of the claims](results/{study.file.as_posix()}), "
        f"[of all runs](runs/{study.name}.csv). Settings: [studies/{study.name}.yaml](studies/{study.name}.yaml). "
        f"Thread hours of the runs: {thread_hours(study):.2f}.",
        f"Different from the paper: {study.differs.strip()}",
        pictures,
    ]
    return "\n\n".join(blocks)
