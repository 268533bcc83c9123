"""Find the best way to train on some data within some minutes, and train it."""

from __future__ import annotations

import time
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from gradgate.api.compare import Study
from gradgate.api.data import GivenTask, model_name
from gradgate.api.progress import study_progress
from gradgate.api.train import Run
from gradgate.places import typed_path
from gradgate.settings.base import checked_settings
from gradgate.settings.compare import RecommendSettings
from gradgate.settings.keywords import RecommendKeywords
from gradgate.settings.signature import takes

if TYPE_CHECKING:
    from gradgate.study.recommend.recommendation import Recommendation


class Recommended(Study):
    """The study that :func:`recommend` made, and what it recommends.

    Attributes:
        recommendation: the verdict, the settings of what won, what was left out and why.
    """

    def __init__(self, path: str | PathLike[str], recommendation: Recommendation) -> None:
        super().__init__(path)
        self.recommendation = recommendation

    @property
    def best(self) -> str:
        """The arm that is recommended: the winner, or the cheapest of a tie.

        Without a test, it is the arm of the finished run with the best score on dev.
        """
        return self.recommendation.arm

    @property
    def run(self) -> Run | None:
        """The trained model of that arm; None if nothing was to be trained and the race has no whole run of it."""
        model = self.recommendation.model
        return None if model is None else Run(model.folder)

    @property
    def command(self) -> str:
        """The command line that trains it."""
        return self.recommendation.command

    @property
    def python(self) -> tuple[str, ...]:
        """Lines of Python that train it."""
        return self.recommendation.python

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.recommendation.text()}"

    def _lines(self) -> list[str]:
        use = self.recommendation.use
        return [*([use, ""] if use is not None else []), self.command, "", *self.python]


@takes(RecommendSettings, RecommendKeywords)
def recommend(
    model: str | PathLike[str] | None = None,
    task: Any = None,
    *,
    out: str | PathLike[str] = "studies/recommended",
    quiet: bool = False,
    **settings: Unpack[RecommendKeywords],
) -> Recommended:
    """Find the best way to train on some data within some minutes, and train it. Called again, it resumes.

    Full fine-tuning, a probe, the head, freezing, gradual unfreezing, GradDrop, LISA, LoRA and bottleneck adapters
    compete at rates that suit the model's size. Arms that the model does not support, that do not fit the device's
    memory, or that there is no time for are left out. ``gradgate recommend`` calls this.

    Args:
        model: as for :func:`gradgate.train`.
        task: as for :func:`gradgate.train`.
        out: the folder of the study. Rows passed in memory are written next to it, into ``OUT-data/``.
        quiet: show no progress.

    Returns:
        The study, with ``best``, the trained ``run``, and the ``command`` and the lines of ``python`` that train it.

    Raises:
        UsageError: for a value that is out of range, or if fewer than two arms can be trained here, or in the minutes.
        RunError: if every method failed.
        InterruptedRunError: when Ctrl-C stopped the study after saving the current runs.

    Example:
        >>> import gradgate as gg
        >>> found = gg.recommend(task="tickets.csv", minutes=20)  # doctest: +SKIP
        >>> found.run.predict("new.csv")  # doctest: +SKIP
    """
    folder = typed_path(out)
    given = GivenTask.of(task, folder)
    asked = checked_settings(RecommendSettings, {**settings, "model": model_name(model), "task": given.name})
    given.write()
    return recommend_in(asked, folder, quiet=quiet)


def recommend_in(
    asked: RecommendSettings, folder: Path, *, quiet: bool = False, began: float | None = None
) -> Recommended:
    """Recommend with checked settings; see :func:`recommend`.

    Args:
        asked: the settings.
        folder: of the study.
        quiet: show no progress.
        began: when the process started, by :func:`time.monotonic`, for which its minutes count; now by default.
    """
    began = time.monotonic() if began is None else began
    from gradgate.study.workers.process import refuse_unseen_methods
    from gradgate.training.named_tasks import check_tasks

    refuse_unseen_methods()
    asked.require_trackers()
    check_tasks(asked.run)

    from gradgate.report import write_report  # torch loads after the settings are checked
    from gradgate.study.recommend.recommendation import recommend as find_best

    with study_progress(quiet) as progress:
        found = find_best(asked.run, asked.minutes, asked.seeds, folder, progress, began=began, trains=asked.train)
    write_report(folder)
    return Recommended(folder, found)
