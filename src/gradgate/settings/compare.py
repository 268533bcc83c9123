"""Define the settings of a study: what its runs share, what is crossed, and where it is trained."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from gradgate.errors import UsageError
from gradgate.settings.arms.adapter import AdapterSetting
from gradgate.settings.arms.arm import Arm
from gradgate.settings.base import CheckedSettings, checked_settings, passed
from gradgate.settings.budget import Budget, parse_budget
from gradgate.settings.data import SubjectSettings
from gradgate.settings.fields import AdaptersField, ArmsField, PlacesField
from gradgate.settings.run import RunConfig, SharedSettings
from gradgate.settings.unused import check_searched, check_unused
from gradgate.settings.values import read_search, read_seeds, read_train_sizes, repeated, several

QUEUE_VARIABLE = "GRADGATE_QUEUE"
OLD_VARIABLE = "GRADGATE_STORE"
_MOST_MINUTES = 60 * 24 * 365

Texts = Annotated[tuple[str, ...], BeforeValidator(lambda given: tuple(str(each) for each in several(given)))]
SeedsField = Annotated[tuple[int, ...], BeforeValidator(lambda given: tuple(read_seeds(given)))]
SizesField = Annotated[tuple[int | None, ...], BeforeValidator(lambda given: tuple(read_train_sizes(given)))]
SearchField = Annotated[tuple[str, ...], BeforeValidator(lambda given: tuple(read_search(given)))]


def also(setting: str, more: str) -> str:
    """Return the description of a setting of one run, and what a request of several adds to it."""
    field = RunConfig.model_fields[setting]
    default = "" if field.default is None else f" [default: {field.default}]"
    return f"{field.description}; {more}{default}"


class CrossedData(CheckedSettings):
    """The tasks, models and training sizes that a study crosses."""

    section: ClassVar[str] = "data"

    model: PlacesField = Field((), description=also("model", "repeat to compare on several"))
    task: PlacesField = Field(
        (),
        description=also("task", "repeat to compare on several, with one folder per task, named after it, in data="),
    )
    train_size: SizesField = Field(
        (),
        description=also("train_size", "repeat to compare several sizes; 'all' takes every row"),
        json_schema_extra={"metavar": "<int|all>"},
    )

    @field_validator("model", "task")
    @classmethod
    def _each_once(cls, asked: Any, info: ValidationInfo) -> Any:
        named = [each for each in asked if isinstance(each, str)]
        if (again := repeated(named)) is not None:
            raise UsageError(f"{info.field_name}= lists {again} twice. List each once.")
        return asked


class CrossedMethods(CheckedSettings):
    """The methods and adapters that a study crosses."""

    section: ClassVar[str] = "method"

    method: ArmsField = Field(
        (),
        description="A method, an adapter, or both, such as gradual:every=50, lora:r=8 or 'lora:r=8 + graddrop'; "
        "repeat for several. One that names an adapter is not crossed with adapter=. The option lr=1e-3 "
        "sets its own learning rate.",
    )
    adapter: AdaptersField = Field(
        (),
        description="Run every method on this adapter: a bottleneck adapter such as houlsby:size=64, or one of PEFT's: "
        "lora:r=8, dora, rslora, ia3, shira or peft:TYPE,r=4; repeat for several, with 'none' for the model "
        "itself. The option lr=1e-3 sets this adapter's own learning rate: adapters need a higher one than "
        "fine-tuning, LoRA about ten times as high. search='lr=...' finds one for each.",
    )
    sweep: str | None = Field(
        None,
        description="A series of methods: 'freeze' is full, then freeze:layers=1, 2, ... down to the head alone; "
        "'freeze:step=3' takes every third of these.",
    )

    @field_validator("method", "adapter")
    @classmethod
    def _once(cls, asked: Any, info: ValidationInfo) -> Any:
        """Refuse a method or an adapter that is listed twice: a table with both would show one result as two."""
        for place, each in enumerate(asked):
            if each in asked[:place]:
                first, second = _name(asked[asked.index(each)]), _name(each)
                what = f"{first} twice" if first == second else f"{first} and {second}, which train the same"
                raise UsageError(f"{info.field_name}= lists {what}. Leave one out, or give one other options.")
        return asked


def _name(arm: Arm | AdapterSetting | None) -> str:
    return arm.name if isinstance(arm, Arm) else str(arm or "none")


class SearchSettings(CheckedSettings):
    """The settings that a study tries for each method before it compares them."""

    section: ClassVar[str] = "study"

    search: SearchField = Field(
        (),
        description="Try the same settings for every method first, and compare the methods at their best ones on dev: "
        "'lr=1e-5,2e-5,5e-5', or the range 'lr=1e-5..1e-4' with trials=; repeat for several settings. Generation "
        "tasks search 'lr=2e-5,1e-4,5e-4,2e-3,1e-2' by default, unless lr= is given. With budget=, each method "
        "with each setting is an arm, and the worse ones are dropped early.",
    )
    trials: int | None = Field(None, ge=1, description="Number of settings to draw from the ranges of search=.")
    search_seeds: int = Field(1, ge=1, description="Runs (seeds) per setting of search=.")
    prune: bool = Field(
        False, description="Stop runs of search= whose dev scores are below the median after half of their steps."
    )

    @model_validator(mode="after")
    def _searches_something(self) -> SearchSettings:
        """Refuse what says how to search if nothing is searched, instead of training without it."""
        how = {
            "trials": self.trials is not None,
            "search_seeds": self.search_seeds != 1,
            "prune": self.prune,
        }
        asked = [name for name, is_given in how.items() if is_given and not self.search]
        if asked:
            space = "lr=1e-5..1e-4" if self.trials else "lr=1e-5,1e-4"
            raise UsageError(
                f"{asked[0]}={getattr(self, asked[0])} says how search= tries settings, but nothing is searched. Add "
                f"search='{space}', or leave {asked[0]}= out."
            )
        return self


class BudgetSettings(CheckedSettings):
    """The share of its grid, or the time, that a study may train."""

    section: ClassVar[str] = "study"

    budget: float | None = Field(
        None,
        description="Train at most this share of the grid's optimizer steps, such as 0.1. Every method is trained "
        "for an eighth, a quarter or half of its steps, or in full, whichever the budget allows; the best "
        "ones get the remaining steps and seeds. If every method has at least one full run, a test on dev decides "
        "whether one is better than all others. Run again with a larger share to continue; 1 trains "
        "every run.",
    )
    budget_steps: int | None = Field(None, description="The budget as a total number of optimizer steps.")
    budget_time: str | None = Field(
        None,
        description="The budget as a time, such as 30m or 1h30m. An eighth of one run of each method is trained "
        "first and timed; this turns the time into steps, which stay fixed when the study resumes.",
        json_schema_extra={"metavar": "<time>"},
    )

    @model_validator(mode="after")
    def _one_budget(self) -> BudgetSettings:
        parse_budget(self.budget, self.budget_steps, self.budget_time)
        return self

    @property
    def total_budget(self) -> Budget | None:
        """The budget; None without one."""
        return parse_budget(self.budget, self.budget_steps, self.budget_time)


class QueueSettings(CheckedSettings):
    """The database of a study's queue."""

    section: ClassVar[str] = "study"

    queue: str | None = Field(
        None,
        description="database of the study's queue, such as postgresql+psycopg://user:password@host/database; by "
        f"default ${QUEUE_VARIABLE}, or else a SQLite file in the study's folder",
    )

    @model_validator(mode="before")
    @classmethod
    def _variable(cls, values: Any) -> Any:
        """Take the address of the environment if none is given."""
        if OLD_VARIABLE in os.environ:
            raise UsageError(f"{OLD_VARIABLE} is not read any more. Set {QUEUE_VARIABLE} to the address of the queue.")
        found = os.environ.get(QUEUE_VARIABLE)
        if not found or not isinstance(values, dict) or values.get("queue") is not None:
            return values
        return {**values, "queue": found}

    @field_validator("queue")
    @classmethod
    def _an_address(cls, address: str | None) -> str | None:
        if address is not None and "://" not in address:
            raise UsageError(
                f"queue={address!r}: expected the address of a database server, such as "
                f"postgresql+psycopg://user:password@host/database."
            )
        return address


