"""Find parameters that their optimizer does not have, has twice, or has with a rate of zero."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from gradgate.auditing.findings import Finding, finding
from gradgate.auditing.records import ModelObservations, OptimizerRecord, ParameterRecord


def _left_out(model: ModelObservations) -> list[ParameterRecord]:
    """Return the parameters that get gradients, but are in no optimizer and do not move."""
    return [
        each for each in model.parameters if each.opened and each.had_gradient and not each.homes and not each.moved
    ]


def not_in_optimizer(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters with a gradient that no optimizer holds."""
    if left_out := _left_out(model):
        yield finding(
            "not_in_optimizer",
            left_out,
            "{names}: requires grad and gets a gradient, but no optimizer holds it, so it never learns. Usual cause: "
            "the optimizer was made before the parameter, or from a list without it. Make the optimizer from "
            "model.parameters() after the last change of the model; set requires_grad to False on what is not to "
            "learn.",
        )


def in_two_groups(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters that two optimizers step in turn, or one in two groups."""
    twice = [each for each in model.parameters if _is_stepped_twice(model, each)]
    if twice:
        yield finding(
            "in_two_groups",
            twice,
            "{names}: is in two groups or two optimizers, and each of them moves it in every step. Usual cause: a "
            "group for the head next to one of model.parameters(). Leave each parameter in one group.",
        )


def _is_stepped_twice(model: ModelObservations, parameter: ParameterRecord) -> bool:
    for (one, _), (other, _) in combinations(parameter.homes, 2):
        if one == other or _in_turn(model.optimizers[one], model.optimizers[other]):
            return True
    return False


def _in_turn(one: OptimizerRecord, other: OptimizerRecord) -> bool:
    """Return True if the steps of two optimizers alternate; those of two phases of a training do not."""
    nested = one.wraps or other.wraps
    return not nested and one.last > other.first and other.last > one.first


def empty_group(model: ModelObservations) -> Iterator[Finding]:
    """Find groups without parameters in an optimizer that lacks parameters of the model."""
    lacking = [each for each in model.parameters if each.opened and not each.homes and not each.moved]
    empty = [
        f"group {place} of {optimizer.name}"
        for optimizer in model.optimizers
        for place, size in enumerate(optimizer.groups)
        if size == 0
    ]
    if empty and lacking:
        yield finding(
            "empty_group",
            lacking,
            f"{' and '.join(empty)} is empty, and {{names}} is in no group. Usual cause: a generator, such as "
            f"model.named_parameters(), was used up by the list of the first group. Write "
            f"list(model.named_parameters()) once and filter that.",
        )


def replaced(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters that took the place of those that the optimizer holds."""
    shapes = [shape for optimizer in model.optimizers for shape in optimizer.strangers]
    swapped = [each for each in _left_out(model) if each.replaced or _is_equal_up_to_rows(each.shape, shapes)]
    if swapped:
        yield finding(
            "replaced",
            swapped,
            "{names}: the optimizer holds an older tensor that the model does not use any more. Usual cause: "
            "resize_token_embeddings, a new head or a copy of the model after the optimizer was made. Change the model "
            "first, then make the optimizer.",
        )


def _is_equal_up_to_rows(shape: list[int], others: list[list[int]]) -> bool:
    """Return True if one of the other shapes is this one with any number of rows."""
    return any(len(other) == len(shape) and other[1:] == shape[1:] for other in others)


def zero_learning_rate(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters whose learning rate was zero in every step."""
    stopped = [each for each in model.parameters if each.opened and each.homes and model.rate(each) == 0]
    if stopped:
        yield finding(
            "zero_learning_rate",
            stopped,
            "{names}: the learning rate of its group was 0 in every step. Usual cause: a schedule that has ended or "
            "never begins, or a factor of 0 for a group. Print scheduler.get_last_lr() after a few steps; freeze what "
            "is not to learn.",
        )
