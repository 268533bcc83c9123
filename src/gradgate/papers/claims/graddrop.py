"""Define the claims of the GradDrop paper (O'Neill and Dutta 2023): differences to SFT on XGLUE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, product

from gradgate.errors import listed
from gradgate.papers.claims.base import Claim, ClaimCheck, ClaimOutcome
from gradgate.papers.claims.numbers import DEV_DROP, Numbers, Place
from gradgate.papers.claims.quantities import gain_gap, gap_difference, mean_minus, minus, t_gap
from gradgate.papers.claims.rules import all_of, both
from gradgate.papers.claims.thresholds import above, at_least_about, count_tasks, not_compared, over_tasks, tasks_in

SFT, DROP, LAYER, EPOCH = "SFT", "GradDrop", "Layer-GradDrop", "GradDrop-Epoch"
TOP, BOTTOM = "GradFreeze-TopDown", "GradFreeze-BottomUp"
ANNEAL, ANNEAL_LAYER = "Anneal-GradDrop", "Anneal-Layer-GradDrop"
VARIANTS = (DROP, ANNEAL, ANNEAL_LAYER, LAYER, EPOCH)
AVG = "avg"
_TABLE10 = (("graddrop_table10",),)
_BY_LANGUAGE = tuple(f"graddrop_table0{number}" for number in range(1, 10))
"""Tables of the t statistics in Fig. 3."""


def _minus(numbers: Numbers, place: Place, one: str, other: str, on: str = AVG, threshold: float = 0.0) -> ClaimCheck:
    return above(numbers, f"{place}: {one} - {other}", minus(place, one, other, on), threshold)


def _mean(numbers: Numbers, one: str, other: str, threshold: float = 0.0) -> ClaimCheck:
    places = numbers.places(one, other)
    what = f"{_mean_over(numbers, places)}: {one} - {other}"
    return above(numbers, what, mean_minus(places, one, other, AVG), threshold)


def _mean_over(numbers: Numbers, places: Sequence[Place]) -> str:
    """Name what a mean is over: the paper has one model, studies may have several."""
    mean = f"mean over {tasks_in(places)}"
    if numbers.exact:
        return mean
    tasks: dict[str, list[str]] = {}
    for place in places:
        tasks.setdefault(place.model, []).append(place.task)
    if len(tasks) == 1:
        return f"{places[0].model}, {mean}"
    return f"{mean} ({'; '.join(f'{listed(dict.fromkeys(own))} with {model}' for model, own in tasks.items())})"


def _on(numbers: Numbers, tasks: Sequence[str], pairs: list[tuple[str, str]]) -> ClaimOutcome:
    findings = [
        _minus(numbers, place, one, other) for one, other in pairs for place in numbers.places(one, other, tasks=tasks)
    ]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    for place in dict.fromkeys(place for pair in pairs for place in numbers.places(*pair, tasks=tasks)):
        absent = [name for name in names if name not in numbers.methods(place)]
        findings += not_compared(numbers, findings, str(place), absent)
    return all_of(findings, f"needs two of {', '.join(names)} on {' or '.join(tasks)}")


def _g1(numbers: Numbers) -> ClaimOutcome:
    findings = [
        at_least_about(numbers, f"{place}: {DROP} - {SFT}", minus(place, DROP, SFT, AVG), 0.7, digits=1)
        for place in numbers.places(DROP, SFT, tasks=["XNLI"])
    ]
    return all_of(findings, f"needs {DROP} and {SFT} on XNLI")


def _g2(numbers: Numbers) -> ClaimOutcome:
    others = (SFT, TOP, BOTTOM, DROP, ANNEAL, ANNEAL_LAYER)
    findings = [
        over_tasks(numbers, _mean(numbers, best, other, 1.0 if other == SFT else 0.0), count_tasks(places))
        for best in (LAYER, EPOCH)
        for other in others
        if (places := numbers.places(best, other))
    ]
    pairs = product((LAYER, EPOCH), others)
    lacking = _lacking((pair for pair in pairs if not numbers.places(*pair)), len(others))
    findings += not_compared(numbers, findings, "mean over all tasks", lacking)
    return all_of(findings, f"needs {LAYER}, {EPOCH} and {SFT}")


def _g3(numbers: Numbers) -> ClaimOutcome:
    places, against = numbers.places(TOP, BOTTOM), numbers.places(SFT, BOTTOM)
    findings = [over_tasks(numbers, _minus(numbers, place, TOP, BOTTOM), count_tasks(places)) for place in places]
    findings += [over_tasks(numbers, _mean(numbers, SFT, BOTTOM), count_tasks(against))] if against else []
    lacking = [name for name, there in ((SFT, against), (TOP, places)) if not there]
    findings += not_compared(numbers, findings, BOTTOM, lacking)
    return all_of(findings, f"needs {TOP}, {BOTTOM} and {SFT}")


def _g4(numbers: Numbers) -> ClaimOutcome:
    findings = [_minus(numbers, place, SFT, EPOCH, DEV_DROP) for place in numbers.places(SFT, EPOCH)]
    return all_of(findings, f"needs {SFT} and {EPOCH}")


def _g5(numbers: Numbers) -> ClaimOutcome:
    return _on(numbers, ("QAM",), [(EPOCH, SFT)])


def _g6(numbers: Numbers) -> ClaimOutcome:
    pairs = [(variant, SFT) for variant in VARIANTS]
    if numbers.stand_in:
        return _on(numbers, ("NC", "POS"), pairs)
    return both(*(_on(numbers, (task,), pairs) for task in ("NC", "POS")))


def _g7(numbers: Numbers) -> ClaimOutcome:
    return _on(numbers, ("NER",), [(DROP, SFT)])


def _g8(numbers: Numbers) -> ClaimOutcome:
    return _largest(numbers, "XNLI", (DROP, LAYER, EPOCH), ("ar", "sw"))


def _g9(numbers: Numbers) -> ClaimOutcome:
    return _largest(numbers, "POS", (LAYER,), ("ar", "tr", "ur"))


def _g10(numbers: Numbers) -> ClaimOutcome:
    others = (SFT, TOP, BOTTOM, ANNEAL, ANNEAL_LAYER, LAYER, EPOCH)
    return _on(numbers, ("XNLI",), [(DROP, other) for other in others])


def _g11(numbers: Numbers) -> ClaimOutcome:
    findings, lacking, others = list[ClaimCheck](), list[tuple[str, str]](), (DROP, ANNEAL, ANNEAL_LAYER, TOP, BOTTOM)
    for best in (EPOCH, LAYER):
        for other in others:
            names = (best, other, SFT)
            groups = [(place, numbers.languages(place, *names)) for place in numbers.places(*names)]
            groups = [(place, languages) for place, languages in groups if len(languages) > 1]
            if groups:
                there = [place for place, _ in groups]
                what = f"{_mean_over(numbers, there)}: t of {best} - t of {other}"
                finding = above(numbers, what, t_gap(groups, best, other, SFT))
                findings.append(over_tasks(numbers, finding, count_tasks(there)))
            else:
                lacking.append((best, other))
    findings += not_compared(numbers, findings, "t statistics", _lacking(lacking, len(others)))
    return all_of(findings, f"needs {EPOCH}, {LAYER}, {SFT} and another variant in two test languages or more")


def _lacking(pairs: Iterable[tuple[str, str]], others: int) -> list[str]:
    """Return which methods pairs that were not compared lack: the second, or the first if it lacks all others."""
    by_first: dict[str, list[str]] = {}
    for first, second in pairs:
        by_first.setdefault(first, []).append(second)
    found = ([first] if len(seconds) == others else seconds for first, seconds in by_first.items())
    return list(dict.fromkeys(chain.from_iterable(found)))


def _largest(numbers: Numbers, task: str, variants: tuple[str, ...], named: tuple[str, ...]) -> ClaimOutcome:
    """Check whether the named languages gain more than every other one."""
    findings: list[ClaimCheck] = []
    lacking: list[str] = []
    for variant in variants:
        before = len(findings)
        for place in numbers.places(variant, SFT, tasks=[task]):
            languages = numbers.languages(place, variant, SFT)
            rest = [language for language in languages if language not in named]
            if set(named) <= set(languages) and rest:
                findings += _gains(numbers, place, variant, named, rest)
        if len(findings) == before:
            lacking.append(variant)
    findings += not_compared(numbers, findings, f"gains on {task}", lacking)
    return all_of(
        findings, f"needs {SFT} and a variant on {task} with the test languages {', '.join(named)} and others"
    )


def _gains(numbers: Numbers, place: Place, variant: str, named: tuple[str, ...], rest: list[str]) -> list[ClaimCheck]:
    """Compare the extremes of printed gains, and each pair of measured ones.

    The largest of many noisy gains is above the smallest of a few even if all languages gain alike.
    """
    if numbers.exact:
        what = f"{place}, {variant}: smallest gain of {', '.join(named)} - largest gain of the other languages"
        return [above(numbers, what, gain_gap(place, variant, SFT, named, rest))]
    return [
        above(
            numbers,
            f"{place}, {variant}: gain of {language} - gain of {other}",
            gap_difference(place, variant, SFT, language, other),
        )
        for language in named
        for other in rest
    ]


CLAIMS = (
    Claim(
        "G1",
        "graddrop",
        "GradDrop is above SFT on XNLI by about 0.7 points or more.",
        (("graddrop_table01",),),
        _g1,
        about=("XNLI",),
    ),
    Claim(
        "G2",
        "graddrop",
        "Layer-GradDrop and GradDrop-Epoch have the two highest means over all tasks, more than 1 point above SFT.",
        _TABLE10,
        _g2,
    ),
    Claim(
        "G3",
        "graddrop",
        "GradFreeze from the bottom up is below that from the top down on every task, and below SFT on average.",
        _TABLE10,
        _g3,
    ),
    Claim(
        "G4",
        "graddrop",
        "From its best epoch to the last, GradDrop-Epoch loses less than SFT (on test in the paper, on dev here).",
        (),
        _g4,
    ),
    Claim(
        "G5", "graddrop", "GradDrop-Epoch is above SFT on QAM (by 3.16).", (("graddrop_table03",),), _g5, about=("QAM",)
    ),
    Claim("G6", "graddrop", "Every variant is above SFT on NC and on POS.", _TABLE10, _g6, about=("NC", "POS")),
    Claim(
        "G7",
        "graddrop",
        "GradDrop is above SFT on NER.",
        (("graddrop_table06",), ("graddrop_table10",)),
        _g7,
        about=("NER",),
    ),
    Claim(
        "G8",
        "graddrop",
        "Swahili and Arabic gain most on XNLI, by GradDrop and by its layer and epoch forms.",
        (("graddrop_table01",),),
        _g8,
        about=("XNLI",),
    ),
    Claim(
        "G9",
        "graddrop",
        "Arabic, Urdu and Turkish gain most on POS, by Layer-GradDrop.",
        (("graddrop_table07",),),
        _g9,
        about=("POS",),
    ),
    Claim(
        "G10",
        "graddrop",
        "GradDrop is the best of the paper's own runs on XNLI.",
        (("graddrop_table01",),),
        _g10,
        about=("XNLI",),
    ),
    Claim(
        "G11",
        "graddrop",
        "GradDrop-Epoch and Layer-GradDrop have the highest t statistics, the mean over tasks (languages are pairs).",
        (_BY_LANGUAGE,),
        _g11,
    ),
)
