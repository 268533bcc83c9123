"""Train once, and look at the run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from typing_extensions import Unpack

from gradgate.api.data import GivenTask, model_name
from gradgate.api.progress import run_progress, study_progress
from gradgate.api.pushing import push_run, refuse_several_models
from gradgate.api.shown import ResultView, data_frame
from gradgate.distributed import launch
from gradgate.errors import UsageError
from gradgate.evaluation.export.hub_repository import HubRepository, check_public, check_push
from gradgate.places import short_name, typed_path
from gradgate.runs.folder import RunFolder
from gradgate.settings.base import checked_settings
from gradgate.settings.finished import Dtype, EvaluateSettings, ExportSettings, Form, PredictSettings
from gradgate.settings.keywords import EvaluateKeywords, PredictKeywords, RunKeywords
from gradgate.settings.run import RunConfig, make_config
from gradgate.settings.signature import takes
from gradgate.settings.unused import check_unused, check_unused_by_probe
from gradgate.tasks.languages import average_label
from gradgate.training.named_tasks import check_tasks

if TYPE_CHECKING:
    from peft import PeftConfig

    from gradgate.methods import Method
    from gradgate.report.table import Table
    from gradgate.runs.records import RunRecord
    from gradgate.settings.arms.arm import Arm
    from gradgate.study.forecast import Forecast
    from gradgate.study.results import StudyResults


@dataclass(frozen=True)
class BestWeights:
    """The weights that scored best on dev; all scores of the run are their scores.

    Attributes:
        step: optimizer steps after which they were kept.
        metric: that selected them.
        dev: its value on dev.
    """

    step: int
    metric: str
    dev: float


class Run(ResultView):
    """A run in its folder, as :func:`train` returns it; ``Run(path)`` opens a finished one.

    It shows itself in a notebook. Attributes besides these methods: ``path``, the folder.

    Args:
        path: the folder of a run that has finished.

    Raises:
        RunError: if something that is read is missing or damaged.

    Example:
        >>> import gradgate as gg
        >>> run = gg.train(steps=2, batch_size=4, train_size=40, languages="en", out="runs/first", quiet=True)
        >>> run.best.step
        2
        >>> sorted(run.scores["tests"])
        ['test.en']
        >>> run.report("first.html").name
        'first.html'
    """

    def load(self, *, merge: bool = False, of_task: str | None = None, trust_remote_code: bool = False) -> Any:
        """Load the trained model and its tokenizer.

        Args:
            merge: merge a PEFT adapter into the weights.
            of_task: one of the tasks that the run trained together.
            trust_remote_code: run code that comes with the model.

        Returns:
            The model and the tokenizer of transformers. The model is in evaluation mode; it is a ``PeftModel`` if a
            PEFT adapter is not merged. A bottleneck adapter is active in the model.

        Raises:
            RunError: if the run has not finished, or kept no model.
            UsageError: for a bottleneck adapter with ``merge``.
        """
        RunFolder(self.path).require_finished()
        from gradgate.evaluation.finished import load_finished
        from gradgate.evaluation.plain import plain_model
        from gradgate.training.pretrained import silence_libraries

        silence_libraries()
        run = load_finished(self.path, of_task=of_task, trust_remote_code=trust_remote_code)
        return plain_model(run, merge=merge), run.tokenizer

    @takes(PredictSettings, PredictKeywords)
    def predict(self, rows: Any, *, quiet: bool = True, **settings: Unpack[PredictKeywords]) -> Any:
        """Predict rows, as :func:`gradgate.predict` does."""
        from gradgate.api.finished import predict

        return predict(self, rows, quiet=quiet, **settings)

    @takes(EvaluateSettings, EvaluateKeywords)
    def evaluate(
        self,
        rows: Any = None,
        *,
        out: str | PathLike[str] | None = None,
        quiet: bool = True,
        **settings: Unpack[EvaluateKeywords],
    ) -> dict[str, Any]:
        """Score the run on test splits, languages, or labelled rows, as :func:`gradgate.evaluate` does."""
        from gradgate.api.finished import evaluate

        return evaluate(self, rows, out=out, quiet=quiet, **settings)

    def export(
        self,
        out: str | PathLike[str],
        *,
        to: Form | None = None,
        dtype: Dtype | None = None,
        trust_remote_code: bool = False,
    ) -> Path:
        """Write the model for other libraries, as ``gradgate export`` does; return the folder.

        Args:
            out: a folder that is absent or empty.
            to: ``"transformers"``, ``"peft"``, ``"adapterhub"`` or ``"delta"``; by default what fits the run.
            dtype: of the weights; by default as the run stored them.
            trust_remote_code: run code that comes with the model.

        Raises:
            UsageError: for a form that the run cannot take; the message says which it can.
            RunError: if the run has not finished or kept no model, or the folder is not empty.
        """
        asked = checked_settings(ExportSettings, {"to": to, "dtype": dtype, "trust_remote_code": trust_remote_code})
        RunFolder(self.path).require_finished()
        from gradgate.evaluation.export.export import export
        from gradgate.study.card_findings import card_findings

        folder = typed_path(out)
        export([self.path], folder, asked, findings=card_findings)
        return folder

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool = True,
        to: Form | None = None,
        dtype: Dtype | None = None,
        trust_remote_code: bool = False,
    ) -> str:
        """Push what :meth:`export` writes to the Hugging Face hub, as ``gradgate export --push-to-hub`` does.

        The card has the task, the scores with intervals, the method, what learned, what was forgotten, the cost, the
        fingerprint of the data, the command, and the verdicts of the study if the run is one of a study.

        Args:
            name: ``user/name``, or ``name`` in the namespace of the token's user. The repository is created; one that
                gradgate filled before gets a new commit.
            private: create a private repository. Only False makes the model public.
            to: as for :meth:`export`.
            dtype: of the weights; by default as the run stored them.
            trust_remote_code: run code that comes with the model.

        Returns:
            The address of the repository.

        Raises:
            UsageError: without a token, with HF_HUB_OFFLINE, for a repository with other files, or a run of several
                tasks.
            RunError: if the run has not finished or kept no model, or the hub refuses or cannot be reached.
        """
        asked = checked_settings(ExportSettings, {"to": to, "dtype": dtype, "trust_remote_code": trust_remote_code})
        folder = RunFolder(self.path)
        folder.require_finished()
        refuse_several_models(str(self._record.config["task"]), name)
        return push_run(self.path, HubRepository.create(name, private=private), asked)

    @cached_property
    def scores(self) -> dict[str, Any]:
        """The contents of ``scores.json``: metrics on dev and on each test split, and what the run cost."""
        from gradgate.runs.records import to_json
        from gradgate.runs.scores import read_scores

        record: dict[str, Any] = to_json(read_scores(self._finished().scores_file))
        return record

    @cached_property
    def config(self) -> RunConfig:
        """The settings of the run."""
        return make_config(**self._record.config)

    @property
    def _record(self) -> RunRecord:
        from gradgate.runs.records import RunRecord, read_record

        return read_record(self._finished().run_file, RunRecord)

    @property
    def best(self) -> BestWeights:
        """The checkpoint that scored best on dev."""
        scores = self.scores
        return BestWeights(scores["best_step"], scores["metric"], scores["dev"][scores["metric"]])

    @property
    def history(self) -> Any:
        """Loss and scores while it trained, one row per line of ``history.jsonl``, as a ``pandas.DataFrame``."""
        from gradgate.runs.history import read_lines

        return data_frame(read_lines(self._finished().history_file))

    @property
    def answer(self) -> str:
        """The scores in a sentence."""
        scores, best = self.scores, self.best
        cost, split = scores["cost"], self._report.study.split
        found = {**scores["tests"], **scores.get("averages", {})}
        on_test = f"{best.metric} {found[split][best.metric]:.4f} on {average_label(split)}, " if split in found else ""
        return (
            f"{on_test}{best.metric} {best.dev:.4f} on dev, best at step {best.step} of {cost['steps']}; "
            f"{cost['trainable_share']:.1%} of the weights learned on average; {cost['seconds_per_step'] * 1e3:.1f} ms "
            f"per step."
        )

    def table(self, name: str = "scores") -> Any:
        """Return a table as a ``pandas.DataFrame``: by default one row per split and average with each metric.

        Args:
            name: ``"scores"``, or one of ``tables``, those of the report.

        Raises:
            UsageError: if there is no such table.
            MissingPandasError: if pandas is not installed.
        """
        if name != "scores":
            return super().table(name)
        scores = self.scores
        rows = {**scores.get("averages", {}), **scores["tests"], "dev": scores["dev"]}
        return data_frame({"split": split, **metrics} for split, metrics in rows.items())

    def _read(self) -> StudyResults:
        from gradgate.study.results import read_run

        return read_run(self._finished().path)

    def _finished(self) -> RunFolder:
        folder = RunFolder(self.path)
        folder.require_scores()
        return folder

    def _heading(self) -> str:
        study = self._report.study.results.study
        return f"{study.arm_names[0]} on {study.task.name}, seed {study.seeds[0]}: {short_name(str(self.path))}"

    def _printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        table = next(table for table in self._report.tables if table.name == "metrics")
        return [(table, tuple(column.key for column in table.columns[1:]))]

    def _remarks(self) -> list[str]:
        return []


@overload
def train(
    model: str | PathLike[str] | None = None,
    task: Any = None,
    method: str | Arm | Method | PeftConfig | None = None,
    *,
    out: str | PathLike[str] = "runs/latest",
    quiet: bool = False,
    push_to_hub: str | None = None,
    public: bool = False,
    dry_run: Literal[False] = False,
    **settings: Unpack[RunKeywords],
) -> Run: ...


@overload
def train(
    model: str | PathLike[str] | None = None,
    task: Any = None,
    method: str | Arm | Method | PeftConfig | None = None,
    *,
    out: str | PathLike[str] = "runs/latest",
    quiet: bool = False,
    push_to_hub: str | None = None,
    public: bool = False,
    dry_run: Literal[True],
    **settings: Unpack[RunKeywords],
) -> Forecast: ...


@takes(RunConfig, RunKeywords)
def train(
    model: str | PathLike[str] | None = None,
    task: Any = None,
    method: str | Arm | Method | PeftConfig | None = None,
    *,
    out: str | PathLike[str] = "runs/latest",
    quiet: bool = False,
    push_to_hub: str | None = None,
    public: bool = False,
    dry_run: bool = False,
    **settings: Unpack[RunKeywords],
) -> Run | Forecast:
    """Train once: one model, task, method and seed. Called again with the same folder, it resumes where it stopped.

    ``gradgate train`` calls this. Launched in several processes, each calls it.

    Args:
        model: hub name or folder of a pretrained model; by default the embedded ``"sample"``.
        task: name from ``gradgate tasks``, a data file, a folder or a YAML file, by default the embedded ``"sample"``;
            or rows: a DataFrame, a ``datasets.Dataset``, a list of dicts, or a dict of these under ``train``,
            ``dev`` and ``test``. One table is divided into the three, 80/10/10 or as ``split`` says.
        method: what learns when: a text such as ``"gradual:every=50"``, ``"lora:r=8"`` or
            ``"houlsby:size=64 + gradual"``, a method, or a ``peft.PeftConfig``; by default everything.
        out: the folder for everything that is written. Rows passed in memory are written next to it, into
            ``OUT-data/``.
        quiet: show no progress.
        push_to_hub: push the exported model with its card to this repository, as :meth:`Run.push_to_hub` does. The
            repository is created before the training, so that a missing permission shows early.
        public: create that repository public; private by default.
        dry_run: return a forecast of time, memory and disk instead of training; only rows passed in memory are written.

    Returns:
        The run, which shows itself in a notebook; or the forecast.

    Raises:
        UsageError: for an unknown name or a value that is out of range; all of them are named.
        GradgateError: for anything else that a user can correct; the folder keeps what was saved before.
        InterruptedRunError: when Ctrl-C stopped the run after saving it.
    """
    folder = typed_path(out)
    given = GivenTask.of(task, folder)
    config = checked_settings(RunConfig, {**settings, "method": method, "model": model_name(model), "task": given.name})
    given.write()
    if dry_run:
        return forecast_of(config, folder, quiet=quiet)
    return train_in(config, folder, quiet=quiet, push_to_hub=push_to_hub, public=public)


def train_in(
    config: RunConfig, folder: Path, *, quiet: bool = False, push_to_hub: str | None = None, public: bool = False
) -> Run:
    """Train with checked settings; see :func:`train`."""
    RunFolder(folder).refuse_other_files()
    check_public(push_to_hub, public)
    _check(config, folder)
    repository = None if push_to_hub is None else _repository(config, push_to_hub, public)

    from gradgate.training.run import train as train_run  # torch loads after the settings are checked

    with run_progress(quiet or not launch.is_first()) as progress:
        train_run(config, folder, progress)
        if repository is not None:
            progress.note(f"The model is at {push_run(folder, repository, ExportSettings())}")
    return Run(folder)


def _check(config: RunConfig, folder: Path) -> None:
    """Check what a run needs before it begins; one that is done needs nothing."""
    if RunFolder(folder).is_done(config):
        return
    config.require_trackers()
    config.check_tapt()
    check_unused(config)
    check_unused_by_probe(config)
    check_tasks(config)


def _repository(config: RunConfig, name: str, public: bool) -> HubRepository | None:
    """Create the repository that a run is pushed to; None in processes but the first."""
    if not config.keep_model:
        raise UsageError(f"push_to_hub={name} and keep_model=False cannot be combined: there is no model to push.")
    refuse_several_models(config.task, name)
    check_push(name)
    return HubRepository.create(name, private=not public) if launch.is_first() else None


def forecast_of(config: RunConfig, folder: Path, *, quiet: bool = False) -> Forecast:
    """Forecast a training with checked settings; see :func:`train`."""
    launch.refuse("gradgate train --dry-run", "forecasts a run")
    _check(config, folder)

    from gradgate.study.forecast import forecast_run

    with study_progress(quiet) as progress:
        return forecast_run(config, folder, progress)
