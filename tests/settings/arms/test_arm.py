"""Arms: one grammar, one name, and equality by what they train."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate.errors import MethodError, UsageError
from gradgate.methods import Full, Gradual, method
from gradgate.methods.catalog import ADAPTERS
from gradgate.settings.arms.adapter import NAMES, read_adapter
from gradgate.settings.arms.arm import Arm, check_adapters, read_arm
from gradgate.settings.arms.own_settings import OWN_SETTINGS, OwnSettings
from gradgate.settings.arms.recorded import arm_name, arm_of_texts, recorded_arm
from gradgate.settings.run import RunConfig, make_config
from gradgate.specs import Spec
from gradgate.study.arms import cross

METHODS = ("full", "head", "gradual", "gradual:every=7", "graddrop:p=0.3+layerwise-lr:decay=0.9", "freeze:layers=2")
ADAPTERS_READ = ("lora:r=8", "houlsby", "houlsby:size=8,lr=1e-3", "pfeiffer+inv:reduction=2", "peft:loha,r=4", "dora")
FORMS = {
    "gradual:every=7": "gradual:every=7",
    "gradual: every = 7": "gradual:every=7",
    "lora:r=8": "lora:r=8",
    "lora:r=8 + full": "lora:r=8",
    "lora:r=8+gradual": "lora:r=8 + gradual",
    "pfeiffer+inv:reduction=2": "pfeiffer+inv:reduction=2",
    "pfeiffer+head": "pfeiffer + head",
    "lora:r=8,lr=1e-3": "lora:r=8,lr=1e-3",
    "gradual:every=7,lr=1e-3": "gradual:every=7,lr=0.001",
    "lora:r=8 + gradual:lr=1e-3": "lora:r=8 + gradual:lr=0.001",
    "lora:r=8,weight_decay=0,lr=2e-4": "lora:r=8,lr=2e-4,weight_decay=0.0",
    "full:lr=1e-3,batch_size=4": "full:lr=0.001,batch_size=4",
    "gradual+mixout:p=0.5,clip=0": "gradual+mixout:p=0.5,clip=0.0",
    "houlsby:dropout=0.1 + full:dropout=0.2": "houlsby:dropout=0.1 + full:dropout=0.2",
    # As earlier versions wrote them.
    "houlsby:size=8 + full lr=0.001": "houlsby:size=8,lr=0.001",
    "full lr=1e-05, batch_size=8": "full:lr=1e-05,batch_size=8",
}


@pytest.mark.parametrize(("text", "name"), FORMS.items())
def test_every_form_has_one_name(text: str, name: str) -> None:
    arm = read_arm(text)
    assert arm.name == name
    assert read_arm(name) == arm
    assert read_arm(name).name == name


def some_arms() -> st.SearchStrategy[Arm]:
    own = {
        "lr": st.floats(1e-9, 10, exclude_min=True),
        "batch_size": st.integers(1, 512),
        "schedule": st.sampled_from(("linear", "constant", "cosine")),
        "weight_decay": st.floats(0, 1),
        "dropout": st.floats(0, 1, exclude_max=True),
    }
    adapters = st.sampled_from((None, *ADAPTERS_READ)).map(read_adapter)
    settings = st.fixed_dictionaries({}, optional=own)
    arms = st.builds(Arm, st.sampled_from(METHODS).map(method), adapters, settings)
    return arms.filter(lambda arm: "lr" not in arm.overrides or arm.adapter is None or arm.adapter.lr is None)


@given(some_arms())
def test_name_reads_back(arm: Arm) -> None:
    assert read_arm(arm.name) == arm
    assert hash(read_arm(arm.name)) == hash(arm)
    assert recorded_arm(arm.name).name == arm.name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gradual", "gradual:every=50"),
        ("lora:r=8", "lora: r=8 + full"),
        ("houlsby", "houlsby:size=64"),
        ("lora:r=8,lr=1e-3", "lora:r=8 + full:lr=0.001"),
        ("full:lr=1e-3,clip=0", "full:clip=0.0,lr=0.001"),
    ],
)
def test_equal_arms_train_the_same(one: str, other: str) -> None:
    assert read_arm(one) == read_arm(other)
    assert len({read_arm(one), read_arm(other)}) == 1


@pytest.mark.parametrize(("one", "other"), [("full", "full:lr=5e-5"), ("lora:r=8", "lora:r=4")])
def test_unequal_arms_differ(one: str, other: str) -> None:
    assert read_arm(one) != read_arm(other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradul", r"no method 'gradul'\. Did you mean 'gradual'"),
        ("lorra:r=8", r"no method 'lorra', and no adapter\. Did you mean 'lora'"),
        ("houlsby:siz=8", r"'houlsby' has no option 'siz'\. Did you mean 'size'"),
        ("lora:r=8 + gradul", r"no method 'gradul'"),
        (
            "gradual + lora:r=8",
            r"an adapter behind a method\. Expected the adapter first, as in 'lora:r=8 \+",
        ),
        ("lora:r=8,lr=1e-3 + full:lr=1e-4", r"gives lr twice"),
        ("full:lr=fast", r"'full:lr=fast' cannot have 'lr=fast': expected a number"),
        ("full:batch_size=0", r"cannot have 'batch_size=0': .*greater than or equal to 1"),
        ("full:lrr=1", r"'full' has no option 'lrr', and an arm has no setting of this name\. Did you mean 'lr'"),
        ("full:lr_rate=1", r"'full' has no option 'lr_rate'.*Settings that an arm may have: lr, batch_size"),
        ("full:tapt_stps=4", r"Did you mean 'tapt_steps'.*Settings that an arm may have: lr, batch_size"),
        ("gradual:learning_rate=1e-3", r"'gradual' has no option 'learning_rate'.*Did you mean 'lr'\?"),
        ("houlsby:size=8,batchsize=4", r"'houlsby' has no option 'batchsize'.*Did you mean 'batch_size'"),
        ("gradual:evry=4", r"no option 'evry'\. Did you mean 'every'\? Options: every=50"),
        ("full:lr=1: 2", r"cannot have 'lr=1: 2': expected a number\."),
        ("full:schedule=linea", r"expected 'linear', 'constant' or 'cosine'\. Did you mean 'linear'"),
        ("houlsby:tapt_steps=999999999999", r"tapt_steps='999999999999': expected a number less than or equal to"),
        ("lora:r=8 +", r"no method ''"),
    ],
)
def test_wrong_arm_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_arm(text)
    with pytest.raises(UsageError, match=message):
        make_config(method=text)


@pytest.mark.parametrize("method", ["gradual:lr=1e-4,tapt_steps=4", "gradual:tapt_epochs=1"])
def test_a_setting_of_both_method_and_adapter_is_refused(method: str) -> None:
    with pytest.raises(UsageError, match="of its own, and so has the adapter 'houlsby:tapt_steps=9'"):
        make_config(method=method, adapter="houlsby:tapt_steps=9")
    with pytest.raises(UsageError, match="of its own, and so has the adapter 'houlsby:tapt_steps=9'"):
        check_adapters(cross([read_arm(method)], [read_adapter("houlsby:tapt_steps=9")]))


def test_objects_are_arms() -> None:
    assert read_arm(Gradual(every=7)) == read_arm("gradual:every=7")
    assert read_arm(read_adapter("lora:r=8")) == read_arm("lora:r=8")
    assert read_arm(read_arm("head")) == read_arm("head")
    with pytest.raises(UsageError, match="3 is neither a method nor an adapter"):
        read_arm(3)


def test_option_of_a_method_stays_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradgate.settings.arms.arm.takes_option", lambda name, option: option == "lr")
    monkeypatch.setattr("gradgate.settings.arms.arm.build", lambda specs: Full() if specs == (Spec("full"),) else specs)
    arm = Arm(Full(), None, {"lr": 0.5})
    assert arm.name == "full lr=0.5"
    assert read_arm(arm.name) == arm


def test_folders_are_those_of_earlier_studies() -> None:
    assert read_arm("gradual:every=5").folder == "gradual-every=5"
    assert read_arm("houlsby:size=64").folder == "houlsby-size=64__full"
    assert read_arm("houlsby:size=64 + head").folder == "houlsby-size=64__head"
    assert Arm(Full(), read_adapter("lora:r=2"), {"lr": 0.01}).folder == "lora-r=2__full__lr=0.01"


@pytest.mark.parametrize("text", ["strange:of=2", "strange:of=2 lr=0.1", "newlora:r=8 + head", "lora:r=8 + strange"])
def test_records_of_other_versions_keep_their_texts(text: str) -> None:
    arm = recorded_arm(text)
    assert arm.name == text
    assert arm == recorded_arm(text)
    assert arm != recorded_arm(text.replace("strange", "odd").replace("newlora", "odd"))
    with pytest.raises(MethodError, match="There is no method"):
        arm.method.check(None)  # type: ignore[arg-type]


def test_recorded_adapter_of_another_version_is_refused_when_used() -> None:
    arm = arm_of_texts("full", "houlsby:new_option=3")
    assert arm.name == "houlsby:new_option=3"
    assert arm.adapter is not None
    with pytest.raises(UsageError, match="no option 'new_option'"):
        arm.adapter.kind.check()


def test_names_in_records_are_brought_up_to_date() -> None:
    assert arm_name("houlsby:size=64 + full") == "houlsby:size=64"
    assert arm_name("lora:r=8 + full lr=0.001") == "lora:r=8,lr=0.001"
    assert arm_name("full") == "full"
    assert arm_name("") == ""


def test_own_settings_are_settings_of_a_run() -> None:
    for name in OWN_SETTINGS:
        own, shared = OwnSettings.model_fields[name], RunConfig.model_fields[name]
        assert own.metadata == shared.metadata
        assert get_args(own.annotation)[0] in (shared.annotation, *get_args(shared.annotation))


def test_a_method_alone_refuses_adapters() -> None:
    assert set(ADAPTERS) == set(NAMES)
    for name in ADAPTERS:
        with pytest.raises(MethodError, match="is an adapter, but a method is expected here"):
            method(name)


@pytest.mark.parametrize(
    ("method_text", "expected"),
    [
        ("lora:r=8", {"method": "full", "adapter": "lora:r=8", "lr": 5e-5}),
        ("houlsby:size=8 + gradual", {"method": "gradual", "adapter": "houlsby:size=8", "lr": 5e-5}),
        ("gradual:every=7,lr=1e-3", {"method": "gradual:every=7", "adapter": None, "lr": 1e-3}),
    ],
)
def test_a_run_takes_an_arm_apart(method_text: str, expected: dict[str, Any]) -> None:
    record = make_config(method=method_text).record()
    assert {name: record[name] for name in expected} == expected
    apart = make_config(**{name: value for name, value in expected.items() if value is not None})
    assert make_config(method=method_text).fingerprint() == apart.fingerprint()


def test_a_run_has_one_adapter() -> None:
    with pytest.raises(UsageError, match=r"'lora:r=8' names an adapter, and so does adapter='houlsby'"):
        make_config(method="lora:r=8", adapter="houlsby")


@pytest.mark.parametrize(
    ("one", "other"),
    [("lora", "lora:r=8"), ("dora", "dora:lora_alpha=8"), ("lora + gradual", "lora:lora_dropout=0 + gradual:every=50")],
)
def test_arms_that_train_the_same_by_pefts_defaults_are_refused(one: str, other: str) -> None:
    pytest.importorskip("peft")
    assert read_arm(one) != read_arm(other)
    with pytest.raises(UsageError, match="train the same"):
        check_adapters([read_arm(one), read_arm(other)])


@pytest.mark.parametrize(
    "other", ["lora:r=4", "lora:lr=1e-3", "lora + gradual", "dora", "lora:tapt_steps=5", "houlsby"]
)
def test_arms_that_differ_in_anything_are_compared(other: str) -> None:
    pytest.importorskip("peft")
    check_adapters([read_arm("lora"), read_arm("lora"), read_arm(other)])


@pytest.mark.parametrize("text", ["houlsby+", "houlsby + ", "+full", "+"])
def test_a_plus_at_an_end_is_part_of_an_unknown_name(text: str) -> None:
    assert arm_name(text) == text


def test_pre_training_is_an_arms_own_with_an_adapter_and_without_one() -> None:
    alone = read_arm("full:tapt_steps=200,tapt_batch=8")
    assert alone.overrides == {"tapt_steps": 200, "tapt_batch": 8}
    assert read_arm(alone.name) == alone
    assert make_config(method=alone.name).tapt == {"steps": 200, "epochs": None, "batch_size": 8}
    own = read_arm("houlsby:tapt_steps=200")
    assert own == read_arm("houlsby + full:tapt_steps=200")
    assert own != read_arm("houlsby:tapt_steps=100")
    assert own != read_arm("houlsby")
    assert own.sets("tapt_steps")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("full:tapt_steps=4,tapt_epochs=2", "has both tapt_steps and tapt_epochs"),
        ("houlsby:tapt_epochs=2 + full:tapt_steps=4", "has both tapt_steps and tapt_epochs"),
        ("houlsby:tapt_steps=4 + full:tapt_steps=2", "gives tapt_steps twice"),
        ("full:tapt_steps=0", "cannot have 'tapt_steps=0'"),
        ("probe:tapt_steps=4", "tapt_steps=4 would have no effect"),
    ],
)
def test_pre_training_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_arm(text)


@pytest.mark.parametrize("settings", [{"tapt_batch": 4}, {"adapter": "houlsby:tapt_batch=4"}])
def test_a_batch_of_pre_training_alone_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="tapt_batch= has no effect without"):
        make_config(**settings).check_tapt()
    make_config(**settings, tapt_steps=2).check_tapt()
