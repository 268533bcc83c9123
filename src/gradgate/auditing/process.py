"""Observe a process from its start to its end: begin when it imports torch, write what was seen when it ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradgate.auditing.watch import Watch

FOLDER, EXPECT, LOOKS_AT = "GRADGATE_AUDIT_FOLDER", "GRADGATE_AUDIT_EXPECT", "GRADGATE_AUDIT_STEPS"


def observe_this_process() -> None:
    """Begin the observation once torch is imported; a process that never imports it is left alone."""
    folder = Path(os.environ[FOLDER])
    (folder / f"python-{os.getpid()}").touch()
    if "torch" in sys.modules:
        _Observer(folder).begin()
    else:
        sys.meta_path.insert(0, _AfterTorch(_Observer(folder).begin))


class _Observer:
    """Begins and ends the observation of this process, and of processes that are forked from it.

    Hooks are light: all that imports more than torch's optimizers waits for the first step.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watch: Watch | None = None
        self._ended = False

    def begin(self) -> None:
        """Let torch's optimizers call the observer."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        from gradgate.auditing.uncompiled import uncompiled

        (self._folder / f"torch-{os.getpid()}").touch()
        # They stay to the end: within a step torch iterates over its hooks, so none may come or go there.
        register_optimizer_step_pre_hook(uncompiled(self._before))
        register_optimizer_step_post_hook(uncompiled(self._after))
        os.register_at_fork(after_in_child=self._after_fork)

    def _before(self, optimizer: Any, *_: object) -> None:
        if self._watch is None and not self._ended:
            self._watch = self._start()
        if self._watch is not None:
            self._watch.before(optimizer)

    def _after(self, optimizer: Any, *_: object) -> None:
        if self._watch is not None:
            self._watch.after(optimizer)

    def _start(self) -> Watch:
        from gradgate.auditing.expectation import Expectation
        from gradgate.auditing.watch import Watch

        selector, step = os.environ.get(EXPECT), os.environ.get(LOOKS_AT)
        self._end_with_process()
        return Watch(
            None if selector is None else Expectation(selector),
            None if step is None else int(step),
            folder=self._folder,
        )

    def _end_with_process(self) -> None:
        """Write the record at the end; children of multiprocessing end without calling ``atexit``."""
        from multiprocessing import util

        atexit.register(self._write)
        util.Finalize(None, self._write, exitpriority=-100)

    def _write(self) -> None:
        watch, self._watch = self._watch, None
        self._ended = True
        if watch is not None:
            watch.stop().write(self._folder / f"record-{os.getpid()}.json")

    def _after_fork(self) -> None:
        """Follow a forked process on its own: what its parent saw before is the parent's to write."""
        if self._watch is not None:
            self._watch.forget()
            self._end_with_process()


class _AfterTorch(MetaPathFinder):
    """Calls a function once torch has been imported, then is not asked again."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return torch's own spec, with a loader that calls the function; None for other modules."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)
        return spec


class _Loader(Loader):
    """A loader that calls a function after the module was executed by another one."""

    def __init__(self, inner: Loader, then: Callable[[], None]) -> None:
        self._inner, self._then = inner, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as the other loader does."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, restore its loader, and call the function."""
        self._inner.exec_module(module)
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        try:
            self._then()
        except Exception:  # the script runs unobserved
            return

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)
