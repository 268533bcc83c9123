"""The best way to train on some data, found within some minutes."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from gradgate.api.compare import Study
from gradgate.api.data import model_name, task_name
from gradgate.api.progress import study_progress
from gradgate.api.settings import StoredSettings, takes
from gradgate.api.values import chosen_seeds
from gradgate.errors import UsageError
from gradgate.settings.run import make_config

if TYPE_CHECKING:
    from gradgate.study.recommend.recommendation import Recommendation

_MOST_MINUTES = 60 * 24 * 365


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
        """The method that is recommended: the winner, or what leads a tie."""
        return self.recommendation.config.title

    @property
    def command(self) -> str:
        """The command line that trains it."""
        return self.recommendation.command

    @property
    def python(self) -> tuple[str, ...]:
        """Lines of Python that train it."""
        return self.recommendation.python

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.recommendation.text}"

    def _lines(self) -> list[str]:
        return [self.command, "", *self.python]


@takes(StoredSettings)
def recommend(
    model: str | PathLike[str] | None = None,
    task: Any = None,
    *,
    minutes: float = 30.0,
    seeds: int | str | Sequence[int] = 5,
    out: str | PathLike[str] = "studies/recommended",
    quiet: bool = False,
    **settings: Unpack[StoredSettings],
) -> Recommended:
    """Find the best way to train on some data within some minutes. Called again, it goes on.

    Full fine-tuning, freezing, gradual unfreezing, GradDrop, LISA, LoRA and Houlsby adapters race at rates that suit
    the model's size. What the model refuses or the device has no memory for is left out. ``gradgate recommend`` calls
    this.

    Args:
        model: as for :func:`gradgate.train`.
        task: as for :func:`gradgate.train`.
        minutes: how long to train, by the clock. An eighth of one run of each method is trained in any case.
        seeds: at most so many runs of each method, each with its own seed; or the seeds themselves.
        out: the folder of the study. Rows are written beside it, into ``OUT-data/``.
        quiet: show no progress.

    Returns:
        The study, with ``best``, and the ``command`` and the lines of ``python`` that train it.

    Raises:
        UsageError: for a value that is out of range, or if fewer than two methods can be trained here.
        RunError: if every method failed.
        InterruptedRunError: when Ctrl-C stopped the study after saving the current runs.

    Example:
        >>> import gradgate as gg
        >>> found = gg.recommend(task="tickets.csv", minutes=20)  # doctest: +SKIP
        >>> print(found.command)  # doctest: +SKIP
    """
    if not 0 < minutes <= _MOST_MINUTES:
        raise UsageError(f"--minutes {minutes:g}: expected more than 0 and at most {_MOST_MINUTES:,}, such as 30.")
    from gradgate.study.workers.process import refuse_unseen_methods

    refuse_unseen_methods()
    folder, given = Path(fspath(out)), dict(settings)
    given["model"] = None if model is None else model_name(model)
    given["task"] = None if task is None else task_name(task, folder)
    config, chosen = make_config(**given), chosen_seeds(seeds)

    from gradgate.training.named_tasks import check_tasks

    check_tasks(config)

    from gradgate.report import write_report  # torch loads after the settings are checked
    from gradgate.study.recommend.recommendation import recommend as race

    with study_progress(quiet) as progress:
        found = race(config, minutes, chosen, folder, progress)
    write_report(folder)
    return Recommended(folder, found)
