"""Compute the output of the closed layers once per example, and read it from disk afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gradgate.activation_cache.frozen_prefix import PrefixModules, layer_modules
from gradgate.activation_cache.replay import Precision, PrefixReplay, autocast_of
from gradgate.activation_cache.rows import Batch, NotReusableError, fingerprint, read_batch
from gradgate.activation_cache.store import ActivationStore
from gradgate.activation_cache.verify import agree, tolerance
from gradgate.errors import UsageError
from gradgate.layers import LayerMap, named_parameters
from gradgate.layers.units import EMBEDDINGS
from gradgate.places import typed_path
from gradgate.torch_state import preserved_state

Inputs = dict[str, Any]


def _log(text: str) -> None:
    logging.getLogger("gradgate").warning(text)


@dataclass(frozen=True, kw_only=True)
class ActivationCache:
    """Settings of the cache for the output of closed lower layers, which is then computed once per example.

    Args:
        folder: may be shared by trainings of any method, seed and data: states of other weights are never read.
        dtype: ``model`` stores states in the model's dtype; ``bfloat16`` takes half the space of float32 and has
            8 significant bits.
        size: limit for all files in the folder, in GiB.
        passes: passes over the data for which a prefix must stay closed. The first fills the cache.
        note: called with the reason if the cache is not used, or no longer; by default the logger ``gradgate``.

    Raises:
        UsageError: if a value is out of range, or the folder is a file.
    """

    folder: Path
    dtype: Literal["model", "bfloat16"] = "model"
    size: float = 10.0
    passes: float = 1.0
    note: Callable[[str], None] = field(default=_log, compare=False)

    def __post_init__(self) -> None:
        numbers = all(isinstance(number, Real) for number in (self.size, self.passes))
        # NaN fails every comparison.
        in_range = numbers and 0 < self.size < float("inf") and 0 <= self.passes < float("inf")
        if not in_range or self.dtype not in ("model", "bfloat16"):
            raise UsageError(
                f"An activation cache cannot have dtype={self.dtype!r}, size={self.size!r}, passes={self.passes!r}: "
                f"expected 'model' or 'bfloat16', a finite size above 0 GiB, and a finite number of passes, 0 or more."
            )
        object.__setattr__(self, "folder", typed_path(self.folder))
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"The activation cache {self.folder} is a file; expected a folder. Pass another path.")

    def check_folder(self) -> None:
        """Create the folder, and check that a file can be written to it.

        Raises:
            UsageError: if it cannot; without this check, a training only notes it and computes all layers.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise UsageError(
                f"The activation cache {self.folder} cannot be written ({error.strerror or error}). Expected a folder "
                f"with write permission: pass another one, or activation_cache=off."
            ) from None


@dataclass
class RowCounts:
    """Counts of the rows in training batches; a row counts in each batch that contains it."""

    read: int = 0
    computed: int = 0


@dataclass
class _Session:
    """A prefix with its store, under one precision and with the same adapters switched on."""

    replay: PrefixReplay
    precision: Precision
    device: torch.device
    store: ActivationStore
    proved: set[bool] = field(default_factory=set)  # True: a padded batch was compared; False: one without padding


