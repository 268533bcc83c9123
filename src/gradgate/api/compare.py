"""Compare methods over seeds, and look at the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from gradgate.api.data import model_name, several, task_name
from gradgate.api.progress import study_progress
from gradgate.api.settings import SharedSettings, takes
from gradgate.api.shown import Shown, data_frame
from gradgate.api.values import chosen_seeds, read_stores, read_train_sizes
from gradgate.errors import UsageError
from gradgate.settings.run import RunConfig, make_config

if TYPE_CHECKING:
    from gradgate.methods import Method
    from gradgate.study.compare import RunCounts
    from gradgate.study.forecast import Forecast
    from gradgate.study.parts import Parts
    from gradgate.study.planning import Comparison, Execution
    from gradgate.study.results import StudyResults


class Study(Shown):
    """A study in its folder: what :func:`compare` returns, and how somebody's is opened.

    It shows itself in a notebook. Attributes besides these methods: ``path``, the folder.

    Args:
        path: the folder of a study, whatever the state of its runs.

    Raises:
        RunError: when something is read that is not there, or is damaged.
    """

    @property
    def best(self) -> str | None:
        """The method with the best mean score, by its name in tables, or the winner of a budget; None without one.

        Whether it is better than chance alone explains is in ``answer``.
        """
        from gradgate.study.budget.file import read_budget

        race = read_budget(self.path)
        if race is not None and race.verdict.winners:
            return race.verdict.winners[0]
        best = self._report.findings.best
        return best[0].name if best else None

    @cached_property
    def counts(self) -> RunCounts:
        """How many runs have ``finished``, ``failed`` or are ``paused``."""
        from gradgate.study.compare import count_runs

        return count_runs(self.path)

    def runs(self) -> Any:
        """One row a run with its state and its scores on every split, as a ``pandas.DataFrame``."""
        from gradgate.study.export import flat, records

        return data_frame(flat(records(self.path)))

    def _read(self) -> StudyResults:
        from gradgate.study.pooled import read_pooled

        return read_pooled(self.path)

    def _heading(self) -> str:
        results = self._report.findings.results
        study = results.study
        arms, seeds = len(study.labels), len(study.seeds)
        finished = f"{results.count('finished')} of {len(results.runs)} runs finished"
        return f"{study.task.name} with {study.model.name}, {arms} methods × {seeds} seeds, {finished}: {self.path}"


@takes(SharedSettings)
def compare(
    model: str | PathLike[str] | Sequence[str] | None = None,
    task: Any = None,
    method: str | Method | Sequence[str | Method] | None = None,
    *,
    adapter: str | Sequence[str] | None = None,
    train_size: int | str | Sequence[int | str] | None = None,
    sweep: str | None = None,
    seeds: int | str | Sequence[int] = 3,
    search: str | Sequence[str] | Mapping[str, Sequence[object]] | None = None,
    trials: int | None = None,
    search_seeds: int = 1,
    prune: bool = False,
    budget: float | None = None,
    budget_steps: int | None = None,
    budget_time: str | None = None,
    out: str | PathLike[str] = "studies/latest",
    workers: int = 1,
    ray: str | None = None,
    gpus_per_run: float = 0.0,
    store: str | Sequence[str] | None = None,
    grace: int = 30,
    quiet: bool = False,
    **settings: Unpack[SharedSettings],
) -> Study:
    """Compare methods over seeds, tasks, models and training sizes, and write the report. Called again, it goes on.

    ``gradgate compare`` calls this.

    Args:
        model: as for :func:`gradgate.train`, or several.
        task: as for :func:`gradgate.train`, or a list of several names.
        method: one or several, as texts or methods; the first is what the others are compared to. With an adapter of
            its own, as ``"lora:r=8 + graddrop"``, it is not crossed with ``adapter``.
        adapter: one or several, as ``"houlsby:size=64"``; every method runs on each. ``"none"`` is the model itself.
        train_size: train on this many rows; or several, with ``"all"`` for every row.
        sweep: a row of methods, as ``"freeze"`` or ``"freeze:step=3"``.
        seeds: how many, or the seeds themselves.
        search: settings to try first for each method, as ``{"lr": [1e-5, 5e-5]}`` or ``"lr=1e-5..1e-4"``.
        trials: settings to draw from the ranges of ``search``.
        search_seeds: runs of each setting of ``search``.
        prune: end runs of ``search`` early whose dev scores are below the median so far.
        budget: train at most this share of the grid's optimizer steps, such as 0.1.
        budget_steps: the same as a number of optimizer steps.
        budget_time: the same as a time, such as ``"1h30m"``.
        out: the folder of the study. Rows are written beside it, into ``OUT-data/``.
        workers: runs that are trained at the same time.
        ray: a Ray cluster to train on: ``host:port``, ``auto`` or ``local``.
        gpus_per_run: GPUs that one run takes on ``ray``.
        store: how models are kept (``auto``, ``delta``, ``model``), or the address of a database server that keeps
            the queue; or both.
        grace: seconds without a sign of life after which a worker's run is given to another.
        quiet: show no progress.

    Returns:
        The study, which shows itself in a notebook. Runs that failed are in its ``counts`` and in the report.

    Raises:
        UsageError: for an unknown name or a value that is out of range; all of them are named.
        GradgateError: before anything runs, if the data, the model or a method cannot work.
        InterruptedRunError: when Ctrl-C stopped the study after saving the current runs.

    Example:
        >>> import gradgate as gg
        >>> study = gg.compare(
        ...     method=["full", "freeze:layers=2"], seeds=2, steps=2, batch_size=4, train_size=40, languages="en",
        ...     out="studies/first", quiet=True,
        ... )
        >>> len(study.table()), len(study.runs())
        (2, 4)
        >>> study.report().name
        'report.html'
    """
    from gradgate.study.workers.process import refuse_unseen_methods

    refuse_unseen_methods()
    folder = Path(fspath(out))
    comparison, execution = _read(folder, dict(
        model=model, task=task, method=method, adapter=adapter, train_size=train_size, sweep=sweep, seeds=seeds,
        search=search, trials=trials, search_seeds=search_seeds, prune=prune, budget=budget, budget_steps=budget_steps,
        budget_time=budget_time, workers=workers, ray=ray, gpus_per_run=gpus_per_run, store=store, grace=grace,
        **settings,
    ))  # fmt: skip

    from gradgate.report import write_report  # with matplotlib
    from gradgate.study.compare import compare as compare_runs  # with the study's store

    with study_progress(quiet) as progress:
        compare_runs(comparison, folder, progress, execution)
    write_report(folder)
    return Study(folder)


def forecast_comparison(*, out: str | PathLike[str], quiet: bool, **asked: Any) -> Forecast:
    """What :func:`compare` with the same arguments would train, how long that takes, and in how much memory and disk.

    Nothing is written but rows that are given as such.

    Raises:
        GradgateError: as :func:`compare` does before anything runs.
    """
    folder = Path(fspath(out))
    comparison, execution = _read(folder, asked)

    from gradgate.study.forecast import forecast

    with study_progress(quiet) as progress:
        return forecast(comparison, folder, progress, execution)


def _read(folder: Path, asked: Mapping[str, Any]) -> tuple[Comparison, Execution]:
    """What :func:`compare` was asked for, by name, as the study takes it; refused where it is wrong without a model."""
    from gradgate.settings.budget import parse_budget

    settings = dict(asked)  # what is left when the other arguments are taken out
    take = settings.pop
    allowance = parse_budget(take("budget"), take("budget_steps"), take("budget_time"))
    methods, adapters, sweep, seeds = take("method"), take("adapter"), take("sweep"), take("seeds")
    search, *how = take("search"), take("trials"), take("search_seeds"), take("prune")
    if not search:
        _refuse_search_settings(*how)
    workers, ray, gpus, grace = take("workers"), take("ray"), take("gpus_per_run"), take("grace")
    form, address = read_stores(several(take("store")))
    config, parts = _subjects(folder, {**settings, "store": form})
    methods, seeds, adapters = [str(each) for each in several(methods)], chosen_seeds(seeds), several(adapters)
    _check_parts(config, folder, methods=methods, seeds=seeds, adapters=adapters, sweep=sweep, parts=parts)

    from gradgate.study.planning import Comparison, Execution  # the study's store loads after the settings are checked
    from gradgate.study.search import read_space
    from gradgate.study.workers.ray import RayCluster
    from gradgate.study.workers.store import Heartbeat

    space = read_space(_ranges(search), *how) if search else None
    cluster = RayCluster(ray, gpus, config.threads or 1) if ray else None
    comparison = Comparison(config, methods, seeds, sweep, adapters, parts, space, allowance)
    return comparison, Execution(workers, cluster, address, Heartbeat.within(grace))


def _refuse_search_settings(trials: int | None, seeds: int, prune: bool) -> None:
    """Refuse what says how to search where nothing is searched, instead of training without it."""
    given = (("--trials", trials, trials is not None), ("--search-seeds", seeds, seeds != 1), ("--prune", "", prune))
    for flag, value, is_given in given:
        if is_given:
            asked = f"{flag} {value}".rstrip()
            raise UsageError(
                f"{asked} says how --search tries settings, and nothing is searched. Add --search, such as --search "
                f"lr=1e-5..1e-4, or leave {flag} out."
            )


def _subjects(folder: Path, settings: dict[str, Any]) -> tuple[RunConfig, Parts]:
    """What all runs share, and the tasks, models and training sizes that are compared on."""
    from gradgate.study.parts import Parts

    tasks = [task_name(each, folder) for each in several(settings.pop("task"))]
    models = [model_name(each) for each in several(settings.pop("model"))]
    sizes = read_train_sizes(several(settings.pop("train_size")))
    given: dict[str, Any] = {**_first("task", tasks), **_first("model", models)}
    given |= {name: value for name, value in settings.items() if value is not None}
    if len(sizes) == 1:
        given["train_size"] = sizes[0]
    config = make_config(**{**_held(folder, tasks, models), **given})
    return config, Parts.of(config, tasks, models, sizes)


def _ranges(search: str | Sequence[str] | Mapping[str, Sequence[object]]) -> list[str]:
    """What is searched, as ``--search`` takes it."""
    if isinstance(search, Mapping):
        return [f"{name}={','.join(map(str, several(values)))}" for name, values in search.items()]
    return several(search)


def _check_parts(
    config: RunConfig,
    folder: Path,
    *,
    methods: list[str],
    seeds: list[int],
    adapters: list[str],
    sweep: str | None,
    parts: Parts,
) -> None:
    """Refuse parts that can be seen to be wrong without a model; the study checks the rest."""
    from gradgate.study.arms import read_arm
    from gradgate.study.grid import Grid
    from gradgate.study.study_file import find_study
    from gradgate.study.sweep import read_sweep
    from gradgate.training.named_tasks import check_tasks

    swept = [] if sweep is None else [read_sweep(sweep).reference]
    for name in methods:
        read_arm(name)
    configured = parts.with_held(folder).configured(folder, config)
    is_new = all(find_study(part.path) is None for part in configured)
    for part in configured:
        if is_new:
            Grid.of(part.path, part.base, [*swept, *methods], seeds, adapters, part.name)
        check_tasks(part.base)


def _held(folder: Path, tasks: list[str], models: list[str]) -> dict[str, Any]:
    """The first task and model of a study of several, in place of those that are not given."""
    from gradgate.study.parts import read_parts

    parts = read_parts(folder)
    if parts is None:
        return {}
    return {**({} if tasks else vars(parts.tasks[0])), **({} if models else {"model": parts.models[0]})}


def _first(setting: str, given: list[str]) -> dict[str, str]:
    return {setting: given[0]} if given else {}
