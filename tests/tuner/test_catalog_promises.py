"""What every method of the catalogue promises, on an encoder, a decoder and an encoder-decoder."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import default_data_collator

from gradgate import GateCallback, Method, MethodInfo, Tuner
from support.catalog_table import (
    EVERY_CELL,
    KINDS_ONCE,
    ROWS,
    STEPS,
    attach,
    build,
    changed,
    filtered,
    is_kind,
    layers_of,
    learns,
    method_of,
    names_of,
    once,
    optimizer_of,
    passing,
    random_states,
    read,
    record,
    state_of,
    trained,
)
from support.loop import Weights, adamw, assert_same_weights, same, step, train, weights
from support.tiny_models import tiny_batch
from support.trainers import rows, trainer_of

Row = MethodInfo | str


# What is closed does not move.


@EVERY_CELL
def test_what_is_closed_keeps_every_bit_and_what_is_open_learns(row: Row, name: str) -> None:
    method, layers = method_of(row), layers_of(name)
    run = trained(method, name)
    for number in range(STEPS):
        plan, before, after = run.plans[number], run.weights[number], run.weights[number + 1]
        moved = changed(before, after)
        assert moved <= names_of(method, layers, plan, lambda gate: not gate.closed), f"step {number + 1}"
        assert moved
        assert names_of(method, layers, plan, learns) & run.learnable <= moved, f"step {number + 1}"


@EVERY_CELL
def test_what_a_gate_holds_keeps_every_bit(row: Row, name: str) -> None:
    method, layers, model = method_of(row), layers_of(name), build(name)
    run = trained(method, name)
    for number in range(STEPS):
        plan, before, after = run.plans[number], run.weights[number], run.weights[number + 1]
        for group in layers.at(method.traits.unit):
            gate = plan[group.name]
            for parameter in group.parameter_names if gate.hold and gate.sparse else ():
                shape = before[parameter].shape
                if gate.momentum:
                    held = ~filtered(gate, model, parameter, run.moments[number + 1])
                else:
                    held = ~passing(gate, parameter, shape, run.states[number])
                assert same(before[parameter][held], after[parameter][held]), (parameter, number)


# The same training twice.


@KINDS_ONCE
def test_a_training_is_a_function_of_its_seed_and_draws_from_no_global_generator(row: Row, name: str) -> None:
    once = trained(method_of(row), name)
    torch.manual_seed(99)
    before = random_states()
    again = record(method_of(row), name, steps=2)
    assert random_states() == before
    for number in range(3):
        assert again.plans[number] == once.plans[number]
        assert again.states[number][0] == once.states[number][0]
        assert not changed(once.weights[number], again.weights[number])


# Resume.


@KINDS_ONCE
def test_resuming_before_and_after_a_transition_ends_with_the_same_bits(row: Row, name: str) -> None:
    method = method_of(row)
    unbroken = trained(method, name)
    first, *_, last = [phase.step for phase in unbroken.phases if 0 < phase.step < STEPS] * 2 or [STEPS // 2] * 2
    for number in sorted({first - 1, first, last} & set(range(1, STEPS))):
        model = build(name)
        model.load_state_dict(unbroken.weights[number], strict=False)  # a tied weight is named once
        optimizer = optimizer_of(method, model, name)
        optimizer.load_state_dict(copy.deepcopy(unbroken.moments[number]))  # torch takes the tensors as they are
        with attach(model, optimizer, method, layers_of(name), state=read(unbroken.states[number])) as tuner:
            assert tuner.clock.step == number
            assert tuner.plan == unbroken.plans[number]
            train(model, optimizer, range(number, STEPS))
            (values, tensors), (expected, kept) = state_of(tuner), unbroken.states[STEPS]
        assert values == expected
        assert tensors.keys() == kept.keys()
        assert not changed(kept, tensors)
        assert not changed(unbroken.weights[STEPS], weights(model)), f"resumed after step {number}"


# A bare loop and Trainer.


def measured_on(data: list[dict[str, Tensor]], size: int, seed: int) -> Callable[[int], Iterable[dict[str, Tensor]]]:
    """The batches on which a method measures under Trainer: the training data in an order of the seed and the step."""

    def draw(done: int) -> Iterable[dict[str, Tensor]]:
        order = torch.Generator().manual_seed(seed * 1_000_003 + done)
        return DataLoader(data, size, shuffle=True, generator=order, collate_fn=default_data_collator)

    return draw


@once(  # the others count no epochs and measure nothing
    *("full", "gradual", "fun", "lisa", "graddrop-epoch-toggle", "mixout", "child-tuning", "mofo", "grades", "sparse")
)
def test_a_trainer_ends_with_the_weights_of_a_bare_loop(row: Row, name: str, tmp_path: Path) -> None:
    method = method_of(row)
    under, bare = build(name), build(name)
    under.accepts_loss_kwargs = False  # the loss is the batch's mean, as in the loop below
    batches: list[dict[str, Tensor]] = []
    gate = GateCallback(method, audit=True, layers=layers_of(name))
    trainer = trainer_of(under, tmp_path, gate, count=8)
    training_step = trainer.training_step

    def noted(model: nn.Module, inputs: dict[str, Tensor], *args: Any) -> Tensor:
        batches.append(inputs)
        return training_step(model, inputs, *args)

    trainer.training_step = noted
    trainer.train()

    reference = trainer_of(bare, tmp_path, count=8)
    reference.create_optimizer_and_scheduler(num_training_steps=4)
    optimizer, scheduler = reference.optimizer, reference.lr_scheduler
    data = measured_on(rows(bare, 8), 4, seed=3)
    with Tuner(
        bare, optimizer, method, total_steps=4, steps_per_epoch=2, seed=3, layers=layers_of(name), fisher_data=data
    ) as tuner:
        for batch in batches:
            bare(**batch).loss.backward()
            nn.utils.clip_grad_norm_(bare.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        assert gate.tuner is not None
        assert tuner.clock == gate.tuner.clock
        assert tuner.timeline.phases == gate.tuner.timeline.phases
    assert len(batches) == 4
    assert_same_weights(under, bare)


# Gradient accumulation.


def accumulated(method: Method, name: str, parts: int) -> Weights:
    """The weights after three steps on batches of four rows, each in so many parts; in double precision."""
    model = build(name).double()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    if method.name == "mofo":  # which needs Adam; a large epsilon, because some gradients are nothing but rounding
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1, eps=1e-3)
    with attach(model, optimizer, method, layers_of(name), total_steps=4, audit=False) as tuner:
        for number in range(3):
            batch = tiny_batch(model, seed=number)
            for part in range(parts):
                some = slice(part * 4 // parts, (part + 1) * 4 // parts)
                (model(**{key: column[some] for key, column in batch.items()}).loss / parts).backward()
            assert_masked(model, tuner)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return weights(model)


def assert_masked(model: nn.Module, tuner: Tuner) -> None:
    """What does not pass is exactly zero in the gradient of the whole step."""
    state = state_of(tuner)
    for name in names_of(tuner.method, tuner.layers, tuner.plan, lambda gate: gate.sparse and not gate.momentum):
        gate = tuner.plan[tuner.layers.group_of(name).name]
        gradient = model.get_parameter(name).grad
        assert gradient is not None
        assert not gradient[~passing(gate, name, gradient.shape, state)].any(), name


@once(
    *("full", "gradual", "fun", "graddrop", "layer-graddrop", "mixout", "mofo", "grades", "hft"),
    *("graddrop:p=0.5,mask_target=update", "sparse:share=0.5,by=lift,rank=4,every=2"),
)
def test_accumulated_batches_are_one_large_batch(row: Row, name: str) -> None:
    method = method_of(row)
    large, small = accumulated(method, name, 1), accumulated(method, name, 2)
    for parameter, expected in large.items():  # the sums have another order
        torch.testing.assert_close(small[parameter], expected, rtol=0, atol=1e-10, msg=parameter)


# Nothing is left behind.


class Failing(torch.optim.AdamW):
    """Raises in the middle of a step, when told to."""

    failing = False

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        if self.failing:
            raise KeyboardInterrupt
        super().step()


def plain(value: Any) -> Any:
    """A value that shows whether an attribute is what it was; a dictionary of hooks is its hooks."""
    if isinstance(value, dict):
        return {str(key): id(item) for key, item in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str | tuple) else id(value)


def belongings(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """All that a model, its parameters and its optimizer have, but for values of tensors and optimizer states."""
    modules = {
        f"{name}.{key}": plain(value) for name, module in model.named_modules() for key, value in vars(module).items()
    }
    parameters = {
        name: (id(p), type(p), p.requires_grad, p._backward_hooks or {}, p._post_accumulate_grad_hooks or {}, vars(p))
        for name, p in model.named_parameters()
    }
    of_optimizer = {key: plain(value) for key, value in vars(optimizer).items() if key != "state"}
    groups = [(id(g), [id(p) for p in g["params"]], {**g, "params": None}) for g in optimizer.param_groups]
    known = {id(p) for p in model.parameters()}
    return {
        "modules": modules,
        "parameters": parameters,
        "optimizer": of_optimizer,
        "groups": groups,
        "stray states": [key for key in optimizer.state if id(key) not in known],
        "kinds of states": {key for state in optimizer.state.values() for key in state},
        "global hooks": {key: len(value) for key, value in vars(nn.modules.module).items() if key.endswith("_hooks")},
    }


@once(  # one for each kind of hook and of state
    *("full", "gradual", "fun", "graddrop", "layer-graddrop", "mixout", "sparse", "mofo", "grades", "layerwise-lr"),
    *("graddrop:p=0.5,mask_target=update", "gradual:every=2+mixout:p=0.5,unit=element"),
)
def test_nothing_is_left_behind_whether_training_ended_or_broke_off(row: Row, name: str) -> None:
    model, method, layers = build(name), method_of(row), layers_of(name)
    optimizer = Failing(model.parameters(), lr=1e-3)
    step(model, optimizer, 0)
    next(model.parameters()).requires_grad_(False)
    before = belongings(model, optimizer)

    tuner = attach(model, optimizer, method, layers)
    assert belongings(model, optimizer) != before
    train(model, optimizer, 2)
    tuner.detach()
    assert belongings(model, optimizer) == before

    optimizer.failing = True
    with pytest.raises(KeyboardInterrupt), attach(model, optimizer, method, layers):
        step(model, optimizer, 0)
    del optimizer.failing
    assert belongings(model, optimizer) == before

    with pytest.raises(IndexError), attach(model, optimizer, method, layers):
        model(input_ids=torch.full((1, 3), 10**6), labels=torch.zeros(1, dtype=torch.long))
    assert belongings(model, optimizer) == before


def test_a_detached_tuner_is_not_kept_alive() -> None:
    model = build("encoder")
    optimizer = adamw(model)
    tuners = []
    kinds = [row for row in ROWS if is_kind(row)]
    for row in kinds:
        with attach(model, optimizer, method_of(row), layers_of("encoder")) as tuner:
            train(model, optimizer, 1)
        tuners.append(weakref.ref(tuner))
    del tuner
    gc.collect()
    assert [reference() for reference in tuners] == [None] * len(kinds)
