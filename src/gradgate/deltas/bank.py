"""Keep one model in memory, and switch any number of deltas in and out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from gradgate.deltas.delta import Delta, Origin, load
from gradgate.deltas.patched import Patched, check_base, open_weights
from gradgate.deltas.swap import Patch, Whole
from gradgate.deltas.target import Target, Writes
from gradgate.errors import BusyError, DeltaError, nearest


class Bank:
    """A base model that becomes the trained model of any delta, and the base again, bit for bit.

    The deltas are in host memory, pinned if the model is on CUDA. Switching writes only the elements that differ, in
    place: tied weights stay tied. Threads take turns: a switch waits for another thread's forward pass, and a forward
    pass for another thread's switch. A bank is not thread-safe across activations, as another thread may switch between
    :meth:`activate` and the next forward pass: use :meth:`using`, or a bank per thread. Submodules that are called
    directly, such as ``model.bert``, are not protected.

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
        self._forms = self._target.forms()
        self._compared: dict[str, Writes] = {}
        self._first: Origin | None = None  # of the first delta, whose base the model is
        self._patches: dict[str, list[Patch]] = {}
        self._applied: list[Patch] = []  # all that may be in the model, even after an interrupted switch
        self._active: str | None = None
        self._lock = threading.RLock()  # of the thread that computes, switches, or is in using()
        self._passes = 0  # forward passes of that thread that have not ended
        self._in_use = self._is_mixed = False
        self._hooks = (
            model.register_forward_pre_hook(lambda *_: self._enter()),
            model.register_forward_hook(lambda *_: self._leave(), always_call=True),
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
        """Read a delta, check all of it, and add it under a name. The model is the base afterwards.

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
        self._check_same_base(delta)
        trained = Patched(weights, delta)
        self._target.check_names(trained)
        self.base()
        with self._switching():
            self._compared = self._target.check_base(trained, self._compared)
            self._first = self._first or delta.origin
            self._patches[name] = list(self._target.patches(trained))
        trained.close()

    def remove(self, name: str) -> None:
        """Remove a delta; if it was active, the model is the base afterwards."""
        self._check(name)
        if self._active == name:
            self.base()
        del self._patches[name]

    def activate(self, name: str) -> None:
        """Switch the model to the trained one of a delta.

        Raises:
            DeltaError: if there is no such delta, or the model's tensors were cast, reshaped or replaced.
            BusyError: during a forward pass of this thread.
        """
        self._check(name)
        self._switch(name)

    def base(self) -> None:
        """Make the model the base; raise DeltaError or BusyError as :meth:`activate` does."""
        self._switch(None)

    @contextmanager
    def using(self, name: str) -> Iterator[nn.Module]:
        """Make the model the trained one of a delta until the end of the block; then it is the base again.

        Other threads wait to compute with the model or to switch it.

        Raises:
            DeltaError: if there is no such delta.
            BusyError: inside another ``using`` or a forward pass of this thread.
        """
        self._check(name)
        with self._lock:
            if self._in_use:
                raise BusyError("The bank is in use. Exit the other using() block first.")
            self._in_use = True
            try:
                self._switch(name)
                yield self.model
            finally:
                try:
                    self._switch(None)
                finally:
                    self._in_use = False

    def detach(self) -> None:
        """Make the model the base, and remove the hooks."""
        self.base()
        for hook in self._hooks:
            hook.remove()

    def _check_same_base(self, delta: Delta) -> None:
        mine, first = delta.origin, self._first
        if first is not None and mine.base_fingerprint != first.base_fingerprint:
            raise DeltaError(
                f"{delta.path} belongs to the base {mine.base!r} (fingerprint {mine.base_fingerprint[:16]}…), and the "
                f"bank's model is {first.base!r} (fingerprint {first.base_fingerprint[:16]}…). Nothing was changed; "
                f"make another bank of a model of that base."
            )

    def _check(self, name: str) -> None:
        if name not in self._patches:
            known = ", ".join(self._patches) or "none"
            raise DeltaError(f"There is no delta {name!r}.{nearest(str(name), self._patches)} Known: {known}.")

    def _switch(self, name: str | None) -> None:
        with self._switching():
            if name == self._active and (name is not None or not self._applied):
                return
            if not self._is_mixed:
                self._target.check_forms(self._forms)
            wanted = self._patches[name] if name is not None else []
            replaced = {id(patch.tensor) for patch in wanted if isinstance(patch, Whole)}
            self._active, self._is_mixed = None, True
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
            self._forms = self._target.forms()
            self._active, self._is_mixed = name, False

    @contextmanager
    def _switching(self) -> Iterator[None]:
        """Hold the lock while weights are written."""
        with self._lock:
            if self._passes:
                raise BusyError("A forward pass is running on the model. Switch when it has finished.")
            yield

    def _enter(self) -> None:
        """Take the lock for a forward pass; torch calls :meth:`_leave` also if this raises."""
        self._lock.acquire()
        self._passes += 1
        if self._is_mixed:
            raise BusyError("A switch was interrupted, so the model fits no task. Call base() or activate().")

    def _leave(self) -> None:
        self._passes -= 1
        self._lock.release()


def _wait(tensors: object) -> None:
    """Wait until asynchronous copies from host memory are done."""
    if torch.cuda.is_available() and any(tensor.is_cuda for tensor in tensors):  # type: ignore[attr-defined]
        torch.cuda.synchronize()
