"""Find the best way to train on some data within a number of minutes, and train it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import DEV
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.budget import Budget
from gradgate.settings.command_line import RECOMMENDED, given_settings, predict_command, train_command, train_lines
from gradgate.settings.run import RunConfig
from gradgate.study.best_run import recommended_arm
from gradgate.study.budget.file import BudgetRecord, read_budget
from gradgate.study.progress import StudyProgress
from gradgate.study.recommend.clock import RaceClock
from gradgate.study.recommend.dev_limit import dev_limit
from gradgate.study.recommend.final_model import FinalModel, find_final, train_finals
from gradgate.study.recommend.portfolio import LeftOut
from gradgate.study.recommend.race import prepare_race
from gradgate.study.recommend.record import RecommendRecord, read_recommend
from gradgate.study.recommend.time_plan import minutes as in_minutes
from gradgate.study.study_file import read_study_file


@dataclass(frozen=True)
class Recommendation:
    """The recommended arm, and the model that was trained.

    Attributes:
        folder: of the study.
        budget: its record, with the verdict.
        arm: that is recommended, by its name in the study: the winner, or the cheapest of a tie. Without a test, the
            arm of the finished run with the best score on dev.
        base: the settings that all arms share.
        asked: the minutes, their plan, and what was left out.
        model: a finished run of the arm; None if nothing was to be trained beyond the race, and the race has none.
        limit: what dev is too small to show; None if it shows a point.
    """

    folder: Path
    budget: BudgetRecord
    arm: str
    base: RunConfig
    asked: RecommendRecord
    model: FinalModel | None
    limit: str | None = None

    @property
    def config(self) -> RunConfig:
        """The settings that train the arm."""
        return _config_of(self.base, self.arm)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The arms that were not tried, and why."""
        return self.asked.left_out

    @property
    def command(self) -> str:
        """The command line that trains it."""
        return train_command(self.config, RECOMMENDED)

    @property
    def python(self) -> tuple[str, ...]:
        """Three lines of Python that train it."""
        return train_lines(self.config, RECOMMENDED)

    @property
    def use(self) -> str | None:
        """The command line that predicts with the trained model; None without one."""
        return predict_command(self.model.folder) if self.model is not None and self.model.is_kept else None

    @property
    def is_of_tie(self) -> bool:
        """Whether several arms remain that may be the best."""
        return not self.budget.verdict.decided and len(self.budget.verdict.winners) > 1

    @property
    def advice(self) -> str:
        """A sentence on which arm to train and why."""
        verdict, name = self.budget.verdict, self.arm
        if verdict.decided:
            return f"Train {name}."
        if not self.is_of_tie and verdict.beaten:
            return f"Train {name}: it is better than the other remaining arms, but nothing shows that it is the best."
        if not self.is_of_tie:
            return f"{name} is the only remaining arm, but nothing shows that it is the best."
        any_of = f"Any of {len(verdict.tied)} arms may be the best: {', '.join(verdict.tied)}."
        if verdict.tested or self.model is None:
            return f"{any_of} Train {name}, the cheapest of the {len(verdict.winners)} remaining."
        return f"{any_of} Nothing was tested. Of those trained in full afterwards, {name} has the best score on dev."

    def text(self, worded: Callable[[str], str] = str) -> str:
        """Return the verdict, what was spent, the model, and how to train it again, for people.

        Args:
            worded: returns a sentence with the parameters it names as the reader writes them; Python's by default.
        """
        verdict = self.budget.verdict
        spent = f"{in_minutes(self.asked.seconds_spent)} of {in_minutes(60 * self.asked.minutes)} were used."
        if verdict.steps_spent >= verdict.steps_of_grid:
            spent = f"{spent} Every run is trained; more seeds= would use more time."
        lines = [verdict.summary, f"{self.budget.spending} {worded(spent)}", *([self.limit] if self.limit else [])]
        lines += ["", self.advice]
        if self.model is not None:
            warning = [worded(self.model.warning)] if self.model.warning else []
            lines += [f"Trained: {self.model.said}.", *warning, f"It is in {self.model.folder}."]
        if self.use is not None:
            lines += ["Use it with:", f"  {self.use}"]
        lines += ["Train it again with:", f"  {self.command}"]
        return "\n".join([*lines, "or in Python:", *(f"  {line}" for line in self.python)])

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        arm = {"arm": self.arm, "lr": self.config.peak_lr, "settings": given_settings(self.config)}
        model = self.model
        return {
            **self.budget.record(),
            "recommended": arm,
            "advice": self.advice,
            "command": self.command,
            "python": list(self.python),
            "run": None if model is None else str(model.folder),
            "model": str(RunFolder(model.folder).model) if model is not None and model.is_kept else None,
            "predict": self.use,
            "warning": None if model is None else model.warning,
            "cheapest": self._cheapest() if self.is_of_tie else None,
            "left_out": [vars(each) for each in self.left_out],
            "minutes": {"asked": self.asked.minutes, "taken": self.asked.seconds_spent / 60},
            "plan": {
                "can_test": self.asked.plan.can_test,
                "minutes_to_test": _in_minutes(self.asked.plan.seconds_to_test),
            },
            "dev_limit": self.limit,
            "study": str(self.folder),
        }

    def _cheapest(self) -> dict[str, Any]:
        name = self.budget.verdict.cheapest or self.arm
        return {"arm": name, "command": train_command(_config_of(self.base, name), RECOMMENDED)}


