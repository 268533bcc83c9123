"""Answer which arm is better, from a study, a file of results, or scores that the agent passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from gradgate.agents.results import COLUMNS, RESULTS, ScoresByArm, ask_columns, read_results, rows_of
from gradgate.agents.tool import ToolAnswer, existing, shortened
from gradgate.errors import UsageError, nearest, some_of
from gradgate.settings.base import CheckedSettings

if TYPE_CHECKING:
    from gradgate.study.importing.judgeable import Judgeable
    from gradgate.study.verdicts import ArmVerdict

MARGIN = (
    "difference that does not matter, in points for accuracy and the like and in the metric's unit otherwise; default "
    "1 point, and none for losses"
)


class IsBetterArguments(CheckedSettings):
    """The arguments of ``is_better``."""

    a: str = Field(description="the arm that may be better, by its name in the results")
    b: str = Field(description="the arm that it is compared with")
    results: str | None = Field(None, description=RESULTS)
    scores: ScoresByArm | None = Field(
        None,
        description="instead of results: arm to scores, all arms that were tried, as {arm: {seed: score}}, or as {arm: "
        "[score, ...]} if the lists are in the same order of seeds",
    )
    metric: str | None = Field(
        None,
        description="name of the metric, such as accuracy or loss; required with scores, as it says which is better",
    )
    lower_is_better: bool = Field(False, description="lower scores are better, whatever the metric's name says")
    paired: bool = Field(True, description="false if the scores of one seed have nothing in common; with scores only")
    margin: float | None = Field(None, ge=0, description=MARGIN)
    columns: dict[str, Any] = Field({}, description=COLUMNS)


def is_better(asked: IsBetterArguments) -> ToolAnswer:
    """Judge one arm against another, corrected over all arms that were compared with it."""
    from gradgate.study.row_noise import with_row_noise
    from gradgate.study.verdicts import verdicts_of

    found = _results_of(asked)
    _check_scored(asked, found)
    _check_arms(asked, found.arms)
    judged: list[tuple[str, ArmVerdict]] = []
    for results in found.conditions:
        if {asked.a, asked.b} <= set(results.study.arm_names):
            every = verdicts_of(results, asked.margin, asked.b)
            own = with_row_noise(results, [each for each in every if each.arm == asked.a])
            judged += [(results.study.part, each) for each in own]
    if not judged:
        raise UsageError(f"No task and model has runs of both a={asked.a!r} and b={asked.b!r}. Run both on one.")
    said = _JudgedSentences(judged)
    record = {
        "a": asked.a,
        "b": asked.b,
        "verdict": judged[0][1].verdict.word.value if len(judged) == 1 else None,
        "words": said.words,
        "comparisons": said.records,
        **found.said,
    }
    return ToolAnswer("\n".join([*said.lines, *limits(found)]), record)


class StudyImportArguments(CheckedSettings):
    """The arguments of ``study_import``."""

    results: str = Field(description=RESULTS)
    reference: str | None = Field(
        None, description="the arm that the others are compared with; default full or the first"
    )
    metric: str | None = Field(None, description="column with the metric of a score, or the metric to compare on")
    lower_is_better: bool = Field(False, description="lower scores are better, whatever the metric's name says")
    margin: float | None = Field(None, ge=0, description=MARGIN)
    columns: dict[str, Any] = Field({}, description=COLUMNS)


def study_import(asked: StudyImportArguments) -> ToolAnswer:
    """Read results of other programs, and judge every arm against the reference."""
    from gradgate.study.verdicts import verdicts_of

    own = {"reference": asked.reference, "metric": asked.metric, "lower_is_better": asked.lower_is_better or None}
    found = read_results(asked.results, ask_columns(asked.columns, **own))
    imported = found.imported
    if imported is None:
        raise UsageError(f"results={asked.results!r} is a study already. Ask study_verdicts for it.")
    judged = [(part.study.part, each) for part in found.conditions for each in verdicts_of(part, asked.margin)]
    said = _JudgedSentences([(part, each) for part, each in judged if each.collapsed.runs])
    lines = [
        f"Read {imported.rows_read:,} rows, kept {imported.rows_kept:,}: {len(imported.arms)} arms, "
        f"{len(imported.tasks)} tasks, {len(imported.models)} models, {len(imported.seeds)} seeds; reference "
        f"{imported.arms[0]}.",
        *said.lines,
        *limits(found),
    ]
    return ToolAnswer("\n".join(lines), {**imported.record(), "words": said.words, "verdicts": said.records})


class StudyVerdictsArguments(CheckedSettings):
    """The arguments of ``study_verdicts``."""

    study: str = Field(description="folder of a study that was trained or imported")
    margin: float | None = Field(None, ge=0, description=MARGIN)


def study_verdicts(asked: StudyVerdictsArguments) -> ToolAnswer:
    """Judge every arm of a study against its reference."""
    from gradgate.study.row_noise import row_verdicts

    judged = row_verdicts(existing("study", asked.study), asked.margin)
    said = _JudgedSentences([(each.condition, each) for each in judged])
    text = "\n".join(said.lines) or "Nothing is compared yet."
    return ToolAnswer(text, {"words": said.words, "verdicts": said.records})


class _JudgedSentences:
    """Some verdicts as sentences and as numbers.

    Args:
        judged: each with the name of its task and model, empty if there are no others.
    """

    def __init__(self, judged: Sequence[tuple[str, ArmVerdict]]) -> None:
        from gradgate.report.verdict_sentence import sentence
        from gradgate.study.verdicts import counted

        sentences = [f"{part}: {sentence(each)}" if part else sentence(each) for part, each in judged]
        self.words = counted([each for _, each in judged])
        self.records = [each.record() | {"sentence": text} for (_, each), text in zip(judged, sentences, strict=True)]
        total = [", ".join(f"{number} {word}" for word, number in self.words.items()) + "."] if len(judged) > 1 else []
        self.lines = [*total, *shortened(sentences)]


def limits(found: Judgeable) -> list[str]:
    """Return what limits a judgement, a sentence each: rows that were left out, decisions of the import, doubts."""
    left_out = [f"Left out: {each['rows']:,} rows: {each['reason']}." for each in found.left_out]
    return [*left_out, *found.notes, *(f"Doubt ({each['kind']}): {each['text']}" for each in found.warnings)]


def _results_of(asked: IsBetterArguments) -> Judgeable:
    if (asked.results is None) == (asked.scores is None):
        raise UsageError("Expected one of results= and scores=: a place to read, or the scores themselves.")
    if asked.scores is None:
        assert asked.results is not None
        if not asked.paired:
            raise UsageError("paired=False is for scores=. For results=, pass columns={'pair': 'none'}.")
        own = {"reference": asked.b, "metric": asked.metric, "lower_is_better": asked.lower_is_better or None}
        return read_results(asked.results, ask_columns(asked.columns, **own))
    if asked.metric is None:
        raise UsageError("metric= is missing: name it, such as accuracy or loss, as it says whether higher is better.")
    if asked.columns:
        raise UsageError("columns= is for results=; scores= has none. Leave it out.")
    from gradgate.study.importing.judgeable import judgeable_rows

    _check_arms(asked, tuple(asked.scores))
    own = {
        "reference": asked.b,
        "lower_is_better": asked.lower_is_better or None,
        "pair": None if asked.paired else "none",
    }
    return judgeable_rows(rows_of(asked.scores, asked.metric, asked.paired), ask_columns({}, **own))


def _check_scored(asked: IsBetterArguments, found: Judgeable) -> None:
    """Raise UsageError for an arm of which no run has a score anywhere."""
    from gradgate.study.importing.fairness import NO_SCORES

    texts = {arm: each["text"] for each in found.warnings if each["kind"] == NO_SCORES for arm in each["arms"]}
    for name, arm in (("a", asked.a), ("b", asked.b)):
        if arm in texts and arm not in found.arms:
            raise UsageError(f"{name}={arm!r} has no score. {texts[arm]} Arms: {some_of(list(found.arms), 20)}.")


def _check_arms(asked: IsBetterArguments, arms: Sequence[str]) -> None:
    """Raise UsageError for an arm that does not exist, or one that would be compared with itself."""
    if asked.a == asked.b:
        raise UsageError(f"a={asked.a!r} and b={asked.b!r} are one arm. Name two of {some_of(list(arms), 20)}.")
    for name, arm in (("a", asked.a), ("b", asked.b)):
        if arm not in arms:
            raise UsageError(f"{name}={arm!r} is not an arm.{nearest(arm, arms)} Arms: {some_of(list(arms), 20)}.")
