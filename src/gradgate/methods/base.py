"""What a method is: a frozen set of parameters and a pure function from where training stands to a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from traceback import extract_tb
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from gradgate.clock import Clock
from gradgate.errors import GradgateError, MethodError
from gradgate.layers import LayerMap, Unit
from gradgate.layers.selectors import Selection
from gradgate.measure import Measurement, SelectionRequest
from gradgate.methods.plan import Plan

Watched = Literal["norm", "change", "weights"]
State = Literal["keep", "reset", "drop", "offload"]
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class MixoutSettings:
    """How forward passes in training mix weights with their initial values; see :class:`gradgate.methods.Mixout`."""

    p: float
    unit: Literal["neuron", "element"]


@dataclass(frozen=True)
class Memory:
    """What a method may know besides the clock and the layers.

    Attributes:
        seed: the run's seed.
        notes: what the method measured so far, as JSON values.
    """

    seed: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)


def needed_without(other: str, default: Any) -> Any:
    """A field of a method that must be given where another option is not; ``default`` stands for its absence."""
    return field(default=default, metadata={NEEDED_WITHOUT: other})


NEEDED_WITHOUT = "needed_without"


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """What learns when. Subclasses are frozen dataclasses whose fields are the method's options."""

    name: ClassVar[str]
    """The name on the command line."""
    summary: ClassVar[str]
    """One line for lists."""
    source: ClassVar[str]
    """Paper and section."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names of options."""
    deviates: ClassVar[str] = ""
    """Where the defaults differ from the paper or its authors' code."""

    @abstractmethod
    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        """The gates for the step that comes next. Pure: equal arguments give equal plans."""

    def next_change(self, clock: Clock, layers: LayerMap, memory: Memory) -> int | None:
        """The number of steps done when the plan may next differ from :meth:`plan` now; None if it never does. Pure.

        A mask that is new at each step (``each_step``) is no difference. By default the plan may differ at each step.
        Plans of long trainings are drawn and foreseen from change to change.
        """
        return clock.step + 1

    def checked_plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        """:meth:`plan`, or MethodError unless it has one gate for each group and opens only what it reaches."""
        try:
            plan = self.plan(clock, layers, memory)
        except GradgateError:
            raise
        except Exception as error:
            step = clock.step + 1
            raise MethodError(
                f"The plan of {self.name!r} for step {step} cannot be made: {failure(error)}. Mend its plan()."
            ) from error
        if not isinstance(plan, Plan):
            raise MethodError(
                f"plan() of {self.name!r} returned {type(plan).__name__}. Expected a Plan, as "
                f"Plan.opening(layers, ...) makes it."
            )
        reached = self.reaches(layers)
        for fault, names in (
            ("has no gate for", [name for name in layers.names if name not in plan]),
            ("has a gate for what is no group:", [name for name in plan if name not in layers]),
            (
                "opens what reaches() leaves out:",
                [n for n, gate in plan.items() if not gate.closed and n not in reached],
            ),
        ):
            if names:
                raise MethodError(
                    f"The plan of {self.name!r} for step {clock.step + 1} {fault} {', '.join(names)}. "
                    f"Expected one gate for each of {', '.join(layers.names)}."
                )
        return plan

    def check(self, layers: LayerMap) -> None:  # noqa: B027 - a method that fits every model says nothing
        """Raise MethodError if the method cannot work on a model with these layers."""

    def trains(self, parameter_name: str, group: str) -> bool:
        """Whether the method ever opens this parameter of a group that it opens; by default every one."""
        return True

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        """Names of the groups that the method opens at some step; by default all."""
        return frozenset(layers.names)

    def selection(self, layers: LayerMap) -> Selection | None:
        """The weights that the method ever opens, where they are less than the groups that it opens; by default None.

        What is not selected keeps every bit: a closed parameter computes no gradient, and a closed row of an open
        table gets its value back after each step.
        """
        return None

    def measures(self, clock: Clock, layers: LayerMap, memory: Memory) -> Measurement | None:
        """What must be measured before the step that comes next; by default nothing. Pure."""
        return None

    def selects(self, clock: Clock, layers: LayerMap, memory: Memory) -> SelectionRequest | None:
        """Which single elements must be chosen before the step that comes next; by default none. Pure.

        Gates with ``chosen`` pass what was chosen last; their ``draw`` changes with each choice. A training that
        resumes has what it chose, and asks first after its next step.
        """
        return None

    def learned(self, scores: dict[str, float], clock: Clock, memory: Memory) -> Memory:
        """The memory with a measurement in it; called with what :meth:`measures` asked for. Pure."""
        return memory

    @property
    def watches(self) -> Watched | None:
        """What to measure of the training's own steps in the groups of :meth:`watched`; by default nothing.

        Each is the sum over elements of an absolute value (L1 norm): the ``norm`` of the gradients that the optimizer
        steps on, their ``change`` since the step before, or how far the step moved the ``weights``.
        """
        return None

    def watched(self, clock: Clock, layers: LayerMap, memory: Memory) -> tuple[str, ...]:
        """The groups to watch in the step that comes next; by default none. Pure."""
        return ()

    def noted(self, sizes: dict[str, float], clock: Clock, memory: Memory) -> Memory:
        """The memory with what was watched in it; called after each step that was. Pure.

        Args:
            sizes: group name to what :attr:`watches` asks for; a ``change`` for what was watched in the step before.
            clock: the steps done, with the one that was watched.
            memory: as it was in that step.
        """
        return memory

    @property
    def decides_by_measuring(self) -> bool:
        """Whether what learns depends on what the method measures in training, and so is not known beforehand."""
        return self.watches is not None or self.measures_on_data

    @property
    def measures_on_data(self) -> bool:
        """Whether it measures something on training batches before a step."""
        return type(self).measures is not Method.measures or type(self).selects is not Method.selects

    @property
    def state_of_closed(self) -> State:
        """What becomes of the optimizer's state of a group that closes; see :class:`Closing`."""
        return "keep"

    @property
    def forgets_what_masks_hold(self) -> bool:
        """Whether single weights that a new mask holds lose their optimizer state; by default it stays."""
        return False

    @property
    def mixing(self) -> MixoutSettings | None:
        """How forward passes mix the weights that learn with their initial values; by default not at all."""
        return None

    @property
    def grouped_by(self) -> Unit:
        """The size of the groups that the method opens and closes; its plans are about ``layers.at(grouped_by)``."""
        return "layer"

    @property
    def turns_dropout_off(self) -> bool:
        """Whether ordinary dropout is off while the method trains; by default it is as the model has it."""
        return False

    @property
    def spec(self) -> str:
        """The text that the command line takes for this method: options that differ from their default."""
        given = [
            f"{option.name}={_as_text(getattr(self, option.name))}"
            for option in fields(self)
            if getattr(self, option.name) != option.default
        ]
        return f"{self.name}:{','.join(given)}" if given else self.name

    @property
    def text(self) -> str:
        """The text that the method was read from, without blanks; :attr:`spec` for one that was made in Python.

        Records and tables show it. Methods are equal whatever their texts are.
        """
        text: str = vars(self).get("_text", self.spec)
        return text

    def __str__(self) -> str:
        return self.text

    @property
    def fingerprint(self) -> str:
        """A text that differs for methods that decide differently; :attr:`spec` unless that refers to a file."""
        return self.spec

    def __post_init__(self) -> None:
        self._require()

    def _require(self, **checks: tuple[bool, str]) -> None:
        """Raise one MethodError for all options that are out of range; ``option=(is it right, what is expected)``.

        Options that are a choice of words are checked without being named.
        """
        words = {
            option: (getattr(self, option) in get_args(kind), f"one of {', '.join(map(str, get_args(kind)))}")
            for option, kind in option_types(type(self)).items()
            if get_origin(kind) is Literal
        }
        wrong = [
            f"{option}={getattr(self, option)} (expected {expected})"
            for option, (right, expected) in {**checks, **words}.items()
            if not right
        ]
        if wrong:
            raise MethodError(f"The method {self.name!r} cannot have {'; '.join(wrong)}.")


