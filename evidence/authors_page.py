"""Write ``authors.md``: what the runs that the authors of Elsa published say of its claims E1 to E6."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evidence.authors import FILE, MULTI, printed_scores, printed_selection, read_rates
from evidence.studies import FOLDER
from gradgate.papers.claims import check, claims, find_claim
from gradgate.papers.claims.base import ClaimOutcome
from gradgate.papers.claims.elsa import BASELINE, MULTITASK
from gradgate.papers.claims.numbers import Key, Numbers, Place
from gradgate.papers.claims.unpaired import shared_runs
from gradgate.papers.frozen import frozen_share
from gradgate.papers.recorded import read_numbers
from gradgate.statistics import Verdict, Word, collapsed, compare_unpaired, judge

PAGE = FOLDER / "authors.md"
MARGIN = 1.0
"""Points that do not matter in a single task."""
CLAIMS = ("E1", "E2", "E3", "E4", "E5", "E6")
SHOWN = 3
"""Parts of a claim that are shown, undecided and failing ones first."""
_NAMES = {
    Word.BETTER: "better",
    Word.WORSE: "worse",
    Word.NON_INFERIOR: "no worse by more than 1",
    Word.EQUIVALENT: "equivalent within 1",
    Word.INCONCLUSIVE: "inconclusive",
}
_INTRODUCTION = """\
# The Elsa authors' own runs

