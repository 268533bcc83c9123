"""Find the best way to train on some data within a number of minutes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.settings.arm import Arm
from gradgate.settings.budget import Budget
from gradgate.settings.run import RunConfig
from gradgate.study.budget.file import BudgetRecord, read_budget
from gradgate.study.grid import Grid
from gradgate.study.progress import StudyProgress
from gradgate.study.recommend.portfolio import LeftOut, Portfolio, portfolio

_OUT = "runs/recommended"


@dataclass(frozen=True)
class Recommendation:
    """What to train.

    Attributes:
        folder: of the study.
        budget: its record, with the verdict.
        config: of the arm that is recommended: the winner, or what leads a tie.
        cheapest: of the cheapest arm of a tie, where that is another one.
        left_out: what was not tried.
    """

    folder: Path
    budget: BudgetRecord
    config: RunConfig
    cheapest: RunConfig | None
    left_out: tuple[LeftOut, ...]

    @property
    def command(self) -> str:
        """The command line that trains it."""
        return command_line(self.config)

    @property
    def python(self) -> tuple[str, ...]:
        """Three lines of Python that train it."""
        values = ", ".join(f"{name}={value!r}" for name, value in _given(self.config).items())
        return ("import gradgate as gg", f"run = gg.train({values}, out={_OUT!r})", "print(run)")

    @property
    def text(self) -> str:
        """The verdict, what was spent, and how to train it, for people."""
        lines = [self.budget.verdict.summary, self.budget.spending, "", "Train it with:", f"  {self.command}"]
        if self.cheapest is not None:
            lines += [f"or the cheapest of the tie, {self.cheapest.arm.name}:", f"  {command_line(self.cheapest)}"]
        return "\n".join([*lines, "or in Python:", *(f"  {line}" for line in self.python)])

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        cheapest = self.cheapest
        return {
            **self.budget.record(),
            "recommended": {"arm": self.config.arm.name, "lr": self.config.peak_lr, "settings": _given(self.config)},
            "command": self.command,
            "python": list(self.python),
            "cheapest": cheapest and {"arm": cheapest.arm.name, "command": command_line(cheapest)},
            "left_out": [vars(each) for each in self.left_out],
            "study": str(self.folder),
        }


def recommend(
    config: RunConfig, minutes: float, seeds: Sequence[int], out: Path, progress: StudyProgress
) -> Recommendation:
    """Spend a budget on the portfolio that suits the model and its data, and return how to train the best arm.

    Args:
        config: the settings that all arms share; its method, adapter and seed do not count. Where it has no ``lr``,
            the model's size sets one.
        minutes: by the clock, for training. An eighth of one run of each arm is trained in any case.
        seeds: at most one run of each arm for each.
        out: the study folder; an existing study is resumed.
        progress: is called for each run, and with notes on what leads.

    Raises:
        UsageError: if fewer than two arms can be trained here.
        RunError: if every arm failed.
    """
    from gradgate.study.budget.notes import LeaderNotes
    from gradgate.study.compare import compare  # both import torch: what is wrong without it was refused
    from gradgate.study.planning import StudyRequest
    from gradgate.study.recommend.fitting import fitting, subject_of
    from gradgate.training.preview import preview

    budget = Budget(seconds=60 * minutes)
    seen = preview(config)
    chosen = fitting(portfolio(subject_of(config, seen), _given_rate(config)), config, seen)
    if len(chosen.arms) < 2:
        raise UsageError(
            f"There is nothing to choose from: {', '.join(map(str, chosen.arms)) or 'nothing'} can be trained here. "
            f"{' '.join(map(str, chosen.left_out))} Expected two or more; give a smaller batch_size=, max_length= or "
            f"model, or what is missing."
        )
    for each in chosen.left_out:
        progress.note(str(each))
    progress.note(f"Comparing {', '.join(map(str, chosen.arms))}; lr {chosen.lr:g} where an arm has none of its own.")
    base = config.model_copy(update={"lr": chosen.lr})
    compare(StudyRequest(base, chosen.arms, seeds, budget=budget), out, LeaderNotes(out, progress))
    return read_recommendation(out, base, chosen)


def read_recommendation(folder: Path, base: RunConfig, chosen: Portfolio) -> Recommendation:
    """Return what the budget of a study recommends; RunError if no arm is left."""
    budget = read_budget(folder)
    if budget is None or not budget.verdict.winners:
        raise RunError(
            f"No arm of {folder} could be trained, so nothing can be recommended. 'gradgate study failed {folder}' "
            f"says why; mend that and run the same command again."
        )
    found = budget.verdict
    arms = {arm.name: arm for arm in Grid.read(folder).arms}
    cheapest = found.cheapest if found.cheapest not in (None, found.winners[0]) else None
    return Recommendation(
        folder,
        budget,
        _config_of(base, arms[found.winners[0]]),
        None if cheapest is None else _config_of(base, arms[cheapest]),
        chosen.left_out,
    )


def command_line(config: RunConfig) -> str:
    """Return the ``gradgate train`` command with every setting that is not the default."""
    words = ["gradgate", "train"]
    for name, value in _given(config).items():
        flag = "-m" if name == "method" else f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, dict):
            words += [word for key, factor in value.items() for word in (flag, f"{key}={factor}")]
        else:
            words += [flag, str(value)]
    return shlex.join([*words, "--out", _OUT])


def _given(config: RunConfig) -> dict[str, Any]:
    """Return the settings that are not the defaults as plain values, and always model, task, method and rate."""
    record = config.record()
    defaults = {name: field.default for name, field in RunConfig.model_fields.items()}
    always = {name: record[name] for name in ("model", "task", "method", "adapter", "lr") if record[name] is not None}
    rest = {name: value for name, value in record.items() if name not in always and value is not None}
    return always | {name: value for name, value in rest.items() if value != defaults[name]}


def _given_rate(config: RunConfig) -> float | None:
    return config.lr if "lr" in config.model_fields_set else None


def _config_of(base: RunConfig, arm: Arm) -> RunConfig:
    """Return the settings that train an arm."""
    own = {**arm.settings, "seed": 0}
    if arm.adapter is None:
        own["language_adapters"] = None
    return base.model_copy(update=own)
