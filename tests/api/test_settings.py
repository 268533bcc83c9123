"""The functions that people call take what the command line takes, under the same names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import typer

import gradgate
from gradgate.cli import app
from gradgate.errors import UsageError
from gradgate.settings.base import CheckedSettings, checked_settings
from gradgate.settings.compare import CompareSettings, RecommendSettings
from gradgate.settings.run import RunConfig
from gradgate.settings.values import read_seeds

# The command prints results in its own ways.
PRINTING = {"json", "config", "help"}


@pytest.mark.parametrize("function", [gradgate.train, gradgate.compare, gradgate.recommend], ids=lambda f: f.__name__)
def test_a_function_has_a_keyword_for_each_flag_and_no_other(function: Callable[..., Any]) -> None:
    root: Any = typer.main.get_command(app)
    command = root.commands[function.__name__]
    flags = {name[2:] for option in command.params for name in option.opts if name.startswith("--")}
    expected = {flag.replace("-", "_") for flag in flags - PRINTING}
    assert set(inspect.signature(function).parameters) == expected


@pytest.mark.parametrize(
    ("function", "of"),
    [(gradgate.train, RunConfig), (gradgate.compare, CompareSettings), (gradgate.recommend, RecommendSettings)],
    ids=lambda each: each.__name__,
)
def test_each_setting_is_a_described_parameter(function: Callable[..., Any], of: type[CheckedSettings]) -> None:
    parameters = inspect.signature(function).parameters
    described = inspect.getdoc(function) or ""
    assert set(of.model_fields) <= set(parameters)
    assert set(parameters) - set(of.model_fields) <= {"out", "quiet", "dry_run", "push_to_hub", "public"}
    for name, field in of.model_fields.items():
        assert f"\n    {name}: " in described
        if name not in ("model", "task", "method"):
            assert str(field.description).rstrip(".") in described


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (3, [0, 1, 2]),
        ([7], [7]),
        ((0, 42), [0, 42]),
        ("0,7", [0, 7]),
        (np.arange(3), [0, 1, 2]),
        (np.int64(2), [0, 1]),
        ([np.int64(7)], [7]),
    ],
)
def test_seeds_are_counted_or_listed(given: Any, seeds: list[int]) -> None:
    assert read_seeds(given) == seeds


@pytest.mark.parametrize("given", [0, -1, [], [1.5], [True], True, None, "x"])
def test_what_is_no_seed_is_refused_with_what_is_expected(given: Any) -> None:
    with pytest.raises(UsageError, match="expected a number of seeds"):
        read_seeds(given)


def test_a_formula_keeps_its_signs() -> None:
    assert "rows / (classes * rows of the class)" in " ".join((gradgate.train.__doc__ or "").split())


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no setting 'batchsize'. Did you mean 'batch_size'"):
        gradgate.train(batchsize=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": "2,2,5"}, "2 is listed twice"),
        ({"seeds": [0, 0]}, "0 is listed twice"),
        ({"train_size": [32, 64, 32]}, "lists 32 twice"),
        ({"task": ["sst2", "sst2"]}, "task= lists sst2 twice"),
    ],
)
def test_what_is_listed_twice_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked_settings(CompareSettings, {"method": ["full"], **settings})