Do the claims of *What Would Elsa Do?* hold on all runs behind [the paper](https://arxiv.org/abs/1911.03090)? Lee,
Tang and Lin published every score in [ljj7975/transformers](https://github.com/ljj7975/transformers) (commit
e5903bae, `exp_results/` and `mt_dnn_exp_results/`, Apache-2.0). [results/authors/elsa.csv](results/authors/elsa.csv)
has one row per run, in the metric of the paper, for eight models and the nine tasks of GLUE.

```shell
gradgate papers evidence/results/authors  # prints the verdicts below
python -m evidence authors                # makes the file again from the source, by gg.import_results
```

The runs are unpaired: the correlation of full fine-tuning and frozen layers over seeds is 0.05, and the seeds of two
arms often differ. So every run of an arm counts, each arm of a task is its own sample, and a claim's error is that of
the jackknife over runs. MNLI and MNLI-mm are scores of the same runs, so the jackknife drops both at once.
"""
_SELECTION = """\
## Claims E1 to E6, with and without the printed selection of runs

Of the {cells} scores in Table A.3, {printed} are the mean of all published runs. Each of the other {selected} is the
mean of the best runs of its cell, such as the best {kept} of {of}. The table has each verdict on all runs, and on the
runs behind the printed means. Selecting by score also narrows the spread, so its intervals are too short: the verdict
on all runs counts.
"""
_TASKS = """\
## Single tasks: is freezing no worse than full fine-tuning by more than one point?

A mean relative quality of 0.96 can hide a task that loses ten points. So each task of each model has its own verdict
(Welch's t-test). *Better* and *worse* are Holm-corrected over the arms of that model and task; *no worse*, by a margin
of {margin:g} point and one-sided at 95 %, is not corrected. Numbers are frozen minus full, in points; † marks
comparisons in which a run collapsed.
"""
_LIMITS = """\
## Limits of these runs

- **`full` did not train everything.** In the authors' scripts (all versions since 2019-10-12) the list of the model's
  parameters is a generator. The optimizer's first group, the weights with weight decay, exhausts it, so the second,
  biases and LayerNorm weights, is empty. The freezing arms do train these in their open layers. The version behind
  each number is not recorded, so every comparison is in doubt.
- **One learning rate for all arms.** It was searched for full fine-tuning only, on the dev set that gives the scores,
  and every frozen arm used it. In {other} of {rates} searched cells the rate used is not the best of the search, at a
  loss of up to {lost:.1f} points. Their own rate may raise the frozen arms.
- **Half of the rates are at the edge of the search.** Of 1e-5 to 5e-5, full fine-tuning took an end in {ends} of
  {rates} cells, the lowest rate in {lowest} of them ({of_largest} of {cells_of_largest} with RoBERTa-large). A better
  rate may lie beyond.
- **Many runs of MT-RoBERTa are runs of RoBERTa.** {copies} of the {pairs} runs of MT-RoBERTa whose seed RoBERTa has
  too have its score, digit by digit; of MT-BERT {copies_of_bert} of {pairs_of_bert} do. Among them are
  {copies_of_head} of {pairs_of_head} with the head alone. A task and share of layers counts if two or more different
  scores are shared, as one may be chance, or runs that collapsed to the same answer. Nothing says which of the two
  models these are of, so E2, E3 and E5, which are about MT-RoBERTa, and its rows below E1, E4 and E6 may be about
  RoBERTa. Equal runs count once in a claim's error. Without MT-RoBERTa, E1 is: {without}.
- **Dev is the test.** All scores come from GLUE's dev sets, on which rates were also chosen.
- **No time was saved.** Frozen weights kept `requires_grad`, so the scripts measure no savings (E8).
"""


@dataclass(frozen=True)
class TaskVerdict:
    """One frozen arm of one model and task against full fine-tuning.

    Attributes:
        has_collapsed: whether a run of either side collapsed.
    """

    place: Place
    label: str
    verdict: Verdict
    has_collapsed: bool


def authors_page() -> str:
    """Return the page as Markdown."""
    numbers = read_numbers(FILE)["elsa"]
    selected, chosen = printed_selection(numbers)
    printed = sum(key in numbers.scores for key in printed_scores())
    kept, of = max(chosen.values(), key=lambda pair: pair[1] - pair[0])
    rates = read_rates()
    largest = [rate for rate in rates if rate.model == "RoBERTa-large"]
    blocks = [
        _INTRODUCTION,
        _SELECTION.format(printed=printed - len(chosen), cells=printed, selected=len(chosen), kept=kept, of=of),
        _claims_table(numbers, selected),
        _TASKS.format(margin=MARGIN),
        *_task_tables(task_verdicts(numbers)),
        _LIMITS.format(
            other=sum(rate.used != rate.best for rate in rates),
            rates=len(rates),
            lost=max(rate.lost for rate in rates),
            ends=sum(rate.at_an_end for rate in rates),
            lowest=sum(rate.used == rate.lowest for rate in rates),
            of_largest=sum(rate.at_an_end for rate in largest),
            cells_of_largest=len(largest),
            without=_without_multitask(numbers),
            **_copies(numbers),
        ),
    ]
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def _copies(numbers: Numbers) -> dict[str, int]:
    """Count the runs that multi-task models share with the models that they started from, and the pairs of runs."""
    counts = dict.fromkeys(("copies", "pairs", "copies_of_bert", "pairs_of_bert", "copies_of_head", "pairs_of_head"), 0)
    for key, own in numbers.scores.items():
        if key.on == "en" and key.place.model.startswith(MULTI):
            other = numbers.scores.get(key._replace(place=key.place._replace(model=key.place.model[len(MULTI) :])), {})
            kinds = ["_of_bert"] if "-BERT" in key.place.model else [""]
            if kinds == [""] and frozen_share(key.method) == 1.0:
                kinds.append("_of_head")
            for kind in kinds:
                counts[f"pairs{kind}"] += len(own.keys() & other.keys())
                counts[f"copies{kind}"] += shared_runs(own, other)
    return counts


def _without_multitask(numbers: Numbers) -> str:
    """Return E1 without the models whose runs may be those of others."""
    kept = {key: own for key, own in numbers.scores.items() if not key.place.model.startswith(MULTITASK)}
    outcome = check(find_claim("E1"), replace(numbers, scores=kept))
    return f"{outcome.state}, {outcome.findings[0].found}"


def _claims_table(numbers: Numbers, selected: Numbers) -> str:
    lines = ["| claim | all runs | as printed | on all runs |", "|---|---|---|---|"]
    for claim in claims("elsa"):
        if claim.id in CLAIMS:
            whole, printed = check(claim, numbers), check(claim, selected)
            lines.append(
                f"| **{claim.id}** {claim.wording} | **{whole.state}** | {printed.state} | {_findings(whole)} |"
            )
    return "\n".join(lines)


def _findings(outcome: ClaimOutcome) -> str:
    ordered = sorted(outcome.findings, key=lambda finding: finding.state == "holds")
    shown = "<br>".join(f"{finding.state}: {finding.text}" for finding in ordered[:SHOWN])
    more = len(ordered) - SHOWN
    counts = {state: sum(f.state == state for f in ordered) for state in ("holds", "fails", "cannot tell")}
    counted = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return shown + (f"<br>and {more} more ({counted} in all)" if more > 0 else "")


def task_verdicts(numbers: Numbers) -> list[TaskVerdict]:
    """Judge every frozen arm of each model and task; the arms of one model and task are one family of tests."""
    found = []
    for place in numbers.places(BASELINE):
        labels = [label for label in numbers.methods(place) if frozen_share(label) is not None]
        scores = {label: numbers.scores[Key(place, label, "en")] for label in (BASELINE, *labels)}
        lost = {label: collapsed({s: v / 100 for s, v in own.items()}, True) for label, own in scores.items()}
        full = list(scores[BASELINE].values())
        verdicts = judge(
            [compare_unpaired(list(scores[label].values()), full) for label in labels],
            higher_is_better=True,
            margin=MARGIN,
        )
        found += [
            TaskVerdict(place, label, verdict, bool(lost[label] or lost[BASELINE]))
            for label, verdict in zip(labels, verdicts, strict=True)
        ]
    return found


def _task_tables(found: Sequence[TaskVerdict]) -> Iterator[str]:
    yield _counts(found)
    for share, name in ((0.5, "Half of the layers frozen"), (0.75, "Three quarters of the layers frozen")):
        yield f"### {name}"
        yield _words(found, share)


def _counts(found: Sequence[TaskVerdict]) -> str:
    words = list(Word)
    heads = " | ".join(_NAMES[word] for word in words)
    lines = [
        f"| frozen | comparisons | {heads} | not worse by more than 1, in all |",
        "|---|---:|---:|" + "---:|" * len(words),
    ]
    for share, name in ((0.5, "half"), (0.75, "three quarters"), (1.0, "all (head alone)")):
        own = [each.verdict for each in found if frozen_share(each.label) == share]
        counts = [sum(verdict.word is word for verdict in own) for word in words]
        shown = " | ".join(map(str, (*counts, sum(bool(verdict.non_inferior) for verdict in own))))
        lines.append(f"| {name} | {len(own)} | {shown} |")
    return "\n".join(lines)


def _words(found: Sequence[TaskVerdict], share: float) -> str:
    own = {(each.place.model, each.place.task): each for each in found if frozen_share(each.label) == share}
    models = sorted({model for model, _ in own}, key=lambda name: (name.startswith("MT-"), name))
    tasks = sorted({task for _, task in own})
    lines = ["| | " + " | ".join(tasks) + " |", "|---|" + "---|" * len(tasks)]
    for model in models:
        lines.append(f"| {model} | " + " | ".join(_word(own.get((model, task))) for task in tasks) + " |")
    return "\n".join(lines)


def _word(each: TaskVerdict | None) -> str:
    if each is None:
        return "not run"
    difference = each.verdict.comparison.difference or 0.0
    less = ", by less than 1" if each.verdict.word is Word.WORSE and each.verdict.non_inferior else ""
    return f"{_NAMES[each.verdict.word]}{less}: {difference:+.1f}{'†' * each.has_collapsed}".replace("-", "−")
