"""One model in memory that becomes each task's and the base again, bit for bit, and never two at once."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSequenceClassification, GPT2Config, GPT2LMHeadModel

from gradgate import deltas
from gradgate.deltas.swap import Elements
from gradgate.errors import BusyError, DeltaError
from support.bits import assert_same_bits

INPUTS = {"input_ids": torch.tensor([[1, 2, 3, 4]])}


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def trained(base: Path, folder: Path, labels: int, changes: dict[str, Tensor | float]) -> tuple[Any, Path]:
    """A model of a task, in which some parameters were trained, and its delta."""
    torch.manual_seed(labels)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=labels).eval()
    with torch.no_grad():
        for name, change in changes.items():
            model.get_parameter(name).add_(change)
    return model, deltas.create(model, base, folder / f"{labels}-{len(changes)}.safetensors").path


QUERY, OUTPUT = (f"bert.encoder.layer.1.{name}" for name in ("attention.self.query.weight", "output.dense.weight"))


@pytest.fixture(scope="module")
def tasks(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Path]]:
    """Whole tensors, single elements, both, and a head of another size. Tests leave the models as they are."""
    folder = tmp_path_factory.mktemp("tasks")
    few = torch.zeros(32, 32)
    few[3, 5] = few[7, 7] = 1.0
    return {
        "whole": trained(tiny_model, folder, 2, {OUTPUT: 1.0, QUERY: -1.0}),
        "few": trained(tiny_model, folder, 2, {QUERY: few}),
        "labels": trained(tiny_model, folder, 5, {OUTPUT: 2.0, QUERY: few.T, "bert.pooler.dense.bias": 1.0}),
    }


@pytest.fixture
def model(tiny_model: Path) -> Any:
    return AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=2).eval()


@pytest.fixture
def bank(model: Any, tasks: dict[str, tuple[Any, Path]]) -> deltas.Bank:
    bank = deltas.Bank(model)
    for name, (_, file) in tasks.items():
        bank.add(name, file)
    return bank


def test_every_order_of_tasks_gives_the_bits_of_each(bank: deltas.Bank, tasks: dict[str, tuple[Any, Path]]) -> None:
    before = state(bank.model)
    for name in ("whole", "few", "labels", "few", "whole", "labels", None, "labels", "whole", "whole", None, "few"):
        if name is None:
            bank.base()
            assert_same_bits(state(bank.model), before)
        else:
            bank.activate(name)
            assert_same_bits(state(bank.model), state(tasks[name][0]))
            assert torch.equal(bank.model(**INPUTS).logits, tasks[name][0](**INPUTS).logits)
            labels = torch.tensor([1])
            assert bank.model(**INPUTS, labels=labels).loss == tasks[name][0](**INPUTS, labels=labels).loss
        assert bank.active == name
    bank.detach()
    assert_same_bits(state(bank.model), before)
    assert bank.model.config.num_labels == 2
    assert bank.model.classifier.out_features == 2


def test_weights_keep_their_place_in_memory(bank: deltas.Bank) -> None:
    places = {name: parameter.data_ptr() for name, parameter in bank.model.named_parameters()}
    bank.activate("whole")
    assert {name: parameter.data_ptr() for name, parameter in bank.model.named_parameters()} == places


def test_a_decoder_with_tied_weights(tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=20)
    base = GPT2LMHeadModel(config).eval()
    base.save_pretrained(tmp_path / "base")
    after = copy.deepcopy(base)
    with torch.no_grad():
        after.transformer.wte.weight[4] += 1
    file = deltas.create(after, tmp_path / "base", tmp_path / "d.safetensors").path

    bank = deltas.Bank(GPT2LMHeadModel.from_pretrained(tmp_path / "base").eval())
    bank.add("task", file)
    bank.activate("task")
    assert bank.model.lm_head.weight is bank.model.transformer.wte.weight
    assert torch.equal(bank.model(**INPUTS).logits, after(**INPUTS).logits)


def test_new_tokens_and_padding_are_switched_too(tmp_path: Path) -> None:
    base = GPT2LMHeadModel(GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=20)).eval()
    base.save_pretrained(tmp_path / "base")
    after = copy.deepcopy(base)
    after.resize_token_embeddings(63)
    after.config.pad_token_id = 61
    file = deltas.create(after, tmp_path / "base", tmp_path / "d.safetensors").path

    bank = deltas.Bank(GPT2LMHeadModel.from_pretrained(tmp_path / "base").eval())
    bank.add("task", file)
    with bank.using("task") as model:
        inputs = {"input_ids": torch.tensor([[1, 62, 3, 61]]), "labels": torch.tensor([[1, 62, 3, 61]])}
        assert torch.equal(model(**inputs).loss, after(**inputs).loss)
        assert (model.config.vocab_size, model.config.pad_token_id) == (63, 61)
    assert (bank.model.config.vocab_size, bank.model.config.pad_token_id) == (60, None)


REFUSED = {
    "another class": (lambda model: model.bert, r"lacks bert\."),
    "trained since": (lambda model: _moved(model), "differs from the base"),
    "another type": (lambda model: model.bfloat16(), "Load the base in the same dtype, such as dtype=torch.float32"),
    "not in memory": (lambda model: model.to("meta"), "is not in memory"),
}


def _moved(model: Any) -> Any:
    model.bert.encoder.layer[0].output.dense.weight.data[0, 0] += 1e-6
    return model


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_model_that_is_not_the_base_is_refused(
    model: Any, tasks: dict[str, tuple[Any, Path]], change: Any, message: str
) -> None:
    other = change(model)
    with pytest.raises(DeltaError, match=message):
        deltas.Bank(other).add("whole", tasks["whole"][1])


def test_a_base_with_other_labels_is_refused_for_its_shape(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "base")
    _, file = trained(tmp_path / "base", tmp_path, 2, {QUERY: 1.0})
    model.classifier = nn.Linear(32, 5)
    with pytest.raises(DeltaError, match=r"classifier\..* Load the base in the same shape, with as many labels"):
        deltas.Bank(model).add("task", file)


def test_a_delta_of_another_base_of_the_same_architecture_is_refused(
    bank: deltas.Bank, tiny_model: Path, tmp_path: Path
) -> None:
    other = AutoModel.from_pretrained(tiny_model)
    with torch.no_grad():
        other.encoder.layer[0].output.dense.weight.add_(1.0)
    other.save_pretrained(tmp_path / "other")
    _, file = trained(tmp_path / "other", tmp_path, 2, {QUERY: 1.0})
    before = state(bank.model)
    with pytest.raises(DeltaError, match=rf"belongs to the base '{tmp_path / 'other'}'.* model is '{tiny_model}'"):
        bank.add("other", file)
    assert bank.names == ("whole", "few", "labels")
    assert_same_bits(state(bank.model), before)


def test_a_model_that_was_trained_after_the_first_delta_is_not_the_base(
    model: Any, tasks: dict[str, tuple[Any, Path]]
) -> None:
    bank = deltas.Bank(model)
    bank.add("whole", tasks["whole"][1])
    bank.activate("whole")
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight[0, 0] += 1
    with pytest.raises(DeltaError, match="differs from the base"):
        bank.add("few", tasks["few"][1])
    assert bank.names == ("whole",)


CHANGED: dict[str, tuple[Any, str]] = {
    "cast": (lambda model: model.half(), r"was torch\.float32 \[.*\] and is torch\.float16 \[.*\]"),
    "new head": (lambda model: setattr(model, "classifier", nn.Linear(32, 2)), "classifier was replaced"),
    "new weight": (
        lambda model: setattr(model.classifier, "weight", nn.Parameter(torch.ones(2, 32))),
        r"classifier\.weight was replaced",
    ),
}


@pytest.mark.parametrize("active", ["whole", None])
@pytest.mark.parametrize(("change", "message"), CHANGED.values(), ids=CHANGED)
def test_a_model_that_changed_between_switches_is_left_as_it_is(
    bank: deltas.Bank, active: str | None, change: Any, message: str
) -> None:
    if active:
        bank.activate(active)
    change(bank.model)
    before = state(bank.model)
    with pytest.raises(DeltaError, match=f"{message} since the bank's last switch"):
        bank.activate("few")
    assert bank.active == active
    after = state(bank.model)
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_a_model_in_shards_is_refused(tmp_path: Path, model: Any) -> None:
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.fsdp import fully_shard

    init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        with pytest.raises(DeltaError, match="is sharded over several devices"):
            deltas.Bank(fully_shard(model))
    finally:
        destroy_process_group()


def test_names_are_checked(bank: deltas.Bank, tasks: dict[str, tuple[Any, Path]]) -> None:
    with pytest.raises(DeltaError, match="There is a delta 'few' already"):
        bank.add("few", tasks["few"][1])
    with pytest.raises(
        DeltaError, match=r"There is no delta 'label'. Did you mean 'labels'\? Known: whole, few, labels"
    ):
        bank.activate("label")
    with pytest.raises(DeltaError, match="There is no delta None"):
        bank.activate(None)  # type: ignore[arg-type]
    bank.activate("few")
    bank.remove("few")
    assert (bank.active, bank.names) == (None, ("whole", "labels"))


def test_a_switch_inside_a_forward_pass_is_refused(bank: deltas.Bank) -> None:
    bank.activate("few")
    hook = bank.model.classifier.register_forward_hook(lambda *_: bank.activate("whole"))
    with pytest.raises(BusyError, match="A forward pass is running"):
        bank.model(**INPUTS)
    hook.remove()
    bank.activate("whole")  # the pass that failed has ended
    bank.model(**INPUTS)


def test_another_thread_waits_for_using(bank: deltas.Bank) -> None:
    bank.base()
    base, other = bank.model(**INPUTS).logits, []
    thread = threading.Thread(target=lambda: other.append(bank.model(**INPUTS).logits))
    with bank.using("whole") as model:
        thread.start()
        assert not torch.equal(model(**INPUTS).logits, base)
        assert (bank.active, other) == ("whole", [])
    thread.join()
    assert bank.active is None
    assert torch.equal(other[0], base)


def test_using_does_not_nest(bank: deltas.Bank) -> None:
    with bank.using("whole"):
        with pytest.raises(BusyError, match="The bank is in use"), bank.using("few"):
            pass
        assert bank.active == "whole"
    assert bank.active is None
    with bank.using("few"):
        assert bank.active == "few"


def test_an_interrupted_switch_is_refused_until_it_is_mended(
    bank: deltas.Bank, monkeypatch: pytest.MonkeyPatch, tasks: dict[str, tuple[Any, Path]]
) -> None:
    before = state(bank.model)
    bank.activate("whole")

    def interrupted(_: Elements) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Elements, "do", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bank.activate("few")
    with pytest.raises(BusyError, match="A switch was interrupted"):
        bank.model(**INPUTS)
    bank.base()
    assert_same_bits(state(bank.model), before)
    bank.activate("few")
    assert_same_bits(state(bank.model), state(tasks["few"][0]))


def test_a_backward_pass_after_a_switch_is_refused(bank: deltas.Bank) -> None:
    bank.activate("few")
    loss = bank.model(**INPUTS).logits.sum()
    bank.activate("whole")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_on_cuda(bank: deltas.Bank, tasks: dict[str, tuple[Any, Path]], model: Any) -> None:
    bank.detach()
    on_cuda = deltas.Bank(model.to("cuda"))
    for name, (after, file) in tasks.items():
        on_cuda.add(name, file)
        on_cuda.activate(name)
        assert_same_bits({k: v.cpu() for k, v in state(on_cuda.model).items()}, state(after))


def test_a_model_without_a_vocabulary_of_its_own_is_swapped(tmp_path: Path) -> None:
    from support.tiny_towers import TOWERS

    model = TOWERS["llava"]().eval()
    model.save_pretrained(tmp_path / "base")
    before = state(model)
    with torch.no_grad():
        model.get_parameter("lm_head.weight").add_(1.0)
    after = state(model)
    deltas.create(model, tmp_path / "base", tmp_path / "d.safetensors")
    type(model).vocab_size = 11  # type: ignore[attr-defined]  # as SmolVLM has one, and its configuration none
    try:
        bank = deltas.Bank(type(model).from_pretrained(tmp_path / "base").eval())
        bank.add("x", tmp_path / "d.safetensors")
        bank.activate("x")
        assert_same_bits(state(bank.model), after)
        bank.base()
        assert_same_bits(state(bank.model), before)
    finally:
        del type(model).vocab_size  # type: ignore[attr-defined]
