"""Keep float32 masters of 16-bit parameters while these are open; the optimizer steps the masters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import Parameter

from gradgate.distributed.shards import local, whole
from gradgate.errors import AttachError, RunError, UsageError, some_of
from gradgate.tuner.averaged_weights import averages
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating
from gradgate.tuner.optimizer_states import HALF, Float32States
from gradgate.tuner.optimizers import Optimizers, held_by, nested

MasterPrecision = Literal["float32", "none"]

# Options with which an optimizer compensates for the rounding of its updates.
_OWN_PRECISION = (
    "bf16_stochastic_round",
    "stochastic_rounding",
    "use_stochastic_rounding",
    "kahan_sum",
    "use_kahan_summation",
    "master_weights",
)
_EIGHT_BITS = ("bitsandbytes", "torchao")
_DTYPE = attrgetter("dtype")
_NAMED = 3  # parameters named in a message


class Master:
    """The float32 copy of one parameter, which stands in for it in an optimizer's step.

    Attributes:
        parameter: in 16 bits; a DTensor if FSDP2 shards it, and then so is the copy.
        weight: the copy.
    """

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        self.weight = Parameter(parameter.detach().to(torch.float32))
        self._version = local(parameter)[0]._version
        self._address = local(parameter)[0].data_ptr()

    def set(self, value: Tensor) -> None:
        """Set the master from a whole tensor, of which it takes this process's shard."""
        mine, offset = local(self.weight)
        mine.copy_(value.flatten()[offset : offset + mine.numel()].view(mine.shape))
        self._version = -1  # the weights may be loaded before or after this, so compare them at the next step

    def enter(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """Give the master the parameter's gradient and state, for a step."""
        self._follow()
        gradient = self.parameter.grad
        self.weight.grad = None if gradient is None else gradient.to(torch.float32)
        for optimizer in optimizers:
            if self.parameter in optimizer.state:
                state = optimizer.state.pop(self.parameter)
                optimizer.state[self.weight] = {key: self._widened(value) for key, value in state.items()}

    def leave(self, optimizers: Sequence[torch.optim.Optimizer], *, stepped: bool) -> None:
        """Give the state back and, after a step, round the master into the parameter.

        Raises:
            AttachError: if the optimizer did not step the copy, but the parameter.
        """
        self.weight.grad = None
        for optimizer in optimizers:
            if self.weight in optimizer.state:
                optimizer.state[self.parameter] = optimizer.state.pop(self.weight)
        if stepped:
            # In-place writes raise the version of a tensor: only this class may have written since the last step.
            shard = local(self.parameter)[0]
            if shard._version != self._version:
                raise AttachError(
                    f"{type(optimizers[0]).__name__} stepped weights in {self.parameter.dtype} that are not "
                    f"in its param_groups, where their float32 masters were. Use master=none, or another optimizer."
                )
            shard.copy_(local(self.weight)[0])
            self._version = shard._version

    def _follow(self) -> None:
        """Copy what something else wrote to the parameter, such as loaded weights, into the master."""
        shard, master = local(self.parameter)[0], local(self.weight)[0]
        if shard._version != self._version or shard.data_ptr() != self._address:
            # An element that still rounds to the parameter keeps its low bits.
            master.copy_(torch.where(master.to(shard.dtype) == shard, master, shard.to(master.dtype)))
            self._version, self._address = shard._version, shard.data_ptr()

    def _widened(self, value: Any) -> Any:
        """Return one value of the state, in float32 if it comes from steps without a master."""
        narrow = isinstance(value, Tensor) and value.dtype == self.parameter.dtype
        return value.to(torch.float32) if narrow else value


class Masters(Effect):
    """Keeps a float32 master for each open parameter in 16 bits, and only for these.

    It is made from the weights when the parameter opens and goes when it closes. The optimizer steps the master, with
    a gradient and a state in float32, and the parameter is the master rounded once. So steps that are smaller than the
    rounding of the weights add up.

    Args:
        gating: says what is open.
        optimizers: all that step the model.
        precision: ``float32``; ``none`` for no masters; None for float32 unless an optimizer makes up for rounding by
            itself.

    Raises:
        AttachError: for ``float32`` and such an optimizer.
    """

    state_name: ClassVar[str] = "master"

    def __init__(self, gating: Gating, optimizers: Optimizers, precision: MasterPrecision | None) -> None:
        _check_precision(precision)
        self._gating, self._optimizers = gating, optimizers
        stepped = {id(p) for one in optimizers for p in held_by(one)} if precision != "none" else frozenset[int]()
        held = {name: p for name in gating.trainable if id(p := gating.parameters[name]) in stepped}
        narrow = {name for name, parameter in held.items() if parameter.dtype in HALF}
        reason = _own_precision(optimizers)
        self._wide = {name: p for name, p in held.items() if name not in narrow and reason is None}
        if narrow and reason is not None and precision == "float32":
            raise AttachError(f"master=float32 does not fit: {reason}. Use master=none, or an ordinary optimizer.")
        self._narrow: frozenset[str] = frozenset() if reason is not None else frozenset(narrow)
        self._masters: dict[str, Master] = {}
        self._by_parameter: dict[int, Master] = {}
        self._loaded: Mapping[str, Tensor] | None = None
        self._states = Float32States(optimizers if self._narrow else ())
        self._inside = {one: nested(one) for one in optimizers}

    @property
    def exist(self) -> bool:
        """Whether any parameter has a master now."""
        return bool(self._masters)

    def of(self, parameter: Tensor) -> Master | None:
        """Return the master of a parameter; None if it has none now."""
        return self._by_parameter.get(id(parameter))

    def inside(self, optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
        """Return the optimizer and any optimizer inside it that it steps with; each has states."""
        return self._inside[optimizer]

    def attach(self) -> None:
        """Keep states in float32 when an optimizer loads them."""
        self._states.attach()

    def on_plan(self, coming: ComingStep) -> None:
        """Make masters of the parameters that open, and free those of the parameters that close."""
        if not (self._narrow and coming.begins_phase):
            return
        wanted = [name for name in self._gating.names(lambda gate: not gate.closed) if name in self._narrow]
        # Free the old ones before new ones are made, to lower the peak.
        self._masters, self._by_parameter = {n: self._masters[n] for n in wanted if n in self._masters}, {}
        self._masters = {n: self._masters.get(n) or Master(self._gating.parameters[n]) for n in wanted}
        self._by_parameter = {id(master.parameter): master for master in self._masters.values()}
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            self._take(loaded)

    def before_step(self, step: OptimizerStep) -> None:
        """Compare types with those at the start.

        Raises:
            AttachError: for a parameter that was cast to 16 bits since the tuner was attached.
        """
        if HALF.isdisjoint(map(_DTYPE, self._wide.values())):
            return
        cast = [name for name, parameter in self._wide.items() if parameter.dtype in HALF]
        raise AttachError(
            f"{some_of(cast, _NAMED)} {'was' if len(cast) == 1 else 'were'} cast to {self._wide[cast[0]].dtype} while "
            f"the tuner was attached, so there is no float32 master, and most steps are smaller than the rounding of "
            f"such weights. Cast the model first, then make the optimizer and the tuner; or pass master='none'."
        )

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the masters as whole tensors; collective if they are sharded, so every process must call it."""
        return {name: whole(master.weight).to("cpu", copy=True) for name, master in self._masters.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Resume from saved masters, under the plan that they belong to.

        Raises:
            RunError: if this training has no masters, or those of other parameters.
        """
        for name, tensor in tensors.items():
            parameter = self._gating.parameters.get(name)
            if name not in self._narrow or parameter is None or parameter.shape != tensor.shape:
                raise RunError(
                    f"The saved state has a float32 master of {name}, shape {tuple(tensor.shape)}, but this "
                    f"training has none: its weights, optimizer or master= differ. Make the tuner as in the saved "
                    f"training."
                )
        self._check_states(tensors)
        self._loaded = tensors

    def release(self) -> None:
        """Free every master."""
        self._states.release()
        self._masters, self._by_parameter = {}, {}

    def _take(self, loaded: Mapping[str, Tensor]) -> None:
        missing = [name for name in self._masters if name not in loaded]
        if missing:
            raise RunError(
                f"The saved state has no float32 master of {missing[0]}, which is open: it was saved with "
                f"master=none, or by a version without masters. Pass master=none to continue without masters."
            )
        for name, master in self._masters.items():
            master.set(loaded[name])

    def _check_states(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise if moments were loaded without this effect's hooks and have lost their bits."""
        rounded = self._states.rounded() if tensors else None
        if rounded is not None:
            raise RunError(
                f"{rounded} has a state in 16 bits: it was loaded before the tuner was made, and "
                f"torch.optim.Optimizer.load_state_dict rounds states to the type of the weights. Make the tuner "
                f"first, then load the optimizer's state, then the tuner's with load_state_dict()."
            )


def has_masters(state: Mapping[str, Any]) -> bool:
    """Return True if a state that ``Tuner.state_dict`` returned has a master."""
    return any(name.startswith(f"{Masters.state_name}/") for name in state.get("tensors", {}))


def _check_precision(precision: object) -> None:
    if precision not in ("float32", "none", None):
        raise UsageError(f"master={precision!r}: expected 'float32', 'none' or None.")


def _own_precision(optimizers: Optimizers) -> str | None:
    """Return why an optimizer needs no masters or cannot have any; None if neither applies."""
    for optimizer in optimizers.with_inner():
        label = type(optimizer).__name__
        settings = [optimizer.defaults, vars(optimizer), *optimizer.param_groups]
        option = next((name for name in _OWN_PRECISION if any(setting.get(name) for setting in settings)), None)
        if option is not None:
            return f"{label} has {option}, with which it makes up for rounding by itself"
        if any(parent.__module__.split(".")[0] in _EIGHT_BITS for parent in type(optimizer).__mro__):
            return f"{label} is made for low precision, and steps the weights that it was given"
        if averages(optimizer):
            return f"{label} exchanges the weights for averages of its own between steps"
    return None
