"""Compare methods over seeds, and look at the study."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from typing_extensions import Unpack

from gradgate.api.data import GivenTask, model_name
from gradgate.api.progress import study_progress
from gradgate.api.shown import ResultView, data_frame
from gradgate.places import short_name, typed_path
from gradgate.runs.state import RunState
from gradgate.settings.base import checked_settings
from gradgate.settings.compare import CompareSettings
from gradgate.settings.keywords import CompareKeywords
from gradgate.settings.signature import takes
from gradgate.settings.values import several

if TYPE_CHECKING:
    from peft import PeftConfig

    from gradgate.methods import Method
    from gradgate.settings.arms.arm import Arm
    from gradgate.study.compare import RunCounts
    from gradgate.study.forecast import Forecast
    from gradgate.study.results import StudyResults


class Study(ResultView):
    """A study in its folder, as :func:`compare` returns it; ``Study(path)`` opens an existing one.

    It shows itself in a notebook. Attributes besides these methods: ``path``, the folder.

    Args:
        path: the folder of a study, whatever the state of its runs.

    Raises:
        RunError: if something that is read is missing or damaged.
    """

    @property
    def best(self) -> str | None:
        """The arm to use, by its name in tables: that of the best mean score; None without scores.

        With a budget it is what :func:`gradgate.recommend` names and ``gradgate export`` takes: the winner, or the
        cheapest of a tie; without a test, the arm of the finished run with the best score on dev. ``answer``
        names the members of the tie, and says whether the difference is significant.
        """
        from gradgate.study.best_run import recommended_arm
        from gradgate.study.budget.file import read_budget

        budget = read_budget(self.path)
        if budget is not None and (found := recommended_arm(self.path, budget.verdict)) is not None:
            return found
        best = self._report.study.best
        return best[0].name if best else None

    @cached_property
    def counts(self) -> RunCounts:
        """The numbers of runs that have ``finished``, ``failed`` or are ``paused``."""
        from gradgate.study.compare import count_runs

        return count_runs(self.path)

    def runs(self) -> Any:
        """Return one row per run with its state and its scores on every split, as a ``pandas.DataFrame``."""
        from gradgate.study.export import flat, records

        return data_frame(flat(records(self.path)))

    def _read(self) -> StudyResults:
        from gradgate.study.pooled import read_pooled

        return read_pooled(self.path)

    def _heading(self) -> str:
        from gradgate.study.imported import subject

        results = self._report.study.results
        study = results.study
        arms, seeds = len(study.arm_names), len(study.seeds)
        finished = f"{results.count(RunState.FINISHED)} of {len(results.runs)} runs finished"
        amount = f"{arms} methods × {seeds} seeds, {finished}"
        return f"{subject(study.task.name, study.model.label)}, {amount}: {short_name(str(self.path))}"


@overload
def compare(
    model: str | PathLike[str] | Sequence[str] | None = None,
    task: Any = None,
    method: str | Arm | Method | PeftConfig | Sequence[str | Arm | Method | PeftConfig] | None = None,
    *,
    out: str | PathLike[str] = "studies/latest",
    quiet: bool = False,
    dry_run: Literal[False] = False,
    **settings: Unpack[CompareKeywords],
) -> Study: ...


@overload
def compare(
    model: str | PathLike[str] | Sequence[str] | None = None,
    task: Any = None,
    method: str | Arm | Method | PeftConfig | Sequence[str | Arm | Method | PeftConfig] | None = None,
    *,
    out: str | PathLike[str] = "studies/latest",
    quiet: bool = False,
    dry_run: Literal[True],
    **settings: Unpack[CompareKeywords],
) -> Forecast: ...


@takes(CompareSettings, CompareKeywords)
def compare(
    model: str | PathLike[str] | Sequence[str] | None = None,
    task: Any = None,
    method: str | Arm | Method | PeftConfig | Sequence[str | Arm | Method | PeftConfig] | None = None,
    *,
    out: str | PathLike[str] = "studies/latest",
    quiet: bool = False,
    dry_run: bool = False,
    **settings: Unpack[CompareKeywords],
) -> Study | Forecast:
    """Compare methods over seeds, tasks, models and training sizes, and write the report. Called again, it resumes.

    ``gradgate compare`` calls this.

    Args:
        model: as for :func:`gradgate.train`, or several.
        task: as for :func:`gradgate.train`, or a list of several names.
        method: one or several, as texts or methods; the others are compared to the first. With an adapter of its own,
            as ``"lora:r=8 + graddrop"``, it is not crossed with ``adapter``.
        out: the folder of the study. Rows passed in memory are written next to it, into ``OUT-data/``.
        quiet: show no progress.
        dry_run: return a forecast of time, memory and disk instead of training; only rows passed in memory are written.

    Returns:
        The study, which shows itself in a notebook; or the forecast. Runs that failed are in the study's ``counts``
        and in its report.

    Raises:
        UsageError: for an unknown name or a value that is out of range; all of them are named.
        GradgateError: before anything runs, if the data, the model or a method cannot work.
        InterruptedRunError: when Ctrl-C stopped the study after saving the current runs.
    """
    folder = typed_path(out)
    given = [GivenTask.of(each, folder) for each in several(task)]
    named = {
        "method": method,
        "model": [model_name(each) for each in several(model)],
        "task": [each.name for each in given],
    }
    asked = checked_settings(CompareSettings, {**settings, **named})
    for each in given:
        each.write()
    return forecast_of(asked, folder, quiet=quiet) if dry_run else compare_in(asked, folder, quiet=quiet)


def compare_in(asked: CompareSettings, folder: Path, *, quiet: bool = False) -> Study:
    """Compare with checked settings; see :func:`compare`."""
    _check(asked, folder)

    from gradgate.study.planning import Execution, StudyRequest  # with the study's queue

    comparison, execution = StudyRequest.of(asked, folder), Execution.of(asked)

    from gradgate.report import write_report  # torch loads after the request is checked
    from gradgate.study.compare import compare as compare_runs

    with study_progress(quiet) as progress:
        compare_runs(comparison, folder, progress, execution)
    write_report(folder)
    return Study(folder)


def forecast_of(asked: CompareSettings, folder: Path, *, quiet: bool = False) -> Forecast:
    """Forecast a comparison with checked settings; see :func:`compare`."""
    _check(asked, folder)

    from gradgate.study.forecast import forecast
    from gradgate.study.planning import Execution, StudyRequest

    with study_progress(quiet) as progress:
        return forecast(StudyRequest.of(asked, folder), folder, progress, Execution.of(asked))


def _check(asked: CompareSettings, folder: Path) -> None:
    """Refuse what can be seen to be wrong before torch is imported."""
    from gradgate.study.request import check_request
    from gradgate.study.workers.process import refuse_unseen_methods

    asked.require_trackers()
    refuse_unseen_methods()
    check_request(asked, folder)