def recommend(
    config: RunConfig,
    minutes: float,
    seeds: Sequence[int],
    out: Path,
    progress: StudyProgress,
    *,
    began: float | None = None,
    trains: bool = True,
) -> Recommendation:
    """Spend minutes on the arms that suit the model and its data, and train the best arm.

    Args:
        config: the settings that all arms share; its method, adapter and seed do not count. Where it has no ``lr``,
            the model's size sets one.
        minutes: by the clock, for all of it. A study that has spent a part of them resumes with the rest.
        seeds: at most one run of each arm for each.
        out: the study folder; an existing study is resumed.
        progress: is called for each run, and with notes on the plan and on what leads.
        began: when the command started, by :func:`time.monotonic`; now by default.
        trains: train a model of the arm that is recommended, if the race has not done so.

    Raises:
        UsageError: if fewer than two arms can be trained here, or in these minutes.
        RunError: if every arm failed.
    """
    from gradgate.study.budget.notes import LeaderNotes
    from gradgate.study.compare import compare  # both import torch: what is wrong without it was refused
    from gradgate.study.planning import StudyRequest

    began = time.monotonic() if began is None else began
    race = prepare_race(config, minutes, seeds, out, progress, began)
    base = race.base
    arms = [read_arm(name) for name in race.record.arms]
    clock = RaceClock(out, race.record, race.grid, began, progress)
    budget = Budget(steps=race.record.plan.steps_allowed)
    compare(StudyRequest(base, arms, seeds, budget=budget), out, LeaderNotes(out, progress), deadline=clock)
    if trains:
        train_finals(out, _budget_of(out).verdict, clock, progress)
    clock.note()
    return read_recommendation(out, base)


def _budget_of(folder: Path) -> BudgetRecord:
    """Return the budget of a study with its verdict; RunError if no arm is left."""
    budget = read_budget(folder)
    if budget is None or not budget.verdict.winners:
        raise RunError(
            f"No arm of {folder} could be trained, so nothing can be recommended. 'gradgate study failed {folder}' "
            f"says why; fix that and run the same command again."
        )
    return budget


def read_recommendation(folder: Path, base: RunConfig) -> Recommendation:
    """Return what a study recommends; RunError if no arm is left."""
    budget, asked = _budget_of(folder), read_recommend(folder)
    name = recommended_arm(folder, budget.verdict)
    assert asked is not None, "written before the race began"
    assert name is not None, "a study without an arm left is refused before"
    task = read_study_file(folder).task
    return Recommendation(
        folder,
        budget,
        name,
        base,
        asked,
        find_final(folder, name),
        dev_limit(task.rows.get(DEV, 0), task.metric, task.kind),
    )


def _config_of(base: RunConfig, name: str) -> RunConfig:
    """Return the settings that train an arm."""
    arm = read_arm(name)
    own = {**arm.settings, "seed": 0}
    if arm.adapter is None:
        own["language_adapters"] = None
    return base.model_copy(update=own)


def _in_minutes(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 60
