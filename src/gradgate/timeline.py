"""What was open when: the plans of a training, run-length encoded, and the file that they are written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.methods.base import Memory, Method, Plan
from gradgate.methods.phase import Phase
from gradgate.methods.written import Written

# Long plans take the pure Python loader many seconds.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Timeline:
    """The phases of one training in order."""

    def __init__(self, phases: list[Phase] | None = None) -> None:
        self.phases = phases or []

    def record(self, step: int, plan: Plan) -> None:
        """Note the plan for the step after ``step`` done ones."""
        phase = Phase.of(step, plan)
        if not self.phases or not self.phases[-1].same_gates(phase):
            self.phases.append(phase)

    def to_dict(self, method: Method, layers: LayerMap, steps: int) -> dict[str, Any]:
        """The record that is written beside a run: method, groups with their sizes, and the phases before ``steps``."""
        return {
            "method": method.spec,
            "steps": steps,
            "groups": list(layers.names),
            "sizes": {group.name: group.parameter_count for group in layers},
            "phases": [phase.to_dict() for phase in self.phases if phase.step < steps],
        }


def foresee(method: Method, layers: LayerMap, clock: Clock, seed: int = 0) -> Timeline:
    """What a method would open when, over ``clock.total_steps`` steps, without training anything.

    Raises:
        MethodError: if the method does not fit the model, or decides by what it measures in training.
    """
    method.check(layers)
    if method.decides_by_measuring:
        raise MethodError(f"{method.spec!r} decides by what it measures in training, so its plan is not known before.")
    timeline = Timeline()
    memory = Memory(seed=seed)
    for _ in range(clock.known_total):
        timeline.record(clock.step, method.checked_plan(clock, layers, memory))
        clock = clock.ticked()
    return timeline


def to_yaml(record: dict[str, Any]) -> str:
    """A timeline's record as the text of a plan file."""
    text: str = yaml.dump(record, Dumper=_DUMPER, sort_keys=False, default_flow_style=None, width=120)
    return text


def read_plan(file: str) -> Written:
    """The method that follows a plan file.

    Raises:
        MethodError: if the file cannot be read or does not hold phases.
    """
    try:
        record = yaml.load(Path(file).read_text(encoding="utf-8"), Loader=_LOADER)  # a safe loader, see _LOADER
        phases = tuple(Phase.from_dict(phase) for phase in record["phases"])
    except OSError as error:
        raise MethodError(f"The plan {file} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise MethodError(
            f"{file} is no plan: {reason}. Expected 'phases:' with entries such as {{step: 0, open: [head]}}; "
            f"'gradgate plan --write FILE' writes one."
        ) from None
    return Written(file=file, phases=phases)