class CachedForward:
    """Server of a training's forward passes from an :class:`ActivationCache`.

    On a CPU each row is computed alone, so that its states depend neither on the other rows of its batch nor on the
    earlier content of the cache; elsewhere the missing rows of a batch are computed together. The first batch with
    padding and the first without are also computed in full, and the outputs compared.

    Attributes:
        counts: numbers of rows read and computed.
    """

    def __init__(self, model: nn.Module, layers: LayerMap, cache: ActivationCache) -> None:
        self.counts = RowCounts()
        self._model = model
        self._layers = layers
        self._cache = cache
        self._stack = layer_modules(model, layers)
        self._depth = 0
        self._closed: tuple[str, ...] = ()
        self._parts = PrefixModules()
        self._frozen: list[Tensor] = []
        self._homes: list[tuple[Mapping[str, Tensor | None], str, Tensor | None]] = []
        self._sessions: dict[tuple[Any, ...], _Session] = {}
        self._session: _Session | None = None  # of the current forward pass
        self._weights: tuple[Any, ...] = ()
        self._busy = False
        self._noted: set[str] = set()
        self._refused = self._why_not()

    def follow(self, depth: int, parts: Callable[[tuple[str, ...]], PrefixModules]) -> None:
        """Cache the output of the lowest ``depth`` layers from the next forward pass on.

        Args:
            depth: number of layers; 0 for no cache.
            parts: returns the modules inside, around and above a prefix of groups.
        """
        if depth and self._refused:
            self._note_once(self._refused)
            depth = 0
        if depth == self._depth:
            return
        self.release()
        self._depth = depth
        if depth:
            self._closed = self._layers.names[: depth + (self._layers.names[0] == EMBEDDINGS)]
            self._parts = parts(self._closed)
            self._frozen = self._tensors()
            owned = [(module._parameters, module._parameters.items()) for module in self._parts.inside]
            self._homes = [(own, name, parameter) for own, each in owned for name, parameter in each]

    def prepare(self, args: tuple[Any, ...], kwargs: Inputs) -> None:
        """Prepare a forward pass in training: feed the states of its rows, or let it compute all layers."""
        # The cache's own forward passes trigger this hook too, hence _busy.
        if self._busy or not self._depth or torch.compiler.is_compiling() or self._is_measured():
            return
        self._busy = True
        try:
            batch = read_batch(args, kwargs)
            session = self._open(batch)
            states = self._states(session, batch)
            if batch.padded not in session.proved:
                self._prove(session, batch, states, kwargs)
                session.proved.add(batch.padded)
            session.replay.feed(states, session.precision)
        except NotReusableError as reason:
            self._note_once(str(reason))
        finally:
            self._busy = False

    def finish(self) -> None:
        """Restore the layers' own ``forward`` after a forward pass."""
        if self._session is not None and not self._busy:
            self._session.replay.release()

    def release(self) -> None:
        """Close the stores, and restore the layers' own ``forward``."""
        self._close()
        self._depth = 0

    def _open(self, batch: Batch) -> _Session:
        """Return the session for the current prefix; a new one runs the first row to find the width and dtypes.

        A change of the weights ends all sessions. Passes that alternate, such as with and without an adapter, have one
        each.
        """
        self._check_model()
        if self._weights != (weights := self._written()):
            self._close()
            self._weights = weights
        peft = self._peft_switches()
        conditions = (autocast_of(next(self._model.parameters())), *self._own_switches(), *peft)
        self._session = self._sessions.get(conditions)
        if self._session is not None:
            return self._session
        replay = PrefixReplay(self._stack, self._depth)
        states, precision = self._run(replay, batch.alone(0))
        stored = torch.bfloat16 if self._cache.dtype == "bfloat16" else precision.dtype
        settings = [str(precision), str(stored), states.device.type, *peft]
        identity = fingerprint(self._model, self._layers, self._closed, self._parts, settings)
        limit = int(self._cache.size * 2**30)
        store = ActivationStore(self._cache.folder, identity, precision.width, stored, limit, self._cache.note)
        self._session = self._sessions[conditions] = _Session(replay, precision, states.device, store)
        return self._session

    def _close(self) -> None:
        for session in self._sessions.values():
            session.replay.release()
            session.store.close()
        self._sessions.clear()
        self._session = None

    def _states(self, session: _Session, batch: Batch) -> Tensor:
        """Return the states of a batch at the boundary, shape (rows, tokens, width); zero at padding."""
        found: dict[bytes, Tensor] = {}
        for look_again in (False, True):
            if look_again:  # another process may have added rows since
                session.store.refresh()
            for row in batch.rows:
                if row.key not in found and (states := session.store.get(row.key)) is not None:
                    found[row.key] = states
        missing = {row.key: index for index, row in enumerate(batch.rows) if row.key not in found}
        self.counts.computed += len(missing)
        self.counts.read += len(batch.rows) - len(missing)
        if missing:
            computed = self._compute(session, batch, missing)
            session.store.add(computed.items())
            found |= computed
        shape = (len(batch.rows), batch.tokens, session.precision.width)
        states = torch.zeros(shape, dtype=session.precision.dtype)
        for index, row in enumerate(batch.rows):
            states[index, row.start : row.end] = found[row.key]
        return states.to(session.device)

    def _compute(self, session: _Session, batch: Batch, missing: dict[bytes, int]) -> dict[bytes, Tensor]:
        stored = session.store.dtype
        if session.device.type == "cpu":
            alone = {key: self._run(session.replay, batch.alone(index))[0][0] for key, index in missing.items()}
            return {key: states[batch.rows[missing[key]].start :].to(stored) for key, states in alone.items()}
        states, _ = self._run(session.replay, batch.of(list(missing.values())))
        states = states.to("cpu", stored)
        rows = [batch.rows[index] for index in missing.values()]
        return {row.key: states[place, row.start : row.end] for place, row in enumerate(rows)}

    def _run(self, replay: PrefixReplay, inputs: Inputs) -> tuple[Tensor, Precision]:
        with preserved_state(self._model, writers=self._parts.around):
            states, precision = replay.states(lambda: self._model(**inputs))
        if states.dim() != 3 or states.shape[:2] != inputs["input_ids"].shape:
            self._refuse("the model's layers do not take hidden states of shape (rows, tokens, width)")
        return states, precision

    def _prove(self, session: _Session, batch: Batch, states: Tensor, inputs: Inputs) -> None:
        """Compare with a full forward pass; if the outputs differ, stop using the cache for good."""
        with preserved_state(self._model):
            live = self._model(**inputs)
        session.replay.feed(states, session.precision)
        try:
            with preserved_state(self._model):
                fed = self._model(**inputs)
        finally:
            session.replay.release()
        real = torch.zeros(len(batch.rows), batch.tokens, dtype=torch.bool)
        for index, row in enumerate(batch.rows):
            real[index, row.start : row.end] = True
        allowed = tolerance(session.precision.autocast or session.precision.dtype, session.store.dtype)
        if not session.replay.has_skipped:
            self._refuse("the model changes the shape of its batches below the layers")
        if not agree(live, fed, real, allowed):
            self._refuse("the model's output depends on more than the states of its tokens")

    def _refuse(self, reason: str) -> NoReturn:
        """Stop using the cache for good."""
        self._refused = reason
        self.release()
        raise NotReusableError(reason)

    def _tensors(self) -> list[Tensor]:
        """Return every tensor that the states are computed from, apart from the row."""
        parameters = named_parameters(self._model)
        names = [name for group in self._closed for name in self._layers[group].parameter_names]
        buffers = [b for m in (*self._parts.inside, *self._parts.around) for b in m.buffers(recurse=False)]
        return [*(parameters[name] for name in names), *buffers]

    def _is_measured(self) -> bool:
        """Return True in a functional call with other tensors: a measurement needs the gradients of closed layers."""
        return any(own.get(name) is not parameter for own, name, parameter in self._homes)

    def _written(self) -> tuple[Any, ...]:
        """Return a value that changes if a frozen tensor is written or replaced."""
        # A replaced tensor has another address; each in-place write raises its version.
        return tuple((tensor.data_ptr(), tensor._version) for tensor in self._frozen)

    def _own_switches(self) -> list[str]:
        return [module.extra_repr() for module in self._parts.inside if hasattr(module, "varies")]

    def _peft_switches(self) -> list[str]:
        """Return which adapters of PEFT are on, per module; these write no tensor."""
        layers: list[Any] = [module for module in self._parts.inside if hasattr(module, "disable_adapters")]
        return [f"{layer.disable_adapters} {layer.active_adapters}" for layer in layers]

    def _why_not(self) -> str:
        if not self._stack:
            return "the layers of the model are not one stack in which each runs once"
        if any(isinstance(parameter, DTensor) for parameter in self._model.parameters()):
            return "the parameters are sharded"
        return ""

    def _check_model(self) -> None:
        config: Any = getattr(self._model, "config", None)
        for name in ("output_hidden_states", "output_attentions"):
            if getattr(config, name, False):
                raise NotReusableError(f"the configuration has {name}")
        for module in (*self._stack, *self._parts.around):
            if getattr(module, "gradient_checkpointing", False):
                raise NotReusableError("gradient checkpointing is on")
            if getattr(module, "_compiled_call_impl", None) is not None:
                raise NotReusableError("the model is compiled")
        if any(getattr(module, "varies", False) for module in self._parts.inside):
            raise NotReusableError("adapters are dropped at random")

    def _note_once(self, reason: str) -> None:
        if reason not in self._noted:
            self._noted.add(reason)
            self._cache.note(f"The activation cache is not used: {reason}. Closed layers are computed as usual.")