@dataclass(frozen=True, kw_only=True)
class Modifier(Method):
    """A method that opens everything and changes only how it learns, so that ``+`` joins it to any other method."""


@dataclass(frozen=True, kw_only=True)
class Closing(Method):
    """A method that closes what was open before. Derive from it to give a method of your own the same option.

    Args:
        state: what becomes of the optimizer's state (momentum, moments, their count of steps) of a group when it
            closes. ``keep`` leaves it for when the group opens again, with the past as it was; ``reset`` sets it to
            zero in place, so that the group starts anew and the memory stays allocated; ``drop`` deletes it, which
            frees the memory and starts anew as well; ``offload`` moves it to host memory, and back with the same bits
            when the group opens again.
    """

    state: State = "keep"

    @property
    def state_of_closed(self) -> State:
        return self.state


@dataclass(frozen=True, kw_only=True)
class ByUnit(Method):
    """A method that makes sense for whole layers and for what is inside them. Derive from it for the same option.

    Args:
        unit: what opens and closes as one: a ``layer``, a ``part`` of it such as its attention, or a ``module``.
    """

    unit: Unit = "layer"

    @property
    def grouped_by(self) -> Unit:
        return self.unit


def failure(error: Exception) -> str:
    """What stopped the code of a method, with its file and line: the user's, where gradgate's own failed below it."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = [] if isinstance(error, SyntaxError) else extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(_PACKAGE)]
    at = (theirs or frames)[-1:]
    return f"{said} ({Path(at[0].filename).name}, line {at[0].lineno})" if at else said


@cache
def option_types(kind: type[Method]) -> dict[str, Any]:
    """The types of a method's options, which take milliseconds to find and are needed for each method that is made."""
    return get_type_hints(kind)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(_as_text(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
