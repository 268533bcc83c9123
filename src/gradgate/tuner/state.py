"""Save the state of a tuner in a checkpoint, read it, and compare it with the training that resumes from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gradgate.clock import Clock
from gradgate.errors import GradgateWarning, RunError
from gradgate.files import parse_json, read_bytes, write_json
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.phases import Phase
from gradgate.methods.timeline import Timeline
from gradgate.methods.traits import MethodState
from gradgate.replacing import replaced

STATE_FILE = "gradgate.json"
TENSORS_FILE = "gradgate.safetensors"
_VERSION = 1
_FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "version": (lambda value: value == _VERSION, f"{_VERSION}"),
    "method": (lambda value: isinstance(value, str), "the text of a method"),
    "seed": (lambda value: _is_count(value), "a whole number from 0"),
    "step": (lambda value: _is_count(value), "a whole number from 0"),
    "notes": (lambda value: isinstance(value, Mapping), "a mapping"),
    "open_sum": (lambda value: isinstance(value, int | float) and isfinite(value) and value >= 0, "a number from 0"),
    "timeline": (lambda value: isinstance(value, list | tuple), "a list of phases"),
    "optimizer_parameters": (lambda value: isinstance(value, list | tuple), "a list of names"),
}
# States that an earlier version saved lack some of these.
_FITS_IF_ANY: dict[str, tuple[Callable[[Any], bool], str]] = {
    "settings": (lambda value: isinstance(value, Mapping), "a mapping"),
    "length": (lambda value: _is_length(value), "names with numbers of steps"),
    "tensors": (lambda value: _are_tensors(value), "names with tensors"),
    "tensor_names": (lambda value: _are_names(value), "a list of names"),
}


@dataclass(frozen=True)
class TunerState:
    """The data that a resumed training needs besides the weights and the optimizer's state.

    Attributes:
        method: the method's text.
        seed: of its random draws.
        step: optimizer steps done.
        notes: what the method measured, as JSON values.
        open_sum: sum over these steps of the share of open parameters.
        timeline: the plans so far.
        optimizer_parameters: canonical names of the optimizer's parameters, in its order; of several optimizers a list
            for each.
        tensors: by name, those that effects cannot compute again.
        settings: of the tuner besides the method that decide on the weights, as JSON values; empty in a state that an
            earlier version saved.
        length: ``total_steps`` and ``steps_per_epoch`` of the training; as ``settings``.
        tensor_names: of the tensors that were saved; None in a state that an earlier version saved.
    """

    method: str
    seed: int
    step: int
    notes: Mapping[str, Any]
    open_sum: float
    timeline: Timeline
    optimizer_parameters: list[Any]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    length: Mapping[str, int | None] = field(default_factory=dict)
    tensor_names: Sequence[str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; ``tensors`` is among them only if there are any."""
        values: dict[str, Any] = {
            "version": _VERSION,
            "method": self.method,
            "seed": self.seed,
            "step": self.step,
            "notes": dict(self.notes),
            "open_sum": self.open_sum,
            "timeline": [phase.to_dict() for phase in self.timeline.phases],
            "optimizer_parameters": self.optimizer_parameters,
            "settings": dict(self.settings),
            "length": dict(self.length),
            "tensor_names": list(self.tensors),
        }
        return {**values, "tensors": dict(self.tensors)} if self.tensors else values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TunerState:
        """Create a state from what :meth:`to_dict` returned.

        Raises:
            RunError: naming the entry that is missing or wrong.
        """
        if not isinstance(values, Mapping):
            raise RunError(f"The state of a tuner is a {type(values).__name__}; expected a mapping.")
        for name, (fits, expected) in (_FITS | _FITS_IF_ANY).items():
            if name in _FITS and name not in values:
                raise RunError(
                    f"This is not the state of a tuner: it has no {name!r}. Expected what Tuner.state_dict() returned."
                )
            if name in values and not fits(values[name]):
                raise RunError(f"The state of a tuner has {name}={_short(values[name])}; expected {expected}.")
        try:
            timeline = Timeline([Phase.from_dict(phase) for phase in values["timeline"]])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(
                f"The state of a tuner has a timeline that cannot be read ({error}); expected a list of phases, each "
                f"with 'step' and 'open'."
            ) from None
        return cls(
            method=values["method"],
            seed=values["seed"],
            step=values["step"],
            notes=dict(values["notes"]),
            open_sum=float(values["open_sum"]),
            timeline=timeline,
            optimizer_parameters=list(values["optimizer_parameters"]),
            tensors=values.get("tensors", {}),
            settings=values.get("settings", {}),
            length=values.get("length", {}),
            tensor_names=values.get("tensor_names"),
        )

    def check_tensors(self) -> None:
        """Check that the state has the tensors that it was saved with, and no others.

        Raises:
            RunError: if not, as when the file of its tensors was not copied with it.
        """
        if self.tensor_names is None:
            return
        lost = [name for name in self.tensor_names if name not in self.tensors]
        foreign = [name for name in self.tensors if name not in self.tensor_names]
        if lost or foreign:
            fault = (
                f"lacks {len(lost)} of its tensors, such as {lost[0]!r}" if lost else f"has a foreign {foreign[0]!r}"
            )
            raise RunError(
                f"The saved state {fault}. Expected the tensors that it was saved with: in a checkpoint they are in "
                f"{TENSORS_FILE}, which must be copied with {STATE_FILE}."
            )

    def check_continues(
        self, method: str, seed: int, optimizer_parameters: list[Any], settings: Mapping[str, Any]
    ) -> None:
        """Refuse to resume a training with another method, seed, optimizer, layer map or other settings.

        Raises:
            RunError: see :meth:`gradgate.Tuner.load_state_dict`.
        """
        for what, saved, mine in (("method", self.method, method), ("seed", self.seed, seed)):
            if saved != mine:
                raise RunError(
                    f"The saved state has {what} {saved!r}, this tuner has {mine!r}. Make the tuner as in the saved "
                    "training."
                )
        if self.optimizer_parameters != optimizer_parameters:
            raise RunError(
                "The saved state belongs to an optimizer with other parameters or another order of them; its "
                "moments would land on the wrong tensors. Build model and optimizer as in the saved training. "
                f"It has {self.optimizer_parameters!r:.100}, this one {optimizer_parameters!r:.100}."
            )
        for name in self.settings.keys() & settings.keys():
            if self.settings[name] != settings[name]:
                raise RunError(
                    f"The saved state belongs to a tuner with {_differing(name, self.settings[name], settings[name])}. "
                    f"Make the tuner as in the saved training."
                )

    def warn_of_length(self, method: Method, clock: Clock, layers: LayerMap, memory: MethodState) -> None:
        """Warn if the plan of the next step is another one than in a training of the saved length.

        Methods that count steps alone do not depend on the length.
        """
        saved = {name: self.length[name] for name in ("total_steps", "steps_per_epoch") if self.length.get(name)}
        then = Clock(clock.step, **{"steps_per_epoch": clock.steps_per_epoch, "total_steps": clock.total_steps} | saved)
        if then != clock and method.plan(then, layers, memory) != method.plan(clock, layers, memory):
            was = ", ".join(f"{name}={value}" for name, value in saved.items())
            now = ", ".join(f"{name}={getattr(clock, name)}" for name in saved)
            warnings.warn(
                f"The saved training had {was}, this one has {now}. {method.spec!r} counts epochs or shares of the "
                f"training, so from here on it opens and masks other weights than there. Resume with the same length "
                f"and batches to continue that training.",
                GradgateWarning,
                stacklevel=3,
            )


