"""Write ``README.md`` of the evidence: every claim with its verdicts, from the committed numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evidence.arms import thread_hours
from evidence.doubts import limits_of_authors, limits_of_verdict, names_of
from evidence.forgetting import forgetting_table
from evidence.language_adapters import language_hours, perplexities
from evidence.limits import CEILING, RISES, limits_of, limits_of_measurements
from evidence.missing import missing_section
from evidence.paper_figures import figure_table
from evidence.repetition import Repetition, repeated
from evidence.row_noise import CAPTION as NOISE_CAPTION
from evidence.row_noise import row_noise_table
from evidence.searches import search_hours, stopped_early
from evidence.studies import FOLDER, Study
from evidence.training import CAPTION, training_table
from evidence.verdicts import AUTHORS, CONTRADICTS, KINDS, Checked, deciding
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims.base import UNKNOWN
from gradgate.papers.published import papers
from gradgate.study.search import read_space

PAGE = FOLDER / "README.md"
_INTRODUCTION = """\
# Evidence

Do the claims of four papers hold on other models and data? The [scoreboard](scoreboard.md) has every claim in one
line, and [What should I use?](what-to-use.md) turns the same runs into advice. This page has the rules, the verdicts,
their numbers and the studies. Each claim is a test with one of three answers:

- **holds** or **fails**: the 95% t interval over seeds lies on one side of the claimed value. For a claim that two
  methods are level, the 90% interval lies within half a point on both sides (two one-sided tests).
- **cannot tell**: the interval includes the claimed value, or the studies lack what the claim compares.

The tests of all parts of a claim form one family, corrected by Holm's procedure; each interval has the level of its
own step. A claim about the mean over a paper's tasks, about each or about most takes three tasks. A claim of several
parts, about every variant, or that one is the best, holds only if all of them were compared. If a claim names data,
such as GLUE, XNLI, special domains or one task, only they decide it, or another task of the kind that it is about
(named entities, parts of speech), never generated texts; if it names a model, only that model does. Any data decide a
claim that names none. A8, on the spread over seeds, has one F test per learning rate; that fine-tuning collapses
above 4e-5, which the paper shows too, is not tested. Printed, A5 is checked on GLUE with 1,000 and 5,000 examples, as
the paper's figure of larger sets has no numbers.

Intervals are over seeds, with the test rows as they are: on other rows of the same task, a difference may lie outside.
Studies that were recorded with the predictions of each row also have its interval over seeds and rows. If runs
collapsed, verdicts are given with and without them.

- *Printed*: the numbers that the paper prints.
- *Authors*: [the runs that the authors of Elsa published](authors.md), all of them, unpaired.
- *Real*: a pretrained encoder on public data: all-MiniLM-L6-v2 (6 layers, 22.7 M parameters) in English, and
  multilingual-e5-small (12 layers), trained in English and scored in other languages or on GLUE; a decoder,
  Gemma 3 270M, in a study of no paper's claims. Both encoders were trained further for sentence similarity; the
  papers' models were not. The weights of multilingual-e5-small were rounded to 4 bits before these studies, and its
  embedding table keeps only the pieces that occur in a study's texts. Parts of speech come from Universal
  Dependencies, one treebank per language (PUD in Arabic, Hindi and Thai).
- *Synthetic*: the embedded encoder on generated tasks in ten languages. It shows whether a claim follows from the
  method itself, not whether it holds for a large pretrained model.

The paper's tasks and others of their kind have separate verdicts. Each study searches the learning rate of each
method on dev, with the same number of runs, then trains with three or more seeds. Most searches stop runs that are
behind (`prune`), also at a rate next to the best; a study says after which part of their steps. No rate and no
checkpoint is picked on test data. No study has a `--budget`: it ends poor arms early, and a claim needs every arm with
every seed; [Grids](grids/README.md) test budgets.

A verdict has the limits of its studies next to it:

- *Short training*: dev still gains more than {rises:g} point at the end, on average over the runs of an arm: from the
  last evaluation before the last fifth of the steps to the last one, a fifth to a half of them. The tables of the
  studies have smaller gains too.
- *Rates at the edge*: an arm took the lowest or the highest rate searched.
- *Rates tied on dev*: several reached the same score, and the lowest was taken; scores in other languages still depend
  on the rate.
- *Scores near guessing*: some arms score hardly better than a guess, so their differences and shares say little about
  trained ones. *Scores at the ceiling*: all arms reach {ceiling:.0%} on test.
- *Encoder trained for similarity before*: by those who published it, and the task is the similarity of sentences.
- *Little trained language adapters*: those below the task adapters had a few hundred steps of pretraining.
- *Changed after scores on test*: {later} studies got more seeds, rates or an arm, or replace a former version, after
  scores on test were known.
- *Traces* or *representations at different rates*: the learning rate changes what is compared, as the method does.
- *Dev rows that picked the rates*: the claim compares scores on dev, without an interval over its rows.

