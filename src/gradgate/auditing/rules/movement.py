"""Find parameters that move though they are frozen, that do not move though they learn, and ties that broke."""

from __future__ import annotations

from collections.abc import Iterator

from gradgate.auditing.findings import Finding, finding, listed
from gradgate.auditing.records import ModelObservations, ParameterRecord

_SHORT = ("float16", "bfloat16")
NOT_FINITE = (
    "{names}: became NaN or infinite, so the model predicts nothing. Usual cause: weights in float16, in which the eps "
    "of Adam is 0 (from_pretrained keeps the dtype of the file); a learning rate that is too high; a loss over no "
    "labels. Load the model with dtype=torch.float32 and train with bf16=True; clip gradients."
)
_LEAST_SHARE = 0.2  # of the elements with a gradient that must have moved in 16 bits


def moved_while_frozen(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters that changed while they required no gradient, except for moving averages of others."""
    averages = averages_of(model)
    moved = [each for each in _frozen_and_moved(model) if each.name not in averages]
    if moved:
        yield finding(
            "moved_while_frozen",
            moved,
            "{names}: does not require grad, but moved. Usual cause: an old gradient, momentum or weight decay of an "
            "optimizer that still holds it, a second optimizer, or averaged weights written back. Set its grad to None "
            "when you freeze it, and leave it out of the optimizer.",
        )


def _frozen_and_moved(model: ModelObservations) -> list[ParameterRecord]:
    return [each for each in model.parameters if each.moved_closed or (each.moved and not each.opened)]


def averages_of(model: ModelObservations) -> set[str]:
    """Return the frozen parameters that have a learning twin under another path: a copy that follows the model."""
    frozen = _frozen_and_moved(model)
    learned = [each for each in model.parameters if each.learned]
    ends = {(tuple(each.name.split(".")[1:]), tuple(each.shape)) for each in learned if "." in each.name}
    suffixes = {(path[start:], shape) for path, shape in ends for start in range(len(path))}
    twins = set()
    for each in frozen:
        words = tuple(each.name.split("."))
        if not each.homes and any((words[start:], tuple(each.shape)) in suffixes for start in range(1, len(words) - 1)):
            twins.add(each.name)
    # A whole network is a copy, or nothing is: single equal names are chance.
    tops = {name.partition(".")[0] for name in twins}
    copies = {
        top
        for top in tops
        if all(each.name in twins for each in frozen if each.name.startswith(f"{top}."))
        and not any(each.opened for each in model.parameters if each.name.startswith(f"{top}."))
    }
    return {name for name in twins if name.partition(".")[0] in copies}


def not_finite(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters that the training made NaN or infinite."""
    broken = [each for each in model.parameters if each.moved and each.not_finite]
    if broken:
        yield finding("not_finite", broken, NOT_FINITE)


def lost_update(model: ModelObservations) -> Iterator[Finding]:
    """Find parameters with a gradient and a rate whose updates are rounded away."""
    learning = [each for each in model.parameters if each.homes and each.nonzero_gradient and model.rate(each) > 0]
    lost = [each for each in learning if _is_lost(each)]
    if lost:
        shares = [each.moved_share or 0.0 for each in lost]
        dtypes = " and ".join(sorted({each.dtype for each in lost}))
        yield finding(
            "lost_update",
            lost,
            f"{{names}}: has a gradient and a learning rate, but {_still(max(shares))} changed: the update is "
            f"smaller than half the distance between two neighbours in {dtypes}. Keep the "
            f"weights in float32 and compute in 16 bits (bf16=True, autocast), use an optimizer with float32 master "
            f"weights, or a higher learning rate.",
        )


def _is_lost(parameter: ParameterRecord) -> bool:
    if parameter.moved is False:
        return True
    few = parameter.moved_share is not None and parameter.moved_share < _LEAST_SHARE
    return few and parameter.dtype in _SHORT


def untied(model: ModelObservations) -> Iterator[Finding]:
    """Find tensors that were one, or should be, and are two."""
    if model.untied:
        names = tuple(dict.fromkeys(name for pair in model.untied for name in pair))
        pairs = listed([" and ".join(pair) for pair in model.untied])
        yield Finding(
            "untied",
            names,
            f"{pairs}: should be one tensor, but are two that differ after training. Usual cause: one of them was "
            f"replaced, moved or wrapped alone, as by modules_to_save. Call model.tie_weights() after the change and "
            f"before the optimizer is made, or set tie_word_embeddings to False if you mean two.",
        )


def _still(moved: float) -> str:
    return f"at most {max(moved, 0.01):.0%} of its elements" if moved else "none of its elements"
