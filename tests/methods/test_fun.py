"""FUN opens the layer with the largest Fisher trace, and measuring leaves the training as a given order has it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, Trainer, TrainingArguments

from gradgate import FUN, Clock, GateCallback, LayerMap, MethodState, Tuner, map_layers, method
from gradgate.errors import AttachError, MethodError
from gradgate.measure import FisherRequest
from support.crossed import some_fast
from support.loop import adamw, assert_same_weights, build, fisher_data, train
from support.tiny_models import _ENCODER, tiny, tiny_batch

FOUR = tiny("BertConfig", "BertForSequenceClassification", **_ENCODER | {"num_hidden_layers": 4})


def rehearse(
    fun: FUN, layers: LayerMap, steps: int, scores: dict[int, float] | None = None
) -> tuple[dict[int, FisherRequest], list[tuple[str, ...]], MethodState]:
    """What is asked for after each step done, the open groups of each step, and the memory, for given traces."""
    scores, memory = scores or {}, MethodState(seed=3)
    asked: dict[int, FisherRequest] = {}
    opened = []
    for step in range(steps):
        clock = Clock(step, None, None)
        for request in fun.requests(clock, layers, memory):
            asked[step] = request
            traces = {name: scores.get(int(name.split(".")[1]), 0.0) for name in request.groups}
            memory = fun.learned(traces, clock, memory)
        plan = fun.plan(clock, layers, memory)
        opened.append(tuple(name for name, gate in plan.items() if gate.open))
    return asked, opened, memory


def order_of(memory: MethodState) -> list[int]:
    return [event["layer"] for event in memory.notes["order"]]


@pytest.fixture(scope="module")
def four() -> LayerMap:
    return map_layers(FOUR())


def test_in_the_texts_timing_the_top_layer_is_on_and_three_follow(four: LayerMap) -> None:
    asked, opened, memory = rehearse(FUN(every=3), four, 15, {0: 1.0, 1: 3.0, 2: 2.0})
    # The papers' steps are counted from 1: the j-th event comes before step 3 j, when 3 j - 1 steps are done.
    assert {step: request.groups for step, request in asked.items()} == {
        2: ("layers.0", "layers.1", "layers.2"),
        5: ("layers.0", "layers.2"),
        8: ("layers.0",),
    }
    assert [len(groups) for groups in opened] == [2, 2, 3, 3, 3, 4, 4, 4, 6, 6, 6, 6, 6, 6, 6]
    assert opened[0] == ("layers.3", "head")
    assert opened[2] == ("layers.1", "layers.3", "head")
    assert opened[8] == ("embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "head")
    assert order_of(memory) == [1, 2, 0]


def test_in_the_algorithms_timing_the_head_is_alone_until_the_first_event(four: LayerMap) -> None:
    asked, opened, memory = rehearse(FUN(every=3, timing="algorithm"), four, 15, {0: 4.0, 2: 1.0})
    assert [*asked] == [2, 5, 8, 11]
    assert asked[2].groups == ("layers.0", "layers.1", "layers.2", "layers.3")
    assert opened[:3] == [("head",), ("head",), ("embeddings", "layers.0", "head")]
    assert order_of(memory) == [0, 2, 3, 1]


@pytest.mark.parametrize(
    ("scores", "order"),
    [
        ({}, [2, 1, 0]),
        ({0: 1.0, 1: 1.0}, [1, 0, 2]),
        ({0: 1.0, 2: 1.0}, [2, 0, 1]),
        ({0: 3.0, 1: 2.0, 2: 1.0}, [0, 1, 2]),
    ],
)
def test_of_equal_traces_the_higher_layer_opens(scores: dict[int, float], order: list[int], four: LayerMap) -> None:
    assert order_of(rehearse(FUN(every=2), four, 9, scores)[2]) == order


def test_with_an_interval_of_one_the_first_event_comes_before_the_first_step(four: LayerMap) -> None:
    asked, opened, _ = rehearse(FUN(every=1), four, 4)
    assert [*asked] == [0, 1, 2]
    assert opened[0] == ("layers.2", "layers.3", "head")


def test_a_measurement_is_not_repeated(four: LayerMap) -> None:
    fun = FUN(every=3)
    *_, memory = rehearse(fun, four, 6)
    assert fun.requests(Clock(5, None, None), four, memory) == ()
    assert fun.requests(Clock(8, None, None), four, memory) != ()


def test_the_papers_choices_are_asked_for(four: LayerMap) -> None:
    (request,) = rehearse(FUN(every=3), four, 3)[0].values()
    assert request == FisherRequest(
        ("layers.0", "layers.1", "layers.2"), 40, "sample", "batch", "sum", eval_mode=True, seed=3_000_011
    )


def test_each_measurement_draws_labels_of_its_own(four: LayerMap) -> None:
    seeds = [request.seed for request in rehearse(FUN(every=3), four, 15)[0].values()]
    assert len(set(seeds)) == 3


def test_the_options_are_asked_for(four: LayerMap) -> None:
    fun = method(
        "fun:every=3,fisher_batches=3,fisher_labels=true,fisher_grad=per_example,fisher_eval_mode=false,qa_fisher=stack"
    )
    assert isinstance(fun, FUN)
    (request,) = rehearse(fun, four, 3)[0].values()
    assert (request.batches, request.labels, request.gradient) == (3, "true", "per_example")
    assert (request.qa, request.eval_mode) == ("stack", False)


def test_fisher_batches_is_another_name_of_batches() -> None:
    fun = method("fun:every=5,fisher_batches=3")
    assert fun == FUN(every=5, batches=3)
    assert fun.spec == "fun:every=5,batches=3"
    with pytest.raises(MethodError, match="'batches' of 'fun' is given twice"):
        method("fun:batches=2,fisher_batches=3")


def test_the_codes_choices_are_asked_for(four: LayerMap) -> None:
    fun = method("fun:every=3,mode=code")
    assert isinstance(fun, FUN)
    asked, opened, _ = rehearse(fun, four, 9)
    assert asked[2] == FisherRequest(
        ("layers.0", "layers.1", "layers.2"), 41, "argmax", "batch", "stack", eval_mode=True, seed=3_000_011
    )
    assert [*asked] == [2, 5, 8]  # the text's timing, as in the code
    assert opened[0] == ("layers.3", "head")


@pytest.mark.parametrize(
    "option", ["batches=3", "fisher_labels=true", "fisher_grad=per_example", "fisher_eval_mode=False"]
)
def test_the_codes_choices_take_no_others(option: str) -> None:
    with pytest.raises(MethodError, match=rf"cannot have {option}.* with mode=code"):
        method(f"fun:mode=code,{option}")


def test_what_the_code_does_otherwise_is_said() -> None:
    for words in ("argmax", "41 batches", "stacks the spans", "padding is always masked"):
        assert words in FUN.deviates


@pytest.mark.parametrize("option", ["batches=0", "fisher_labels=best", "qa_fisher=mean", "timing=code_gu", "every=0"])
def test_an_option_out_of_range_is_refused(option: str) -> None:
    with pytest.raises(MethodError, match=option.split("=")[0]):
        method(f"fun:{option}")


def test_the_codes_choices_cannot_order_a_regression() -> None:
    model = tiny("BertConfig", "BertForSequenceClassification", **_ENCODER | {"num_labels": 1})()
    data = [tiny_batch(model) | {"labels": torch.rand(4)}]
    with pytest.raises(AttachError, match="mode=code"):
        Tuner(model, adamw(model), "fun:every=1,mode=code", fisher_data=lambda step: data)


def test_the_codes_choices_on_question_answering_by_hand() -> None:
    """Argmax positions of the stacked logits, the mean over 2 B rows, squared; summed over each closed layer."""
    model = build("bert-qa")
    batches = [tiny_batch(model, seed=seed) for seed in range(41)]
    expected = {"layers.0": 0.0, "layers.1": 0.0}
    for batch in batches:
        output = model.eval()(**batch)
        logits = torch.cat([output.start_logits, output.end_logits])
        functional.cross_entropy(logits, logits.argmax(-1)).backward()
        for name in expected:
            layer = model.bert.encoder.layer[int(name[-1])]
            expected[name] += sum(float(p.grad.pow(2).sum()) for p in layer.parameters()) / 4 / 41
        model.zero_grad()

    with Tuner(model, adamw(model), "fun:every=1,mode=code", fisher_data=lambda step: [*batches, batches[0]]) as tuner:
        (event,) = tuner.memory.notes["order"]
    assert event["traces"] == pytest.approx(expected, rel=1e-5)
    assert event["layer"] == max((0, 1), key=lambda number: expected[f"layers.{number}"])


def attach(model: PreTrainedModel, optimizer: torch.optim.Optimizer, asked: list[int]) -> Tuner:
    def data(step: int) -> list[dict[str, Tensor]]:
        asked.append(step)
        return fisher_data(model)(step)

    return Tuner(model, optimizer, "fun:every=3,batches=2", seed=5, audit=True, fisher_data=data)


def test_resuming_before_and_after_a_measurement_ends_with_the_same_bits() -> None:
    unbroken = build("bert")
    optimizer = adamw(unbroken)
    saved: list[Any] = []
    with attach(unbroken, optimizer, asked := []) as tuner:
        train(
            unbroken,
            optimizer,
            8,
            after=lambda _: saved.append(
                (*copy.deepcopy((unbroken.state_dict(), optimizer.state_dict())), json.dumps(tuner.state_dict()))
            ),
        )
        order = order_of(tuner.memory)
    assert asked == [2, 5]
    for done in (1, 2, 4):
        weights, moments, state = saved[done - 1]
        resumed = build("bert")
        again = adamw(resumed)
        with attach(resumed, again, repeated := []) as tuner:
            resumed.load_state_dict(weights)
            again.load_state_dict(moments)
            tuner.load_state_dict(json.loads(state))
            train(resumed, again, range(done, 8))
            assert order_of(tuner.memory) == order
        assert repeated == [step for step in (2, 5) if step > done]
        assert_same_weights(unbroken, resumed)


def trained(text: str, folder: Path, **options: Any) -> tuple[PreTrainedModel, MethodState]:
    model = build("bert", dropout=True)
    columns = tiny_batch(model, size=24)
    rows = [{name: column[row] for name, column in columns.items()} for row in range(24)]
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "num_train_epochs": 2,
        "learning_rate": 1e-2,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "use_cpu": True,
        "seed": 3,
    }
    gate = GateCallback(text, audit=True)
    Trainer(model, TrainingArguments(**settings | options), train_dataset=rows, callbacks=[gate]).train()
    assert gate.tuner is not None
    return model, gate.tuner.memory


@some_fast(
    "options",
    ["", ",fisher_grad=per_example", ",fisher_labels=true", ",fisher_eval_mode=false"],
    [",fisher_eval_mode=false"],
)
def test_a_trainer_that_measures_ends_as_one_that_is_given_the_order(options: str, tmp_path: Path) -> None:
    """The order of the data, dropout, the gradients and the optimizer are not disturbed by two measurements."""
    measured, memory = trained(f"fun:every=4,batches=3{options}", tmp_path)
    order = order_of(memory)
    assert sorted(order) == [0, 1]
    given, _ = trained(f"order:layers={'/'.join(map(str, order))},every=4", tmp_path)
    assert_same_weights(measured, given)


@pytest.mark.filterwarnings("ignore:gradient_accumulation_steps")
def test_a_trainer_that_accumulates_is_not_disturbed(tmp_path: Path) -> None:
    measured, memory = trained("fun:every=2,batches=2", tmp_path, gradient_accumulation_steps=2)
    given, _ = trained(
        f"order:layers={'/'.join(map(str, order_of(memory)))},every=2", tmp_path, gradient_accumulation_steps=2
    )
    assert_same_weights(measured, given)
