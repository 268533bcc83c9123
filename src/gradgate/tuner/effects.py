"""Order what a tuner does around each training step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from gradgate.distributed.replicas import Replicas
from gradgate.errors import AttachError
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.traits import Traits
from gradgate.tuner.audit import TensorAudit
from gradgate.tuner.averaged_weights import AveragedWeights
from gradgate.tuner.backward import Checkpointing, GraphLimits
from gradgate.tuner.checks import (
    DistributedChecks,
    EmptyGroups,
    FiniteGradients,
    MomentumOfAdam,
    SharedWeights,
    reached_names,
)
from gradgate.tuner.chunked_step import ChunkedStep
from gradgate.tuner.dropout import DropoutOff
from gradgate.tuner.effect import Effect
from gradgate.tuner.foreign_changes import ForeignChanges
from gradgate.tuner.frozen_layers import FrozenBatchNorms, FrozenBottom
from gradgate.tuner.gating import Gating
from gradgate.tuner.gradient_release import GradientRelease
from gradgate.tuner.masters import Masters
from gradgate.tuner.mixout import Mixing
from gradgate.tuner.optimizer_groups import LearningRates, StateOfClosed
from gradgate.tuner.optimizers import Optimizers
from gradgate.tuner.redrawn_masks import RedrawnMasks
from gradgate.tuner.switched_adapters import SwitchedAdapters
from gradgate.tuner.unseen_steps import unseen_steps
from gradgate.tuner.watching import Watching


@dataclass(frozen=True)
class Trained:
    """A model with its method and its gating: what every effect acts on.

    Attributes:
        model: unwrapped.
        layers: its map, in the method's unit.
        seed: for draws.
        frozen_layers: keeps the closed layers at the bottom quiet; None if their dropout stays on.
    """

    model: nn.Module
    layers: LayerMap
    method: Method
    gating: Gating
    seed: int
    frozen_layers: FrozenBottom | None

    @property
    def traits(self) -> Traits:
        """The fixed facts of the method."""
        return self.method.traits


def effects_of_passes(trained: Trained) -> list[Effect]:
    """Return the effects that act only on forward and backward passes, in any order."""
    model, gating, traits = trained.model, trained.gating, trained.traits
    return [
        Checkpointing(model, gating.by_group),
        *([trained.frozen_layers] if trained.frozen_layers else []),
        *([Mixing(model, traits.mixing, gating.trainable, trained.seed)] if traits.mixing else []),
        FrozenBatchNorms(model, {n: p for n, p in gating.parameters.items() if n not in gating.beside}),
        *([DropoutOff(model)] if traits.dropout_off else []),
    ]


@dataclass(frozen=True)
class Stepping:
    """The objects that take part in an optimizer's step.

    Attributes:
        optimizers: all that step the model.
        replicas: copies of the model in other processes.
        masters: float32 copies that are stepped.
        watching: measures what the method watches; None if it watches nothing.
    """

    optimizers: Optimizers
    replicas: Replicas
    masters: Masters
    watching: Watching | None


def ordered_effects(trained: Trained, stepping: Stepping, *, audit: bool, release: bool) -> list[Effect]:
    """Return the effects in order: the first acts first on a plan and before a step, and last after the step.

    Args:
        audit: compare tensors at each change of phase.
        release: step each parameter within the backward pass.

    Raises:
        AttachError: if gradients are to be released and the method watches them.
    """
    method, gating, traits = trained.method, trained.gating, trained.traits
    optimizers, masters, watching = stepping.optimizers, stepping.masters, stepping.watching
    chunked = ChunkedStep(gating, masters)
    if release and watching:
        raise AttachError(
            f"{method.spec!r} looks at gradients when the optimizer steps, and release_gradients leaves none until "
            f"then. Leave it out, or use another method."
        )
    return [
        # Changes by other code, and plans that DDP or an optimizer cannot follow, are refused before anything changes.
        ForeignChanges(trained.model, trained.layers, gating, audited=audit),
        EmptyGroups(method, trained.layers),
        SharedWeights(method, trained.layers),
        DistributedChecks(stepping.replicas),
        MomentumOfAdam(optimizers),
        # Flags and gradients come first, as all later effects ask the gating what is open.
        gating,
        SwitchedAdapters(trained.model, gating),
        FiniteGradients(optimizers, gating),
        *unseen_steps(optimizers, gating, release),
        # It must see the gradients that the optimizer gets, and the weights that the step leaves.
        *([watching] if watching else []),
        # The audit expects what the scaled learning rates let move.
        LearningRates(gating),
        # The audit compares before any chunk of the optimizer's step, and after the last weight is put back.
        *([TensorAudit(gating, stepping.replicas)] if audit else []),
        # Steps chunks before the optimizer's own step, so no later effect may prepare a step.
        chunked,
        masters,
        *([GradientRelease(optimizers, gating, chunked)] if release else []),
        # States are dropped only after their parameters are closed.
        StateOfClosed(optimizers, traits.state_of_closed, gating),
        *([RedrawnMasks(optimizers, gating)] if traits.forgets_held else []),
        AveragedWeights(optimizers, method, reached_names(method, trained.layers, gating.groups), gating),
        GraphLimits(),
        *effects_of_passes(trained),
    ]