class LocalSettings(QueueSettings):
    """Settings of a study whose runs are trained on this machine."""

    section: ClassVar[str] = "study"

    workers: int = Field(1, ge=1, description="Number of runs to train at the same time.")


class WorkerSettings(LocalSettings):
    """Everything that a worker of a study is asked for."""

    section: ClassVar[str] = "study"

    wait: bool = Field(False, description="Keep waiting for runs that are added later.")
    trust_remote_code: bool = Field(False, description="Run Python code from the models' hub repositories.")


class ExecutionSettings(LocalSettings):
    """Settings of the machines that train the runs of a study."""

    section: ClassVar[str] = "study"

    ray: str | None = Field(
        None, description="Train on a Ray cluster: its host:port, auto, or local to start Ray on this machine."
    )
    gpus_per_run: float | None = Field(
        None,
        ge=0.0,
        description="GPUs per run with ray=; 0.5 puts two runs on one GPU. By default 1 if the cluster has any, and 0 "
        "with device=cpu.",
    )
    grace: int = Field(
        30, ge=1, description="Seconds without a heartbeat after which a worker's run goes to another worker."
    )

    @model_validator(mode="after")
    def _of_one_place(self) -> ExecutionSettings:
        if self.ray is None and self.gpus_per_run is not None:
            raise UsageError("gpus_per_run= is for a Ray cluster. Pass ray= too, or leave it out.")
        if self.ray is not None and self.workers > 1:
            raise UsageError(
                f"workers={self.workers} and ray= cannot be combined: the cluster trains as many runs at a time as its "
                f"CPUs and GPUs allow. Leave out one of them."
            )
        return self


