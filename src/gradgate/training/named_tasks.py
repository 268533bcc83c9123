"""Find and check the tasks that a run's settings name, without torch and before their data is read."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

from gradgate.errors import DataError, UsageError
from gradgate.runs.records import TaskRecord
from gradgate.settings.run import RunConfig
from gradgate.tasks.find import find_task
from gradgate.tasks.languages import in_languages
from gradgate.tasks.multitask import KIND, MultitaskSpec, find_multitask, is_multitask
from gradgate.tasks.spec import TaskSpec, build_spec
from gradgate.tasks.tables import check_files

TASK_FLAGS = tuple(
    name for name in signature(find_task).parameters if name not in ("name", "data", "languages", "source")
)
"""Settings of a run that change the task that it names."""


def find_task_of(config: RunConfig) -> TaskSpec:
    """Return the task that the configuration names, with its flags applied."""
    flags = {name: getattr(config, name) for name in TASK_FLAGS}
    spec = find_task(config.task, data=config.data, source=config.source, **flags)
    if config.languages is None:
        return spec
    return in_languages(spec, config.languages.split(","), dev_is_scored=config.dev_size is not None)


def task_of_run(config: RunConfig, record: TaskRecord) -> TaskSpec:
    """Return the task of a run, to read other rows; from the run's record if its own data no longer exists.

    Args:
        config: of the run, with what the user has changed.
        record: of the run's task.

    Raises:
        GradgateError: if the task cannot be found, and the record does not say how its rows are read.
    """
    try:
        return find_task_of(config)
    except (UsageError, DataError):
        if record.reading is None:
            raise
        values = {"name": record.name, "kind": record.kind, "metric": record.metric, **record.reading}
        if config.text:
            values["text"] = [config.text, config.text_pair] if config.text_pair else config.text
        if config.label:
            values |= {"label": config.label, "label_map": None}
        if config.test_file:
            values |= {"files": {"test": str(config.test_file.absolute())}, "folder": Path.cwd()}
        return build_spec(values, "The record of the run's task")


def find_multitask_of(config: RunConfig) -> MultitaskSpec:
    """Return the tasks that the configuration names, if ``config.task`` is several.

    Raises:
        UsageError: for settings of a single task, held-out rows, an adapter, pretraining, or shards.
        DataError: for files that cannot be found, or a description with faults.
    """
    of_one_task = [name for name in (*TASK_FLAGS, "languages", "source") if getattr(config, name) is not None]
    if of_one_task:
        flags = ", ".join(f"{name}=" for name in of_one_task)
        raise UsageError(
            f"{flags}: these describe one task, but task={config.task!r} is several. Put them in the task's entry of "
            f"a YAML file of `kind: {KIND}`."
        )
    if config.dev_size is not None:
        raise UsageError(
            f"dev_size={config.dev_size}: rows of one task are held out of its train, but task={config.task!r} is "
            f"several. Leave it out, or train one task."
        )
    refuse_generation_settings(config, f"task={config.task!r} is several tasks of other kinds")
    if config.open_new_tokens:
        raise UsageError(
            f"open_new_tokens=: new tokens are learned with one task, but task={config.task!r} is several. Train one "
            f"task with it, then the tasks together from that run's model folder without it."
        )
    if config.adapter is not None:
        raise UsageError(
            f"adapter=: adapters are trained on one task, but task={config.task!r} is several. Train the tasks "
            f"together without one, then one task from the run's model folder with it."
        )
    if config.language_adapters is not None:
        raise UsageError(
            f"language_adapters=: they are for an adapter that is trained on one task, but task={config.task!r} is "
            f"several. Leave them out, or train one task."
        )
    if config.tapt is not None:
        raise UsageError(
            f"tapt_steps=, tapt_epochs=: a model is pretrained on the texts of one task, and task={config.task!r} "
            f"is several. Leave them out, or train one task."
        )
    if config.fsdp:
        raise UsageError(several_in_one_process(config))
    spec = find_multitask(config.task, data=config.data, mix=config.mix)
    generated = [task.name for task in spec.tasks if task.kind == "generation"]
    if generated:
        raise UsageError(
            f"task={config.task!r}: {generated[0]} is generated text, but several tasks share an encoder under heads "
            f"of their own. Train it alone: task={generated[0]!r}."
        )
    return spec


def refuse_generation_settings(config: RunConfig, why: str) -> None:
    """Refuse the settings that only a generation task has; ``why`` says that the task is another.

    Raises:
        UsageError: naming those that are set.
    """
    flags = [f"{name}=" for name in ("packing", "max_new_tokens") if getattr(config, name) is not None]
    if flags:
        raise UsageError(f"{', '.join(flags)}: these are for tasks of kind generation, and {why}. Leave them out.")


def several_in_one_process(config: RunConfig) -> str:
    """Return the error message for several tasks in several processes."""
    return f"task={config.task!r} is several tasks, which are trained in one process. Leave out fsdp= and torchrun."


def refuse_mix(config: RunConfig) -> None:
    """Refuse ``mix`` for a single task.

    Raises:
        UsageError: if ``mix`` is set.
    """
    if config.mix is not None:
        raise UsageError(
            f"mix={config.mix!r} says how several tasks are mixed, but task={config.task!r} is one. Leave it out, or "
            f"name several: task='cola+sst2'."
        )


def check_tasks(config: RunConfig) -> None:
    """Check the tasks of a configuration by their names and first rows alone.

    Raises:
        UsageError: for unknown tasks, or settings that do not go with them.
        DataError: for missing files or columns, or a description with faults.
    """
    if is_multitask(config.task):
        specs = find_multitask_of(config).tasks
    else:
        refuse_mix(config)
        specs = (find_task_of(config),)
    for spec in specs:
        check_files(spec)
        if config.dev_size is not None:
            from gradgate.tasks.held_out import check_held_out  # imports the kinds, which few commands need

            check_held_out(spec, config.dev_size)
    if config.forgetting is not None:
        from gradgate.training.forgetting.data import check_forgetting  # imports readers that few commands need

        for spec in specs:
            check_forgetting(config.forgetting, spec.name, spec.kind)
