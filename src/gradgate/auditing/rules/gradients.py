"""Find parameters that no gradient reaches, and losses over nothing."""

from __future__ import annotations

from collections.abc import Iterator

from gradgate.auditing.findings import Finding, finding
from gradgate.auditing.records import ModelObservations, ParameterRecord

# Parts that many models have and many tasks do not use; their authors mean no harm.
_UNUSED_BY_DESIGN = (".pooler.", "mask_token", "masked_spec_embed", ".original_module.")


def _without_gradient(model: ModelObservations) -> list[ParameterRecord]:
    return [
        each
        for each in model.parameters
        if each.homes and each.looks and not each.had_gradient and not each.moved and not unused_by_design(each.name)
    ]


def unused_by_design(name: str) -> bool:
    """Return True for parts that a model has for other tasks, such as the pooler, and originals of PEFT's copies."""
    return any(part in f".{name}" for part in _UNUSED_BY_DESIGN)


def no_gradient(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters that require a gradient and never have one."""
    silent = _without_gradient(model)
    if silent and not model.replicated:
        yield finding(
            "no_gradient",
            silent,
            "{names}: requires grad and is in the optimizer, but never has a gradient. Usual cause: its output is "
            "detached or computed under torch.no_grad(), the loss does not use it, or checkpointing cuts the graph. "
            "Connect it to the loss, or set requires_grad to False.",
        )


def unused(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters that DistributedDataParallel waits for and the loss does not use."""
    silent = _without_gradient(model)
    if silent and model.replicated:
        yield finding(
            "unused",
            silent,
            "{names}: DistributedDataParallel manages it, but no loss uses it: without find_unused_parameters=True the "
            "next step ends with an error, with it each step searches the whole graph. Set requires_grad to False "
            "before the model is wrapped.",
        )


def zero_gradient(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters whose gradient is zero in each look."""
    trained = [each for each in model.parameters if each.had_gradient]
    zero = [each for each in trained if not each.nonzero_gradient and each.looks > 1]
    if zero:
        decayed = [each.name for each in zero if each.moved]
        moves = " Weight decay alone moves it." if decayed else ""
        yield finding(
            "zero_gradient",
            zero,
            f"{{names}}: has a gradient, but every element of it is 0 in each look.{moves} Usual cause: a softmax over "
            f"one class, a mask or factor of 0, dead activations, or a loss over no tokens. Check the loss of one "
            f"batch by hand.",
        )


def zero_tokens(model: ModelObservations) -> Iterator[Finding]:
    """Find batches whose labels are all ignored."""
    empty = sum(count == 0 for count in model.tokens)
    if empty:
        yield Finding(
            "zero_tokens",
            (),
            f"{empty} of {len(model.tokens)} observed batches have no labels for the loss: all are -100. Usual "
            f"cause: the template of the completions does not match, or truncation cuts the answers off. Decode one "
            f"batch where labels != -100; raise the maximum length or correct the template.",
        )
