"""Odd values of the variables that launchers set: refused by name before anything is trained, or without effect."""

from __future__ import annotations

import os

import pytest

from gradgate.distributed import launch
from gradgate.distributed.environment import check_environment
from gradgate.errors import UsageError

GROUP = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
ODD = {
    "WORLD_SIZE": ("two", "-1", "0", "1.0", "", "1" * 5000, "\u0662"),
    "RANK": ("abc", "-1", "9" * 5000),
    "LOCAL_RANK": ("abc", "-2", "0", "7", "9" * 5000),
    "PMI_SIZE": ("abc", "2"),
    "OMPI_COMM_WORLD_SIZE": ("4",),
    "ACCELERATE_USE_CPU": ("maybe", ""),
    "ACCELERATE_DEBUG_MODE": ("2",),
    "ACCELERATE_CPU_AFFINITY": ("perhaps",),
    "FORK_LAUNCHED": ("abc",),
    "ACCELERATE_USE_FSDP": ("true", "1", "maybe"),
    "ACCELERATE_USE_DEEPSPEED": ("true", "yes", "?"),
    "ACCELERATE_USE_MEGATRON_LM": ("true",),
    "ACCELERATE_USE_PARALLELISM_CONFIG": ("true",),
    "ACCELERATE_MIXED_PRECISION": ("fp7", "fp8", ""),
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": ("abc", "0", "-4", "1.5"),
    "ACCELERATE_DYNAMO_BACKEND": ("inductor", "foo"),
    "ACCELERATE_TORCH_DEVICE": ("warp", "cpu"),
}
USUAL = {
    "ACCELERATE_USE_CPU": "True",
    "ACCELERATE_MIXED_PRECISION": "no",
    "ACCELERATE_DYNAMO_BACKEND": "NO",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1",
    "ACCELERATE_USE_DEEPSPEED": "false",
    "OMPI_COMM_WORLD_SIZE": "1",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any of the variables."""
    for name in {*ODD, *GROUP, *USUAL}:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ODD.items() for value in values])
def test_odd_values_are_refused_by_name(environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    environment.setenv(name, value)
    with pytest.raises(UsageError, match=name) as refused:
        check_environment("fp32", 1)
    assert len(str(refused.value)) < 400
    assert os.environ[name] == value


@pytest.mark.parametrize("port", ["", "abc", "0", "70000"])
def test_a_group_needs_a_port(environment: pytest.MonkeyPatch, port: str) -> None:
    for name, value in {**GROUP, "MASTER_PORT": port}.items():
        environment.setenv(name, value)
    with pytest.raises(UsageError, match="MASTER_PORT"):
        check_environment("fp32", 1)


@pytest.mark.parametrize("variables", [{}, USUAL, GROUP, {"LOCAL_RANK": "-1"}, {**USUAL, **GROUP}])
def test_what_launchers_set_is_taken(environment: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    check_environment("fp32", 1)
    check_environment()


@pytest.mark.parametrize(
    ("name", "value", "setting"),
    [
        ("ACCELERATE_MIXED_PRECISION", "bf16", "precision="),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "accumulate="),
    ],
)
def test_a_setting_is_not_replaced(environment: pytest.MonkeyPatch, name: str, value: str, setting: str) -> None:
    environment.setenv(name, value)
    with pytest.raises(UsageError, match=f"{name}='{value}'.*own setting is {setting}"):
        check_environment("fp32", 1)
    check_environment("bf16", 4)


def test_several_runs_are_refused_at_once(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("LOCAL_RANK", "abc")
    with pytest.raises(UsageError, match="LOCAL_RANK='abc'"):
        launch.refuse("gradgate compare")