def settings_of(
    groups: Mapping[str, Sequence[str]], lr_scale: Mapping[str, float], frozen_dropout: bool
) -> dict[str, Any]:
    """Return the settings of a tuner besides its method, as :class:`TunerState` compares them.

    Args:
        groups: group name to the canonical names of the parameters that may open; a digest of these is compared.
        lr_scale, frozen_dropout: see :class:`gradgate.Tuner`.
    """
    digests = {name: blake2b("/".join(own).encode(), digest_size=8).hexdigest() for name, own in groups.items()}
    scales = {selector: float(factor) for selector, factor in sorted(lr_scale.items())}
    return {"groups": digests, "lr_scale": scales, "frozen_dropout": frozen_dropout}


def write_state(folder: Path, values: Mapping[str, Any]) -> None:
    """Write what ``Tuner.state_dict`` returned into the folder of a checkpoint."""
    tensors = values.get("tensors")
    if tensors:  # first, so that no state is ever without its tensors
        with replaced(folder / TENSORS_FILE) as part:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, part)
    else:  # of an older checkpoint in this folder
        (folder / TENSORS_FILE).unlink(missing_ok=True)
    write_json(folder / STATE_FILE, {name: value for name, value in values.items() if name != "tensors"})


def read_state(folder: Path) -> dict[str, Any]:
    """Read the state in the folder of a checkpoint, as ``Tuner.load_state_dict`` takes it.

    Raises:
        RunError: naming the file that is damaged.
    """
    file = folder / STATE_FILE
    try:
        values = parse_json(read_bytes(file))
        TunerState.from_dict(values)
        if (folder / TENSORS_FILE).exists():
            file = folder / TENSORS_FILE
            values["tensors"] = load_file(file)
    except (OSError, RunError, SafetensorError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise RunError(
            f"{file} is damaged: {reason}. Remove {folder} to resume from the checkpoint before it."
        ) from None
    return values


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_length(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(count, int | None) for count in value.values())


def _are_tensors(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(tensor, Tensor) for tensor in value.values())


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _differing(name: str, saved: Any, mine: Any) -> str:
    """Describe two values of a setting; of the groups of a layer map, the first that differs."""
    if name != "groups":
        return f"{name}={_short(saved)}, this one has {_short(mine)}"
    if not isinstance(saved, Mapping) or saved.keys() != mine.keys():
        return f"the groups {_short(', '.join(saved))}, this one has {_short(', '.join(mine))} (layers=)"
    group = next((one for one in saved if saved[one] != mine[one]), "")
    return f"other parameters in the group {group} (layers=)"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_resumable(method: Method, lacking: str, remedy: str) -> None:
    """Check that a training can resume without the tuner's state.

    Args:
        method: of the tuner.
        lacking: what has no state, as the beginning of a sentence.
        remedy: what to do, as sentences.

    Raises:
        RunError: if the method cannot resume without its state.
    """
    needed = method.traits.needed_to_resume
    if needed is not None:
        raise RunError(f"{lacking}, and {method.spec!r} cannot resume without {needed}. {remedy}")


def resumed_by_plan(method: Method, lacking: str, remedy: str) -> str:
    """Return what to warn of if a training resumes by the plan of its step alone.

    Args:
        method, lacking, remedy: as for :func:`check_resumable`, which is called.

    Raises:
        RunError: as there.
    """
    check_resumable(method, lacking, remedy)
    return (
        f"{lacking}. Training resumes with the plan of {method.spec!r} for its step, which is the training that was "
        f"saved only if that had the same method and options, and no float32 masters. {remedy}"
    )
