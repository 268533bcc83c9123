"""Switch one model in memory between any number of deltas."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from gradgate.deltas.delta import Delta, load
from gradgate.deltas.patched import Patched, check_base, open_weights
from gradgate.deltas.swap import Patch, Target, Whole
from gradgate.errors import BusyError, DeltaError, nearest


class Bank:
    """A base model that becomes the trained model of any delta, and the base again, bit for bit.

    The deltas are in host memory, pinned if the model is on CUDA. Switching writes only the elements that differ,
    in place: tied weights stay tied. One batch must not be computed by two tasks, so a switch is refused while a
    forward pass runs, and a forward pass during a switch; :meth:`using` keeps other threads out for longer, such as for
    ``generate``. Submodules that are called directly, such as ``model.bert``, are not protected.

    Args:
        model: from transformers, with the weights of the base, of the class that the tasks were trained with. Tensors
            that the base lacks, such as the head, may have any values. The model must not be sharded.
        base: the base's folder or name; by default the one named in each delta.

    Raises:
        DeltaError: for a sharded model, or one with weights that are not in memory.
    """

    def __init__(self, model: nn.Module, base: str | os.PathLike[str] | None = None) -> None:
        self.model = model
        self._base = base
        self._target = Target.of(model)
        self._compared: set[str] = set()
        self._patches: dict[str, list[Patch]] = {}
        self._applied: list[Patch] = []  # all that may be in the model, even after an interrupted switch
        self._active: str | None = None
        self._guard = _Guard()
        self._hooks = (
            model.register_forward_pre_hook(lambda *_: self._guard.enter()),
            model.register_forward_hook(lambda *_: self._guard.leave(), always_call=True),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the deltas, in the order in which they were added."""
        return tuple(self._patches)

    @property
    def active(self) -> str | None:
        """Name of the active delta; None for the base."""
        return self._active

    def add(self, name: str, file: str | os.PathLike[str] | Delta) -> None:
        """Read a delta, check it, and store it under a name. Afterwards the model is the base.

        Raises:
            DeltaError: if the name is taken, the file is damaged, it belongs to another base, or the model is not that
                base, or not of the trained class.
            BusyError: as :meth:`activate`.
        """
        if name in self._patches:
            raise DeltaError(f"There is a delta {name!r} already. Pass another name, or remove that one.")
        delta = file if isinstance(file, Delta) else load(os.fspath(file))
        weights = open_weights(os.fspath(self._base) if self._base is not None else delta.origin.base)
        check_base(weights, delta)
        trained = Patched(weights, delta)
        self._target.check_names(trained)
        self.base()
        with self._guard.switching():
            for shared in trained.base.entries:
                if shared not in self._compared:
                    self._target.check_base(trained, shared)
                    self._compared.add(shared)
            self._patches[name] = list(self._target.patches(trained))
        trained.close()

    def remove(self, name: str) -> None:
        """Remove a delta; if it was active, the model becomes the base."""
        self._check(name)
        if self._active == name:
            self.base()
        del self._patches[name]

    def activate(self, name: str) -> None:
        """Switch the model to the trained one of a delta.

        Raises:
            DeltaError: if there is no such delta.
            BusyError: while a forward pass runs, another thread switches, or another thread is in :meth:`using`.
        """
        self._check(name)
        self._switch(name)

    def base(self) -> None:
        """Switch the model to the base; raise BusyError as :meth:`activate` does."""
        self._switch(None)

    @contextmanager
    def using(self, name: str) -> Iterator[nn.Module]:
        """Reserve the model of a delta for this thread until the end of the block, then switch to the base.

        Raises:
            DeltaError, BusyError: as :meth:`activate`.
        """
        self._check(name)
        with self._guard.owned():
            self._switch(name)
            try:
                yield self.model
            finally:
                self._switch(None)

    def detach(self) -> None:
        """Switch the model to the base and remove the hooks."""
        self.base()
        for hook in self._hooks:
            hook.remove()

    def _check(self, name: str) -> None:
        if name not in self._patches:
            known = ", ".join(self._patches) or "none"
            raise DeltaError(f"There is no delta {name!r}.{nearest(name, self._patches)} Known: {known}.")

    def _switch(self, name: str | None) -> None:
        with self._guard.switching():
            if name == self._active and (name is not None or not self._applied):
                return
            wanted = self._patches[name] if name is not None else []
            replaced = {id(patch.tensor) for patch in wanted if isinstance(patch, Whole)}
            self._active, self._guard.mixed = None, True  # an exception below leaves this state
            with torch.no_grad():
                for patch in reversed(self._applied):
                    # Skip full tensors that the new delta overwrites anyway.
                    if not (isinstance(patch, Whole) and id(patch.tensor) in replaced):
                        patch.undo()
                # If a patch below fails, undoing all of these restores the base.
                self._applied = [patch for patch in self._applied if isinstance(patch, Whole)] + wanted
                for patch in wanted:
                    patch.do()
            _wait(self._target.tensors.values())
            self._applied = wanted
            self._active, self._guard.mixed = name, False


def _wait(tensors: object) -> None:
    """Wait until asynchronous copies from host memory are done."""
    if torch.cuda.is_available() and any(tensor.is_cuda for tensor in tensors):  # type: ignore[attr-defined]
        torch.cuda.synchronize()


class _Guard:
    """A guard over threads that decides which may compute with a model and which may switch it.

    ``mixed`` is True while a switch has started and not finished.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, int] = {}  # thread -> running forward passes
        self._switching: int | None = None
        self._owner: int | None = None
        self.mixed = False

    def enter(self) -> None:
        """Register a forward pass; raise BusyError if it may not run."""
        me = threading.get_ident()
        with self._lock:
            self._refuse_others(me, "this forward pass")
            if self._switching is not None:
                raise BusyError(
                    "A forward pass started while the model is being switched. Wait until the switch has finished."
                )
            if self.mixed:
                raise BusyError("A switch was interrupted, so the model belongs to no task. Call base() or activate().")
            self._running[me] = self._running.get(me, 0) + 1

    def leave(self) -> None:
        """Unregister a forward pass that has ended or was refused."""
        me = threading.get_ident()
        with self._lock:
            left = self._running.get(me, 0) - 1
            if left > 0:
                self._running[me] = left
            else:
                self._running.pop(me, None)

    @contextmanager
    def switching(self) -> Iterator[None]:
        """Reserve the model for a switch in the body; raise BusyError if it may not be switched."""
        me = threading.get_ident()
        with self._lock:
            self._refuse_others(me, "this switch")
            if self._running:
                raise BusyError("A forward pass is running on the model. Switch when it has finished.")
            if self._switching is not None:
                raise BusyError("Another switch is under way. One thread at a time can switch the model.")
            self._switching = me
        try:
            yield
        finally:
            self._switching = None

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Reserve the model for the current thread in the body; raise BusyError if another one has it."""
        me = threading.get_ident()
        with self._lock:
            if self._owner is not None:
                raise BusyError("The bank is in use. Leave the other using() first, or create one bank per thread.")
            self._owner = me
        try:
            yield
        finally:
            self._owner = None

    def _refuse_others(self, me: int, what: str) -> None:
        if self._owner not in (None, me):
            raise BusyError(
                f"Another thread has the model in using(), and {what} would mix two tasks. Wait until it has left."
            )
