"""Copy a run's language adapters into its folder, check that they fit its model, and record their digests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradgate.adapters.languages import LanguageAdapters
from gradgate.distributed import launch
from gradgate.runs.folder import RunFolder
from gradgate.settings.run import RunConfig
from gradgate.training.prepared_task import EncodedTask, PreparedTask
from gradgate.training.single_task import EncodedSingleTask, PreparedSingleTask


def with_languages(config: RunConfig, folder: RunFolder, encoded: EncodedTask) -> EncodedTask:
    """Copy the run's language adapters into its folder and return the task with them; unchanged without any.

    Raises:
        UsageError: naming languages that lack an adapter.
        RunError: for an adapter that has changed since the run started.
    """
    if config.language_adapters is None:
        return encoded
    assert isinstance(encoded, EncodedSingleTask), "several tasks take no adapter"
    languages = LanguageAdapters(config.language_adapters, encoded.data.spec.source, folder.language_adapters)
    launch.on_first(lambda: languages.keep(encoded.tested_languages))
    return replace(encoded, language_adapters=languages)


def check_languages(model: Any, encoded: EncodedTask) -> None:
    """Check before training that the language adapters fit the model, so that scoring does not fail later.

    Raises:
        AdapterError: for one that does not fit, or cannot be part of a stack.
    """
    if isinstance(encoded, EncodedSingleTask) and encoded.language_adapters is not None:
        encoded.language_adapters.check_fit(model, encoded.tested_languages)


def language_digests(encoded: EncodedTask) -> dict[str, str] | None:
    """Return language -> digest of its adapter; None for a task without language adapters."""
    if not isinstance(encoded, EncodedSingleTask) or encoded.language_adapters is None:
        return None
    return encoded.language_adapters.digests(encoded.tested_languages)


def try_languages(config: RunConfig, prepared: PreparedTask, model: Any) -> dict[str, str]:
    """Check that each language adapter that a run would score with fits a model, which stays unchanged.

    Returns:
        Language -> digest of its adapter; empty without any.

    Raises:
        UsageError: naming languages that lack an adapter.
        AdapterError: for one that does not fit.
    """
    if config.language_adapters is None:
        return {}
    assert isinstance(prepared, PreparedSingleTask), "several tasks take no adapter"
    spec, tests = prepared.data.spec, () if config.skip_test else prepared.data.tests
    languages = LanguageAdapters(config.language_adapters, spec.source)
    codes = [spec.language_of(split) for split in tests]
    languages.check(codes)
    languages.check_fit(model, codes)
    return languages.digests(codes)
