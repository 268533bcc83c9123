"""Import results that other programs measured, as a study."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from typing_extensions import Unpack

from gradgate.api.compare import Study
from gradgate.places import typed_path
from gradgate.settings.base import checked_settings
from gradgate.settings.imports import ImportSettings
from gradgate.settings.keywords import ImportKeywords
from gradgate.settings.signature import takes


@takes(ImportSettings, ImportKeywords)
def import_results(
    results: str | PathLike[str] | Sequence[str | PathLike[str]] | Any,
    out: str | PathLike[str] = "studies/imported",
    **settings: Unpack[ImportKeywords],
) -> Study:
    """Import results as a study that can be reported and judged; nothing can be trained in it.

    ``gradgate study import`` calls this. Columns that are not named are found by their names.

    Args:
        results: a file or folder, or several; or a data frame of pandas or Polars, or a list of mappings, with a row
            per score, or a column per metric or seed.
        out: the study's folder, new or empty, or with an import of the same files.

    Returns:
        The study. Its folder has ``import.json``: the sources with their digests, the columns, what was left out and
        why, and what is doubtful about the comparison.

    Raises:
        UsageError: for a column or a reference that does not exist, or if no arm or score can be found.
        DataError: for a file that cannot be read, two scores of one run, or no score at all.
        RunError: if ``out`` holds something else.
    """
    from gradgate.study.importing.sources import read_files, recognised
    from gradgate.study.importing.studies import import_tables
    from gradgate.study.importing.tables import of_frame

    asked = checked_settings(ImportSettings, settings)
    paths = [results] if isinstance(results, str | PathLike) else results
    if isinstance(paths, list | tuple) and paths and all(isinstance(path, str | PathLike) for path in paths):
        tables, files = read_files([typed_path(path) for path in paths])
    else:
        tables, files = [recognised(of_frame(results))], []
    folder = typed_path(out)
    import_tables(tables, files, asked, folder)
    return Study(folder)
