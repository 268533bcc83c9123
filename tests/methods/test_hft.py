"""Half fine-tuning: how much of each category learns, how the halves are drawn, and what stays closed."""

from __future__ import annotations

from collections import Counter

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from gradgate import Clock, LayerMap, MethodState, Tuner, map_layers, method
from gradgate.errors import MethodError
from support.loop import adamw, build, moved, train, weights
from support.schedules import open_groups, stack

ENDS = {"embeddings", "head"}


def decoder(layers: int) -> LayerMap:
    """The modules of a decoder: four of attention, three of a feed-forward block, two norms in each layer."""
    sizes = {"vocab_size": 16, "hidden_size": 4, "intermediate_size": 4, "num_attention_heads": 2}
    return map_layers(LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, **sizes))).at("module")


def opened(text: str, layers: LayerMap, step: int = 0, seed: int = 0) -> set[str]:
    return open_groups(method(text).checked_plan(Clock(step), layers, MethodState(seed=seed)))


def by_category(names: set[str], layer: int) -> Counter[str]:
    inside = [name.removeprefix(f"layers.{layer}.") for name in names if name.startswith(f"layers.{layer}.")]
    return Counter(name.partition(".")[0] for name in inside)


@pytest.mark.parametrize("layers", [4, 5])
def test_the_halves_are_those_of_the_paper(layers: int) -> None:
    """Two of four in attention, one of two norms; of three in feed-forward two in one half of the layers, else one."""
    modules = decoder(layers)
    for seed in range(10):
        found = [by_category(opened("hft", modules, seed=seed), layer) for layer in range(layers)]
        assert all(one["attention"] == 2 and one["norm"] == 1 for one in found)
        assert Counter(one["mlp"] for one in found) == {2: (layers + 1) // 2, 1: layers // 2}


def test_every_matrix_is_as_likely_and_halves_differ_between_layers_rounds_and_seeds() -> None:
    modules, rounds = decoder(4), 600
    counts: Counter[str] = Counter()
    for turn in range(rounds):
        counts.update(opened("hft:every=1", modules, turn) - ENDS)
    assert len(counts) == 4 * 9
    assert all(abs(count / rounds - 0.5) < 4 * 0.5 / rounds**0.5 for count in counts.values())
    assert len({frozenset(opened("hft", modules, seed=seed)) for seed in range(20)}) == 20
    one = opened("hft", modules)
    halves = [{n.partition(".attention.")[2] for n in one if f"layers.{i}.attention" in n} for i in range(4)]
    assert len(set(map(frozenset, halves))) > 1


def test_a_round_is_the_whole_training_or_so_many_steps() -> None:
    modules = decoder(4)
    assert opened("hft", modules, 0) == opened("hft", modules, 10**6)
    assert method("hft").next_change(Clock(3), modules, MethodState()) is None
    assert opened("hft:every=5", modules, 0) == opened("hft:every=5", modules, 4) != opened("hft:every=5", modules, 5)
    assert method("hft:every=5").next_change(Clock(3), modules, MethodState()) == 5


def test_other_units_are_halves_of_the_layers() -> None:
    model = map_layers(build("llama"))  # three layers
    assert len(opened("hft:unit=layer", model) - ENDS) == 2
    assert len(opened("hft:unit=layer", stack(12)) - ENDS) == 6
    found = Counter(name.rpartition(".")[2] for name in opened("hft:unit=part", model.at("part")) - ENDS)
    assert found == {"attention": 2, "mlp": 2, "norm": 2}


def test_closed_matrices_keep_every_bit_and_the_ends_learn() -> None:
    model = build("bert")
    before, layers = weights(model), map_layers(model).at("module")
    with Tuner(model, adamw(model), "hft", seed=3, audit=True) as tuner:
        shown = open_groups(tuner.plan)
        train(model, tuner.optimizer, 3)
    assert {layers.group_of(name).name for name in moved(before, model)} == shown
    assert shown > ENDS
    assert opened("hft:ends=closed", layers) & ENDS == {"head"}  # of a task, with new weights
    assert not opened("hft:ends=closed", decoder(2)) & ENDS


def test_what_is_frozen_is_no_part_of_a_half() -> None:
    layers = decoder(4)
    frozen = layers.with_frozen(name for name in layers.weights if "q_proj" in name or "k_proj" in name)
    for layer in range(4):
        [chosen] = [name for name in opened("hft", frozen) if name.startswith(f"layers.{layer}.attention.")]
        assert chosen.endswith(("v_proj", "o_proj"))


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(MethodError, match=r"cannot have every=-1 \(expected 1 or more optimizer steps, or 0"):
        method("hft:every=-1")
