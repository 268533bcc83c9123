"""Count the parameters saved if several tasks share one copy of their frozen layers.

What would Elsa do? (Lee et al. 2019), Sec. 3 and 4.3, Table 1: https://arxiv.org/abs/1911.03090
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gradgate.errors import UsageError
from gradgate.layers.units import EMBEDDINGS, HEAD

ParamCounts = Literal["paper", "model"]


@dataclass(frozen=True)
class Sizes:
    """Parameters of the parts of a model, in any one unit.

    Attributes:
        embeddings: E.
        layers: of each layer from the bottom, P in the paper, where all are alike.
        total: of the whole model with its head.
    """

    embeddings: float
    layers: tuple[float, ...]
    total: float


# Table 1, in millions. The total is the printed one: of the base model it is 0.2 less than the sum of the parts.
_PAPER = {12: Sizes(39.0, (7.1,) * 12, 124.6), 24: Sizes(52.0, (12.6,) * 24, 355.4)}


def model_sizes(groups: Mapping[str, int], param_counts: ParamCounts = "model") -> Sizes:
    """Return the sizes that :func:`saved_share` counts with.

    Args:
        groups: the model's groups from the bottom up, name to number of parameters, as a layer map or ``plan.yaml``
            has them: a tensor that is tied counts once, in the group that it is in.
        param_counts: ``"model"`` takes these counts; ``"paper"`` takes those of the paper's Table 1 for a model with
            as many layers (RoBERTa's, which the paper uses for XLM-R too, whose embeddings are far larger).

    Raises:
        UsageError: for ``"paper"`` where the model has neither 12 nor 24 layers.
    """
    layers = tuple(count for name, count in groups.items() if name not in (EMBEDDINGS, HEAD))
    if param_counts == "model":
        return Sizes(groups.get(EMBEDDINGS, 0), layers, sum(groups.values()))
    if len(layers) not in _PAPER:
        raise UsageError(
            f"The paper gives sizes for models of {' or '.join(map(str, _PAPER))} layers, and this one has "
            f"{len(layers)}. Use param_counts='model'."
        )
    return _PAPER[len(layers)]


def saved_share(sizes: Sizes, frozen: int, tasks: int | None) -> float:
    """Return the share of parameters saved by storing the frozen part once for all tasks instead of once per task.

    ``(K - 1) (E + N P) / (K Total)``: a share of the ``K Total`` parameters of models that share nothing.

    Args:
        sizes: see :func:`model_sizes`.
        frozen: N, frozen layers from the bottom, 0 to all; the embeddings are frozen with them.
        tasks: K, at least 1; None for the limit of many tasks, ``(E + N P) / Total``.

    Returns:
        From 0 to 1.

    Raises:
        UsageError: if ``frozen`` or ``tasks`` is out of range.
    """
    wrong = []
    if not 0 <= frozen <= len(sizes.layers):
        wrong.append(f"frozen={frozen} (expected 0 to {len(sizes.layers)})")
    if tasks is not None and tasks < 1:
        wrong.append(f"tasks={tasks} (expected 1 or more)")
    if wrong:
        raise UsageError(f"No parameters can be counted for {' and '.join(wrong)}.")
    shared = sizes.embeddings + sum(sizes.layers[:frozen])
    return shared / sizes.total * (1 if tasks is None else (tasks - 1) / tasks)
