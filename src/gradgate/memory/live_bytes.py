"""Count the bytes of live storages while torch runs, on real and on fake tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that counts every storage that an operation creates until it is freed; views count once.

    It does not see memory that a kernel allocates and frees within one operation, or the reserve of an allocator.
    A finalizer on each storage notes when it is freed, so the count needs no allocator and works without a GPU.

    Attributes:
        now: live bytes.
        gradients: of these, the bytes of gradients, as declared by :meth:`as_gradient`.
        peak: the most live bytes since the last :meth:`restart_peak`.
        gradients_at_peak: the bytes of gradients at that peak.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.gradients = self.peak = self.gradients_at_peak = 0
        self._alive: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._gradients: set[int] = set()

    def count(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors that exist already, such as weights."""
        for tensor in tensors:
            self._add(tensor)

    def as_gradient(self, tensor: Tensor) -> None:
        """Count the storage of a tensor as a gradient from now on."""
        key = tensor.untyped_storage()._cdata  # the address of the C++ storage, which all of its views share
        if key in self._alive and key not in self._gradients:
            self._gradients.add(key)
            self.gradients += self._alive[key][0]

    def restart_peak(self) -> None:
        """Reset the peak to the bytes that are alive now."""
        self.peak, self.gradients_at_peak = self.now, self.gradients

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation and count the storages that it returns."""
        output = func(*args, **(kwargs or {}))
        for value in tree_leaves(output):
            if isinstance(value, Tensor):
                self._add(value)
        return output

    def _add(self, tensor: Tensor) -> None:
        try:
            storage = tensor.untyped_storage()
        except NotImplementedError:  # a wrapper subclass without memory; its inner tensors are counted
            return
        key = storage._cdata
        if key in self._alive:
            return
        size = storage.nbytes()
        # Keep the weakref itself too: its callback is called only while the reference object exists.
        self._alive[key] = size, weakref.ref(storage, lambda _: self._drop(key))
        self.now += size
        if self.now > self.peak:
            self.restart_peak()

    def _drop(self, key: int) -> None:
        size, _ = self._alive.pop(key)
        self.now -= size
        if key in self._gradients:
            self._gradients.discard(key)
            self.gradients -= size