| command | what it does |
|---|---|
| `make evidence` | run all studies again and compare the verdicts (hours) |
| `make evidence SCALE=quick` | the same with a few steps, to see that everything works (minutes) |
| `python -m evidence run STUDY --add --record` | add the seeds by which its file has more than its runs |
| `gradgate papers evidence/results` | print the verdicts from the committed numbers |
| `python -m evidence pages` | write these pages from them |

Runs on one machine repeat exactly. Another machine may round sums differently: scores then move a little, and a
verdict near its threshold may change. Studies in bf16 run in fp32 on a CPU without bf16 instructions.
"""
_UNDECIDED = """\
No data here decides {count} of the {all} claims: {claims}. *The numbers* above say why, and the
[scoreboard](scoreboard.md#what-would-decide-the-rest) what would decide each.
"""
_FIGURES_HERE = """\
These figures of the studies' reports show what a figure of the paper shows.
"""
FINDINGS = 12
"""As many parts of a claim are shown; some have one for each language and layer."""

_DATA = {"real": "Real", "synthetic": "Synthetic"}


def page(found: Sequence[Checked], studies: Sequence[Study]) -> str:
    """Return the page as Markdown."""
    there = [study for study in studies if study.is_committed]
    later = sum(bool(study.after_test_scores) for study in there)
    blocks = [
        _INTRODUCTION.format(rises=RISES, ceiling=CEILING, later=later),
        "## Verdicts",
        *_verdicts(found, {study.name: study for study in studies}),
    ]
    blocks += ["## Undecided claims", _undecided(found)]
    again = repeated()
    blocks += ["## What is missing", missing_section(there, again)]
    blocks += ["## The papers' figures", _FIGURES_HERE, figure_table(there)]
    blocks += [
        "## Studies",
        _spent(there),
        CAPTION,
        NOISE_CAPTION,
        *(_study(study, again.get(study.name)) for study in there),
    ]
    missing = [study for study in studies if study not in there]
    if missing:
        blocks += ["## Studies that have not been run", "\n".join(map(_planned, missing))]
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def _verdicts(found: Sequence[Checked], studies: Mapping[str, Study]) -> Iterator[str]:
    for key, paper in papers().items():
        own = [each for each in found if each.claim.paper == key]
        yield f"### {paper.name}\n\n{paper.authors}, [{paper.title}]({paper.link})."
        rows = [f"| {each.claim.id} | {each.claim.wording} | {' | '.join(_cells(each, studies))} |" for each in own]
        yield "\n".join(["| | claim | printed | authors | real | synthetic |\n|---|---|---|---|---|---|", *rows])
        numbers = "\n".join(_numbers(each, studies) for each in own)
        yield f"<details>\n<summary>The numbers</summary>\n\n{numbers}\n\n</details>"


def _cells(each: Checked, studies: Mapping[str, Study]) -> Iterator[str]:
    yield _printed(each)
    for kind in KINDS:
        yield _states(kind, each.measured.get(kind, ()), studies)


def _printed(each: Checked) -> str:
    states = dict.fromkeys(verdict.outcome.state for verdict in each.printed if verdict.checked)
    return f"{UNKNOWN} ({CONTRADICTS})" if len(states) > 1 else next(iter(states), "not printed")


def _states(kind: str, verdicts: Sequence[ClaimVerdict], studies: Mapping[str, Study]) -> str:
    """Return one state, or those on the paper's tasks and on others if they differ, with what limits those decided."""
    shown = {verdict.tasks: _state(kind, verdict, studies) for verdict in verdicts}
    if len(set(shown.values())) < 2:
        return next(iter(shown.values()), "–")
    return "; ".join(f"{state} on {tasks}" for tasks, state in shown.items())


def _state(kind: str, verdict: ClaimVerdict, studies: Mapping[str, Study]) -> str:
    state = verdict.outcome.state
    return state if state == UNKNOWN else f"**{state}**{_in_parentheses(_doubts(kind, verdict, studies))}"


def _doubts(kind: str, verdict: ClaimVerdict, studies: Mapping[str, Study]) -> Sequence[str]:
    return limits_of_authors() if kind == AUTHORS else names_of(limits_of_verdict(verdict, studies))


def _in_parentheses(texts: Sequence[str]) -> str:
    return f" ({', '.join(texts)})" if texts else ""


def _numbers(each: Checked, studies: Mapping[str, Study]) -> str:
    """Return what was compared, with the paper's numbers first."""
    lines = [f"- **{each.claim.id}** {each.claim.wording}"]
    for verdict in each.printed:
        lines += _findings(verdict, f"printed ({verdict.source})") if verdict.checked else []
    for kind, verdicts in each.measured.items():
        for verdict in verdicts:
            names = ", ".join(Path(part).stem for part in verdict.parts)
            where = f"{kind} data, {verdict.tasks} ({names})" if kind != AUTHORS else "the authors' runs"
            lines += _findings(verdict, where, _doubts(kind, verdict, studies))
            lines += [f"    - {finding.text}" for finding in verdict.outcome.findings if not finding.compared]
    return "\n".join(lines)


def _findings(verdict: ClaimVerdict, where: str, doubts: Sequence[str] = ()) -> Iterator[str]:
    outcome = verdict.outcome
    limits = f"; limits: {', '.join(doubts)}" if doubts else ""
    yield f"  - {where}: {outcome.state}{f' ({outcome.rule})' if outcome.rule else ''}{limits}"
    compared = sorted(
        (finding for finding in outcome.findings if finding.compared),
        key=lambda finding: finding.state != outcome.state,
    )
    yield from (f"    - {finding.state}: {finding.text}" for finding in compared[:FINDINGS])
    if len(compared) > FINDINGS:
        yield f"    - and {len(compared) - FINDINGS} more, which `gradgate papers --printed` or `evidence/results` list"
    if (steady := verdict.without_collapsed) is not None and deciding(steady) != deciding(outcome):
        yield f"    - without collapsed runs, {steady.state}: {deciding(steady)}"


def _undecided(found: Sequence[Checked]) -> str:
    undecided = [each.claim.id for each in found if not each.is_decided]
    return _UNDECIDED.format(count=len(undecided), all=len(found), claims=", ".join(undecided))


def _spent(studies: Sequence[Study]) -> str:
    """Say what all studies took, in hours of one CPU thread, and how many searches are not committed."""
    searched = [hours for study in studies if (hours := search_hours(study)) is not None]
    spent = (
        f"The runs took {sum(map(thread_hours, studies)):.1f} hours of one CPU thread, language adapters "
        f"{language_hours(studies):.1f}, and the searches for learning rates of {len(searched)} studies "
        f"{sum(searched):.1f}."
    )
    others = len(studies) - len(searched)
    if not others:
        return spent
    return (
        f"{spent} Of the other {others}, no committed file has the hours of the search or the rates that the arms took."
    )


def _planned(study: Study) -> str:
    return f"- {study.title}: [studies/{study.name}.yaml](studies/{study.name}.yaml)"


def _study(study: Study, again: Repetition | None) -> str:
    files = [figure.file for figure in study.figures]
    pictures = "\n".join(f"![{Path(file).stem} of {study.name}](figures/{study.name}/{file})" for file in files)
    blocks = [
        f"### {study.name}",
        f"{study.title}. {_DATA[study.data]} data. Numbers: {_numbers_of(study)}. Settings: "
        f"[studies/{study.name}.yaml](studies/{study.name}.yaml). "
        f"Thread hours of the runs: {thread_hours(study):.2f}{_further(study)}.{_search(study)}{_again(again)}"
        f"{_limits(study)}",
        f"{'Different from the paper' if study.paper else 'How it was done'}: {study.differs.strip()}",
        perplexities(study),
        training_table(study),
        row_noise_table(study),
        forgetting_table(study.runs, study.forgetting) if study.forgetting.exists() else "",
        pictures,
    ]
    return "\n\n".join(filter(None, blocks))


def _limits(study: Study) -> str:
    limits = "; ".join(map(str, (*limits_of(study), *limits_of_measurements(study))))
    return f" Limits: {limits}." if limits else ""


def _numbers_of(study: Study) -> str:
    """Link the committed files with its numbers."""
    files = {"of the claims": study.results} if study.paper else {}
    files |= {"of all runs": study.runs, "of their dev scores": study.curves, "of the search": study.search}
    files |= {"of their test rows' noise": study.row_noise, "of the language adapters": study.languages}
    there = {what: file.relative_to(FOLDER).as_posix() for what, file in files.items() if file.exists()}
    return ", ".join(f"[{what}]({file})" for what, file in there.items())


def _further(study: Study) -> str:
    """Return the hours before the runs that are compared, as far as they were recorded."""
    spent = {"search": search_hours(study), "language adapters": language_hours([study])}
    return "".join(f"; of the {what}: {hours:.2f}" for what, hours in spent.items() if hours)


def _search(study: Study) -> str:
    """Say how many settings and seeds the search of a study has per arm; nothing for a study without a search."""
    texts = study.compare.get("search")
    if not texts:
        return ""
    space = read_space(texts, seeds=study.compare.get("search_seeds", 1))
    seeds = "one seed" if len(space.seeds) == 1 else f"{len(space.seeds)} seeds"
    return f" Search: {len(space.settings)} learning rates per arm, {seeds} each{stopped_early(study)}."


def _again(found: Repetition | None) -> str:
    """Say how many numbers came out the same when the study was run again; nothing if it was not."""
    if found is None:
        return ""
    where, moved = "", ""
    if found.machine == "another":
        where, moved = " on another machine", f"; means of arms moved by at most {found.moved:.2f}"
    verdicts = f"; {found.verdicts} verdicts changed" if found.verdicts else ""
    are = "is" if found.equal == 1 else "are"
    equal = f"{found.equal} of {found.numbers} numbers {are} the same to the last digit"
    return f" Run again{where}: {equal}{moved}{verdicts}."
