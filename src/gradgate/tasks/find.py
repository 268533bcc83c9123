"""Find a task from what the user typed: a catalogue name, a YAML file, a folder or a data file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradgate import sample
from gradgate.errors import DataError, UsageError, nearest
from gradgate.places import typed_path, typed_place
from gradgate.tasks.catalog import at_folder, entries
from gradgate.tasks.detect import Given, check_source, named_language, recognise_file, recognise_folder
from gradgate.tasks.language_column import choose_source, languages_in
from gradgate.tasks.languages import expand, in_languages
from gradgate.tasks.spec import TaskSpec, build_spec, read_spec
from gradgate.tasks.splits import missing_parts
from gradgate.tasks.tables import read_one
from gradgate.tasks.types import KIND_INFO, LANGUAGE, TRAIN_AND_DEV, read_shares

_YAML_ENDINGS = (".yaml", ".yml")


def task_names() -> tuple[str, ...]:
    """Return the embedded sample's tasks and the catalogue's tasks."""
    return (*sample.TASKS, *entries())


def find_task(
    name: str | Path,
    *,
    data: Path | None = None,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    kind: str | None = None,
    metric: str | None = None,
    train_file: str | Path | None = None,
    dev_file: str | Path | None = None,
    test_file: str | Path | None = None,
    split: str | None = None,
    languages: Sequence[str] | None = None,
    source: str | None = None,
) -> TaskSpec:
    """Return the task that ``name`` means, with what the other arguments change.

    Args:
        name: in this order: a name of ``task_names()``; a YAML file; a folder with a ``task.yaml``; a folder whose
            files are those of a catalogue's task, or are named ``train``, ``dev`` and ``test``, followed by ``.de`` and
            the like if they are in several languages; a train file. A folder that is named like a task is reached as
            ``./name``.
        data: the folder of a catalogue's or YAML file's data files.
        text, text_pair, label: column names. ``text`` alone makes one text of a pair; ``label`` drops the
            task's names for labels.
        kind, metric: in place of the task's; a new kind comes with its own default metric.
        train_file, dev_file, test_file: in place of the task's; ``test_file`` replaces every test split.
        split: percentages of train, dev and test, as ``80/10/10``: splits without a file are taken from train. By
            default a data file without a dev file is divided so.
        languages: score in these languages only; by default in all that exist.
        source: language of train and dev, in place of the task's.

    Raises:
        UsageError: nothing has that name, the task is not in one of ``languages``, or a file is in ``data`` and not
            in the working folder.
        DataError: nothing to score in one of ``languages``, a task file with faults, or an ambiguous folder or file.
    """
    train, dev, test = (
        None if file is None else _absolute(keyword, file, data)
        for keyword, file in (("train_file", train_file), ("dev_file", dev_file), ("test_file", test_file))
    )
    shares = None if split is None else read_shares(split)
    given = Given(text, text_pair, label, kind, metric, train, dev, test, shares)
    spec = _change(_find(typed_place(name), data, given, source), given)
    return spec if languages is None else in_languages(spec, languages)


def _find(name: str, data: Path | None, given: Given, source: str | None) -> TaskSpec:
    """Return the task with its splits by language, before anything else is changed."""
    from_source = {} if source is None else {"source": source}
    _check_path(name)
    path = sample.TASKS.get(name, Path(name))
    if name in entries():
        spec = _from_source(entries()[name].spec, source, given)
        return at_folder(spec, _existing(data)) if data else expand(spec.model_copy(update={"files": None}))
    yaml = path if path.is_file() and path.suffix in _YAML_ENDINGS else _yaml_in(path)
    if yaml is not None:
        described = read_spec(yaml, _existing(data) if data else None)
        if described.language_column is not None and not described.languages:
            return _in_column(described, source)
        return expand(_from_source(described, source, given))
    if not path.exists():
        raise UsageError(_unknown(name))
    if data is not None:
        raise UsageError(
            f"data= is for a catalogue's task or a YAML file, but {path} is data itself; leave one of them out"
        )
    whole = path.resolve()
    found = recognise_folder(whole, given, source) if path.is_dir() else recognise_file(whole, given, source)
    if found.language_column is not None:
        return found
    if not found.languages and not named_language(whole, source):
        check_source(source, str(path))
    return build_spec({**found.model_dump(), **from_source}, f"source={source} of {path}")


def _from_source(spec: TaskSpec, source: str | None, given: Given) -> TaskSpec:
    """Return the task trained in another language, of which it has files or configurations on the hub."""
    if source is None or source == spec.source:
        return spec
    known = dict.fromkeys((spec.source, *spec.languages))
    if source not in known:
        near = nearest(source, known)
        raise UsageError(f"source={source}: the task {spec.name} is in {', '.join(known)}; pass one of these.{near}")
    by_file = spec.folder is not None or spec.hub is None
    its_own = LANGUAGE in (spec.files or {}).get("train", "") if by_file else _hub_trains_in_languages(spec)
    if not its_own and given.train_file is None:
        raise UsageError(
            f"source={source}: the task {spec.name} is trained in {spec.source} only. Leave source= out, or pass "
            f"train_file= and dev_file= in {source}"
        )
    return spec.model_copy(update={"source": source})


def _in_column(spec: TaskSpec, source: str | None) -> TaskSpec:
    """Return the task in the languages that its rows name."""
    tables = [read_one(spec, split) for split in spec.places]
    assert spec.language_column is not None
    codes = languages_in(tables, spec.language_column)
    own = choose_source(codes, source, str(spec.folder or spec.name))
    return spec.model_copy(update={"languages": (own, *sorted(set(codes) - {own})), "source": own})


def _hub_trains_in_languages(spec: TaskSpec) -> bool:
    hub = spec.hub
    assert hub is not None
    return hub.training is None and "train" in hub.splits and hub.is_by_language("train")


def _check_path(name: str) -> None:
    try:
        Path(name).stat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{name!r:.120} is neither a task nor a path ({reason}). Expected a task's name, a file or a folder"
        ) from None


def _checked_metric(metric: str, kind: str) -> str:
    known = KIND_INFO[kind].metrics
    if metric not in known:
        raise UsageError(
            f"metric={metric!r} is unknown for {kind}.{nearest(metric, known)} Expected {', '.join(known)}."
        )
    return metric


def _change(spec: TaskSpec, given: Given) -> TaskSpec:
    """Replace the parts of a spec that the user set, and check it again."""
    values: dict[str, Any] = spec.model_dump()
    if given.text or given.label:
        values["form"] = None
    if given.text or given.text_pair:
        first = given.text or spec.text_columns[0]
        values["text"] = (first, given.text_pair) if given.text_pair else first
    if given.label:
        values.update(label=given.label, label_map=None)
    if spec.hub is not None:
        text, label = spec.hub.text, spec.hub.label
        values["hub"].update(text=None if given.text or given.text_pair else text, label=None if given.label else label)
    if given.kind and given.kind != spec.kind:
        for entry in type(spec.options).model_fields:
            del values[entry]
        values.update(kind=given.kind, metric="", label_map=None, form=None)
    if given.metric:
        values["metric"] = _checked_metric(given.metric, values["kind"])
    files = given.files()
    if files:
        kept = {
            split: file for split, file in (spec.files or {}).items() if split in TRAIN_AND_DEV or "test" not in files
        }
        values["files"] = {**kept, **files}
        if "question_from" in values:
            own = values["question_from"]
            values["question_from"] = {split: file for split, file in own.items() if split not in files}
        values["formats"] = {split: change for split, change in spec.formats.items() if split not in files}
        values["folder"] = spec.folder or Path.cwd()
    if given.split is not None:
        values["split"] = str(given.split)
    changed = build_spec(values, f"The task {spec.name} with these settings")
    if given.split is not None and not missing_parts(changed):
        own = ", ".join(split for split in changed.places if split != "train")
        raise UsageError(
            f"split={given.split} has nothing to take from train: the task {spec.name} has {own}. Leave it out"
        )
    return changed


def _yaml_in(folder: Path) -> Path | None:
    return next((folder / f"task{ending}" for ending in _YAML_ENDINGS if (folder / f"task{ending}").is_file()), None)


def _existing(folder: Path) -> Path:
    folder = typed_path(folder)
    if not folder.is_dir():
        raise DataError(f"data={folder} is not a folder; pass the one that holds the task's files")
    return folder


def _absolute(keyword: str, file: str | Path, data: Path | None) -> str:
    """Return the path from the working folder, which a user may mistake for that of the data."""
    path = typed_path(file)
    if data is not None and not path.exists() and (data / path).exists():
        raise UsageError(
            f"{keyword}={file}: {path.absolute()} is missing. For the file in the folder of data, pass "
            f"{keyword}={data / path}"
        )
    return str(path.absolute())


def _beside(name: str) -> list[str]:
    """List the files and folders next to the path."""
    folder = Path(name).parent
    return [str(folder / entry.name) for entry in folder.iterdir()] if folder.is_dir() else []


def _unknown(name: str) -> str:
    if "/" in name or "\\" in name or Path(name).suffix:
        near = nearest(name, [*task_names(), *_beside(name)])
        return (
            f"There is no file or folder {name}, nor a task of that name.{near} Correct the path, or name a task that "
            "'gradgate tasks' lists"
        )
    return (
        f"Unknown task {name!r}.{nearest(name, task_names())} Expected a task's name (listed by 'gradgate tasks'), "
        "a YAML file that describes one, a folder with train and dev files, or a train file"
    )
