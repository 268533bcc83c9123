"""The settings of a run: what is refused, in which words, and what makes two runs one."""

from __future__ import annotations

from typing import Any

import pytest

from gradgate.adapters.kinds import BottleneckKind
from gradgate.errors import UsageError
from gradgate.methods import Gradual, Head
from gradgate.settings.base import checked_settings
from gradgate.settings.finished import EvaluateSettings
from gradgate.settings.identity import fingerprint_of
from gradgate.settings.memory import MemorySettings
from gradgate.settings.run import RunConfig, make_config


def test_a_run_takes_three_epochs_unless_told() -> None:
    assert make_config().length == {"num_train_epochs": 3.0}
    assert make_config(epochs=0.5).length == {"num_train_epochs": 0.5}
    assert make_config(steps=7).length == {"max_steps": 7}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"methd": "full", "sed": 1},
            r"no setting 'methd'\. Did you mean 'method'.* There is no setting 'sed'.*'seed'",
        ),
        ({"method": "gradul"}, r"no method 'gradul'\. Did you mean 'gradual'"),
        ({"method": "graddrop:p=1.0"}, r"'graddrop' cannot have p=1\.0 \(expected 0 <= p < 1"),
        ({"lr": -1.0, "clip": -2.0}, r"lr=-1\.0: expected a number greater than 0; clip=-2\.0: .* or equal to 0\.$"),
        ({"epochs": 1.0, "steps": 5}, r"^pass epochs= or steps=, not both\.$"),
        ({"device": "tpu"}, r"device='tpu': expected 'auto', 'cpu' or 'cuda'"),
        ({"steps": "many"}, r"steps='many': expected a whole number"),
        ({"train_size": 0}, r"train_size=0: expected a number greater than or equal to 1"),
        ({"dev_size": 0}, r"dev_size=0: expected a number greater than or equal to 1"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_right(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        make_config(**given)
    assert refused.value.exit_code == 2


def test_a_word_that_none_of_several_types_has_is_named_once_with_all_words() -> None:
    expected = "weights='float16': expected 'float32' or 'bfloat16', or 'nf4', 'int8' or 'fp8'. Did you mean 'bfloat16'"
    with pytest.raises(UsageError, match=f"^{expected}"):
        checked_settings(MemorySettings, {"weights": "float16"})


def test_none_is_not_given() -> None:
    assert make_config(lr=None, steps=None) == RunConfig()


def test_what_is_only_proved_or_kept_does_not_make_another_run() -> None:
    assert make_config(audit=True, keep_model=False).fingerprint() == make_config().fingerprint()
    assert make_config(seed=1).fingerprint() != make_config().fingerprint()


def test_the_record_of_an_earlier_version_has_the_fingerprint_of_the_same_run() -> None:
    earlier = {name: value for name, value in make_config().record().items() if name != "dev_size"}
    assert fingerprint_of(earlier) == make_config(**earlier).fingerprint() == make_config().fingerprint()
    assert make_config(dev_size=5).fingerprint() != make_config().fingerprint()


def test_a_method_is_one_text_with_and_without_blanks() -> None:
    config = make_config(method="gradual: every=5")
    assert config.record()["method"] == str(config.method) == "gradual:every=5"


def test_methods_and_adapters_are_objects_that_keep_their_spelling() -> None:
    config = make_config(method="gradual:every=50", adapter="houlsby:size=64,lr=1e-3")
    assert config.method == Gradual()
    assert config.adapter is not None
    assert config.adapter.kind == BottleneckKind.read("houlsby:size=64")
    assert config.adapter.lr == 1e-3
    assert config == make_config(**config.record())
    assert (config.record()["method"], config.record()["adapter"]) == ("gradual:every=50", "houlsby:size=64,lr=1e-3")
    assert make_config(method=Gradual(every=3)).record()["method"] == "gradual:every=3"


def test_a_copy_is_checked() -> None:
    base = make_config(steps=3)
    assert base.model_copy(update={"method": "head"}).method == Head()
    assert base.model_copy(update={"steps": None, "epochs": 2.0}).length == {"num_train_epochs": 2.0}
    with pytest.raises(UsageError, match=r"lr=-1\.0"):
        base.model_copy(update={"lr": -1.0})


def test_every_setting_is_described() -> None:
    assert all(field.description for field in RunConfig.model_fields.values())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, r"clip=1\.0, which needs all gradients at once \(set clip=0\)"),
        ({"clip": 0, "accumulate": 2}, "accumulate=2, which needs several backward passes"),
        ({"clip": 0, "precision": "fp16"}, "precision=fp16, which scales gradients"),
        ({"clip": 0, "fsdp": True}, "fsdp, which averages gradients"),
    ],
)
def test_gradients_are_released_only_where_that_is_exact(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=f"release_gradients= cannot be combined with {reason}"):
        make_config(release_gradients=True, **values)
    make_config(release_gradients=True, clip=0)


def test_weights_in_bfloat16_do_not_go_with_fp16() -> None:
    with pytest.raises(UsageError, match="weights=bfloat16 and precision=fp16 cannot be combined"):
        make_config(weights="bfloat16", precision="fp16")


def test_one_factor_of_the_rate_is_a_text_as_several_are() -> None:
    assert make_config(lr_scale="head=10").lr_scale == make_config(lr_scale=["head=10"]).lr_scale == {"head": 10.0}
    with pytest.raises(UsageError, match="expected a mapping"):
        make_config(lr_scale=3)


def test_languages_are_read_alike_for_training_and_evaluation() -> None:
    assert checked_settings(EvaluateSettings, {"languages": "de, de,fr"}).languages == ("de", "fr")
    assert make_config(languages="de, de,fr").languages == "de,fr"
    for wrong in ("de,,fr", []):
        for kind in (EvaluateSettings, RunConfig):
            with pytest.raises(UsageError, match="expected codes of languages"):
                checked_settings(kind, {"languages": wrong})
