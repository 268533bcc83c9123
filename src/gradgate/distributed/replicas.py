"""Check copies of one model in many processes: whether DDP supports a method, and whether the copies are equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gradgate.clock import Clock
from gradgate.distributed.shards import check_shards, is_sharded, prepare
from gradgate.errors import AttachError, AuditError
from gradgate.layers.names import named_parameters
from gradgate.model_copies import noted

LOOKED_AHEAD = 1000  # steps whose plans are checked in advance

Opened = Callable[[Clock], Collection[str]]
"""Canonical names of the parameters that are open in the step after a clock's."""


class Replicas:
    """The processes with copies of a model, seen from one of them.

    DDP averages the gradients of the parameters that required one when it was created, and waits for each of them. So
    parameters that open later must be among them, and those that close need ``find_unused_parameters=True``. A DDP that
    was not passed to the tuner, such as Trainer's, is found in the first forward pass.

    Args:
        model: as passed to the tuner.
        optimizer: as passed to the tuner, one or several; accelerate's wrapper knows how it distributes.
        inner: the model inside its wrappers.

    Raises:
        AttachError: if gates cannot be correct: DeepSpeed, Megatron, FSDP version 1, tensor parallelism.
    """

    def __init__(self, model: nn.Module, optimizer: Any, inner: nn.Module) -> None:
        optimizers = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
        for one in optimizers:
            _refuse_engines(model, one)
        prepare(inner)
        self._inner = inner
        self._parameters = named_parameters(inner)
        check_shards(inner, self._parameters)
        self._wrapper: DistributedDataParallel | None = None
        self._reduced: frozenset[str] = frozenset()
        self._hook: Any = None
        self._to_open: frozenset[str] = frozenset()
        self._opened: Opened | None = None
        self._clock, self._ahead = Clock(), False
        self._chose_alone = False
        self._by_accelerate = any(_distribution(one).startswith("MULTI_") for one in optimizers)
        wrapper = _ddp_in(model)
        if wrapper is not None:
            self._adopt(wrapper)

    @property
    def sharded(self) -> bool:
        """True if this process has only a part of some parameter."""
        return any(map(is_sharded, self._parameters.values()))

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The processes with copies; None for one process, or if neither DDP nor accelerate keeps copies equal."""
        if self._wrapper is not None:
            group: dist.ProcessGroup | None = self._wrapper.process_group
        elif self._by_accelerate and dist.is_initialized():
            group = dist.group.WORLD
        else:
            return None
        return group if group is not None and dist.get_world_size(group) > 1 else None

    def expect(self, to_open: Iterable[str], opened: Opened, clock: Clock, *, ahead: bool) -> None:
        """Check that DDP supports the method.

        Args:
            to_open: canonical names of all parameters that the method opens at some step.
            opened: returns those that are open after a clock.
            clock: the current step.
            ahead: True if the plans of later steps are known.

        Raises:
            AttachError: if it does not; in the first forward pass, if DDP is not known before.
        """
        self._to_open, self._opened, self._clock, self._ahead = frozenset(to_open), opened, clock, ahead
        self._check()

    def admit(self, opened: Collection[str], step: int) -> None:
        """Check that DDP allows the plan after ``step`` completed steps; raise AttachError if not."""
        self._clock = replace(self._clock, step=step)
        if self._rigid:
            self._refuse_closed(opened, step)

    def note_choice(self) -> None:
        """Note that the method chooses by this process's own data, for which the others must be known by now."""
        self._chose_alone |= self.group is None

    def forget_choice(self) -> None:
        """Note that choices of an earlier training, which all processes load, replace those made here."""
        self._chose_alone = False

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        """Return the mean over processes, so that all decide the same; the exact values if all are the same."""
        gathered = self._gather(values)
        if all(other == gathered[0] for other in gathered):
            return values
        return {name: sum(other[name] for other in gathered) / len(gathered) for name in values}

    def first(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the first process's tensors, so that all continue with the same ones."""
        if self.group is None:
            return tensors
        shared = [tensors]
        dist.broadcast_object_list(shared, src=dist.get_global_rank(self.group, 0), group=self.group)
        return {name: tensor.to(tensors[name].device) for name, tensor in shared[0].items()}

    def compare(self, fingerprints: Callable[[Tensor], str], step: int) -> None:
        """Check that all processes have the same bits in every parameter that is not sharded over them.

        Raises:
            AuditError: in every process, with the name of a parameter that differs.
        """
        if self.group is None:
            return
        copied = {name: parameter for name, parameter in self._parameters.items() if not is_sharded(parameter)}
        mine = {name: fingerprints(parameter) for name, parameter in copied.items()}
        # Exchange one digest first, and the full lists only if it differs.
        digest = blake2b("".join(mine.values()).encode(), digest_size=16).hexdigest()
        if len(set(self._gather(digest))) == 1:
            return
        all_prints = self._gather(mine)
        name = next(name for name in mine if len({prints[name] for prints in all_prints}) > 1)
        odd = next(rank for rank, prints in enumerate(all_prints) if prints[name] != all_prints[0][name])
        raise AuditError(
            f"{name} is not the same in processes 0 and {odd} (seen after step {step}). Were its gradients averaged? "
            f"Every process must start with the same weights and step with the same gradients."
        )

    def watch(self) -> None:
        """Look for an unknown DDP in the first forward pass of the training."""
        if self._wrapper is None and dist.is_available() and dist.is_initialized():
            self._hook = noted(self._inner.register_forward_pre_hook(self._look_around))

    def release(self) -> None:
        """Stop looking for a DDP."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _gather(self, value: Any) -> list[Any]:
        if self.group is None:
            return [value]
        gathered: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(gathered, value, group=self.group)
        return gathered

    def _look_around(self, *_: Any) -> None:
        """Take the DDP that is running from the attribute that it sets during its forward pass."""
        if torch.compiler.is_compiling() or not (self._inner.training and torch.is_grad_enabled()):
            return
        self.release()
        wrapper = getattr(DistributedDataParallel, "_active_ddp_module", None)
        if wrapper is not None:
            self._adopt(wrapper)
            if self._chose_alone and self.group is not None:
                raise AttachError(
                    "The method measured training data before DistributedDataParallel was known, so each process chose "
                    "by its own. Pass the wrapped model to Tuner. "
                    f"Found {type(self._inner).__name__}; expected the DistributedDataParallel around it."
                )
            self._check()

    @property
    def _rigid(self) -> bool:
        """True if DDP waits for the gradient of every parameter that it has registered."""
        wrapper = self._wrapper
        return wrapper is not None and (wrapper.static_graph or not wrapper.find_unused_parameters)

    def _check(self) -> None:
        if self._wrapper is None or self._opened is None:
            return
        unreduced = sorted(self._to_open - self._reduced)
        if unreduced:
            more = f" and {len(unreduced) - 1} more" if len(unreduced) > 1 else ""
            raise AttachError(
                f"{unreduced[0]}{more} did not require a gradient when DistributedDataParallel was made, so its "
                f"gradient is never averaged and the processes would drift apart once it opens. Wrap the model while "
                f"every parameter requires a gradient, and attach the tuner afterwards."
            )
        now = self._clock.step
        last = min(now + LOOKED_AHEAD, self._clock.total_steps or 0) if self._ahead else 0
        for step in range(now, max(last, now + 1)) if self._rigid else ():
            self._refuse_closed(self._opened(replace(self._clock, step=step)), step)

    def _refuse_closed(self, opened: Collection[str], step: int) -> None:
        closed = sorted(self._reduced.difference(opened))
        if closed and self._wrapper is not None:
            setting = "static_graph=True" if self._wrapper.static_graph else "find_unused_parameters=False"
            raise AttachError(
                f"{closed[0]} is closed in step {step + 1}, but DistributedDataParallel with {setting} waits for its "
                f"gradient. Wrap the model with find_unused_parameters=True and without static_graph (Trainer: "
                f"ddp_find_unused_parameters=True; Lightning: strategy='ddp_find_unused_parameters_true'; accelerate: "
                f"Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)]))."
            )

    def _adopt(self, wrapper: DistributedDataParallel) -> None:
        self._wrapper = wrapper
        self._reduced = frozenset(name for name, p in self._parameters.items() if id(p) in _reduced_by(wrapper))


def _ddp_in(model: nn.Module) -> DistributedDataParallel | None:
    """Return the DDP around a model, inside or outside ``torch.compile``, or None."""
    while True:
        if isinstance(model, DistributedDataParallel):
            return model
        inner = getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return None
        model = inner


def _reduced_by(wrapper: DistributedDataParallel) -> set[int]:
    """Return the ids of the parameters whose gradients DDP averages."""
    ddp: Any = wrapper  # untyped in torch
    known = {id(parameter) for parameter in ddp.module.parameters()}
    if ddp._get_ddp_logging_data().get("num_parameter_tensors") == len(known):
        return known
    # Only its buckets show which; these copies briefly take as much memory as all gradients.
    return {id(parameter) for bucket in ddp.reducer._get_zeros_like_grad_buckets() for parameter in bucket.parameters()}


def _distribution(optimizer: Any) -> str:
    """Return accelerate's name for its kind of distribution; empty without its optimizer wrapper."""
    state = getattr(optimizer, "accelerator_state", None)
    return str(getattr(getattr(state, "distributed_type", ""), "value", ""))


def _refuse_engines(model: nn.Module, optimizer: Any) -> None:
    kinds = [*type(model).__mro__, *type(optimizer).__mro__]
    deepspeed = any("deepspeed" in kind.__module__.split(".") for kind in kinds)
    if deepspeed or _distribution(optimizer) == "DEEPSPEED":
        raise AttachError(
            "DeepSpeed clips, steps and clears gradients inside its backward pass, so no gate can act between "
            "gradient and step. Use DDP, or FSDP2 for models that do not fit."
        )
    if _distribution(optimizer) in ("MEGATRON_LM", "XLA"):
        raise AttachError(f"Gates are not tested under {_distribution(optimizer)}. Use DDP or FSDP2.")