class CompareSettings(ExecutionSettings, BudgetSettings, SearchSettings, SharedSettings, CrossedMethods, CrossedData):
    """Everything that a comparison is asked for."""

    section: ClassVar[str] = "study"

    seeds: SeedsField = Field(
        (0, 1, 2),
        description="Number of seeds (3 means 0, 1, 2), or the seeds themselves (0,7,42; or 7, for one).",
        json_schema_extra={"default": "3", "text": True},
    )

    @model_validator(mode="after")
    def _of_runs(self) -> CompareSettings:
        check_unused(self.run)
        check_searched(self.search, self.run)
        return self

    @cached_property
    def run(self) -> RunConfig:
        """The settings that all runs share, with the first task, model and training size."""
        return self.run_with()

    def run_with(self, **subject: Any) -> RunConfig:
        """Return the settings that all runs share.

        Args:
            subject: task and model in place of those that are not given.

        Raises:
            UsageError: if they do not go together.
        """
        first = {name: getattr(self, name)[0] for name in ("task", "model") if getattr(self, name)}
        sizes = {"train_size": self.train_size[0]} if len(self.train_size) == 1 else {}
        return checked_settings(RunConfig, {**subject, **first, **sizes, **passed(self, SharedSettings)})


class RecommendSettings(SharedSettings, SubjectSettings):
    """Everything that a recommendation is asked for."""

    section: ClassVar[str] = "study"

    minutes: float = Field(
        30.0,
        gt=0,
        le=_MOST_MINUTES,
        description="Wall-clock time for everything: timing the first steps, the comparison, the final model and its "
        "scores. First, a part of it is spent on estimating what this time can decide on this machine.",
        json_schema_extra={"metavar": "<minutes>"},
    )
    seeds: SeedsField = Field(
        (0, 1, 2, 3, 4),
        description="Maximum number of seeds per method, or the seeds themselves.",
        json_schema_extra={"default": "5", "text": True},
    )
    train: bool = Field(
        True, description="Train a final model with the recommended method; with --no-train, stop after the comparison."
    )

    @model_validator(mode="after")
    def _of_runs(self) -> RecommendSettings:
        check_unused(self.run)
        return self

    @cached_property
    def run(self) -> RunConfig:
        """The settings that all arms share."""
        return checked_settings(RunConfig, passed(self, SharedSettings) | passed(self, SubjectSettings))


class ReproduceSettings(SharedSettings):
    """The settings of runs that replace those of a preset."""

    section: ClassVar[str] = "data"

    train_size: int | None = Field(None, ge=1, description=SubjectSettings.model_fields["train_size"].description)
