"""Read data sets of the Hugging Face hub, or of its local cache, into tables."""

from __future__ import annotations

from gradgate import hub
from gradgate.errors import DataError
from gradgate.tasks.readers.class_names import with_class_names
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.types import HubSource

OWN_FILES = "a folder with its files as data=DIR"


def check_reachable(source: HubSource, instead: str = OWN_FILES) -> None:
    """Refuse a data set that the hub does not have, before anything is downloaded.

    Args:
        source: the data set.
        instead: what to pass without a network, for the error.

    Raises:
        DataError: no network, or the hub has no such data set.
    """
    if hub.is_offline():
        return
    error = hub.ask("dataset", source.path, source.revision)
    if error is not None:
        raise DataError(_explain(source, error, instead)) from error


def read_split(source: HubSource, split: str, language: str, instead: str = OWN_FILES) -> SourceTable:
    """Read one of our splits. Class indices, also in lists, become the classes' names.

    Args:
        language: of the split; it picks the configuration if each language has its own.
        instead: what to pass without a network, for the error.

    Raises:
        DataError: no network (or HF_HUB_OFFLINE) and no cached copy, an unknown data set, configuration or split.
    """
    import datasets

    if split in ("train", "dev") and source.training is not None:
        return read_split(source.training, split, language, instead)
    name, there = source.configuration(language), source.splits[split]
    try:
        rows = datasets.load_dataset(source.path, name, split=there, revision=source.revision)
    except Exception as error:  # also those of the HTTP library; a wrong configuration or split is a ValueError
        raise DataError(_explain(source, error, instead, name)) from error
    columns = with_class_names({column: rows[column][:] for column in rows.column_names}, rows.features)
    if not len(rows):
        raise DataError(
            f"{source.path} has no rows in its split {there!r}; expected at least one. Name another split or subset"
        )
    return SourceTable(" ".join(part for part in (source.path, name, there) if part), columns)


def _explain(source: HubSource, error: Exception, instead: str, configuration: str | None = None) -> str:
    from huggingface_hub.errors import HfHubHTTPError

    name = f"{source.path} {configuration or ''}".strip()
    if isinstance(error, ValueError):
        return f"The data set {name} cannot be read from the hub: {error}"
    if isinstance(error, HfHubHTTPError):
        return f"The hub has no data set {name} that can be read: {hub.first_line(error)}."
    return (
        f"The data set {name} cannot be fetched: {hub.why_unreachable()}, and the cache has no copy. Connect, or "
        f"pass {instead} ({type(error).__name__}: {hub.first_line(error)})"
    )
