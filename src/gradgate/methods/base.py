"""Define what a method is: a frozen set of options, and pure functions from where training stands to a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from traceback import extract_tb
from typing import Any, ClassVar

from gradgate.clock import Clock
from gradgate.errors import GradgateError, MethodError
from gradgate.layers import LayerMap
from gradgate.layers.selectors import Selection
from gradgate.measure import Request
from gradgate.methods.hooks import hooked_requests, hooked_selection, hooked_traits
from gradgate.methods.options import choices, convert_options
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState, Traits

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Decides what learns when. Subclasses are frozen dataclasses whose fields are the method's options."""

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
    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        """Return the gates for the next step. Pure: equal arguments give equal plans."""

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        """Return the number of steps done when the plan may next differ from :meth:`plan` now; None for never. Pure.

        A mask that is new at each step (``each_step``) does not count as a difference. By default the plan may differ
        at each step. Plans of long trainings are drawn and predicted from change to change.
        """
        return clock.step + 1

    def check(self, layers: LayerMap) -> None:  # noqa: B027 - a method that fits every model checks nothing
        """Raise MethodError if the method cannot work on a model with these layers."""

    def check_task(self, kind: str) -> None:  # noqa: B027 - most methods train any task
        """Raise MethodError if the method cannot train a task of this kind, such as ``classification``."""

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        """Return the names of the groups that the method opens at some step; by default all."""
        return frozenset(layers.names)

    def selection(self, layers: LayerMap) -> Selection | None:
        """Return the weights that the method ever opens, if they are fewer than its groups have; by default None.

        What is not selected keeps every bit: a closed parameter computes no gradient, and a closed row of an open
        table gets its value back after each step.
        """
        return hooked_selection(self, layers)

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[Request, ...]:
        """Return what to measure, choose or watch for the next step; by default nothing. Pure.

        It is asked up to three times per step: for measurements, then, with these in the memory, for the choice of
        single elements, and then for what to watch. Gates with ``chosen`` pass the elements chosen last; their
        ``draw`` changes with each choice. A resumed training has what it chose, and measures and chooses again only
        after its next step. :attr:`traits` says which kinds a method asks for.
        """
        return hooked_requests(self, clock, layers, memory)

    def learned(self, scores: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        """Return the memory with the result of a measurement, or of a step that was watched. Pure.

        Args:
            scores: group name to what was measured. If the ``change`` is watched, a group has a score from its second
                watched step on.
            clock: the steps done, including the step that was watched.
            memory: as it was when the request was made.
        """
        return memory

    def noted(self, sizes: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        """Return the memory with what was watched in a step; by default as :meth:`learned` does. Pure."""
        return self.learned(sizes, clock, memory)

    @property
    def traits(self) -> Traits:
        """The fixed properties of the method; by default those of :class:`Traits`."""
        return hooked_traits(self)

    def checked_plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        """Return :meth:`plan`. Raise MethodError unless it has one gate per group and opens only what it reaches."""
        step = clock.step + 1
        try:
            plan = self.plan(clock, layers, memory)
        except GradgateError:
            raise
        except Exception as error:
            problem = f"plan() of {self.name!r} failed at step {step}: {failure(error)}"
            raise MethodError(f"{problem}. Fix plan().") from error
        if not isinstance(plan, Plan):
            raise MethodError(
                f"plan() of {self.name!r} returned {type(plan).__name__}. Expected a Plan, as "
                f"Plan.opening(layers, ...) makes it."
            )
        reached = self.reaches(layers)
        opened = [name for name, gate in plan.items() if not gate.closed]
        for fault, names in (
            ("has no gate for", [name for name in layers.names if name not in plan]),
            ("has a gate for an unknown group:", [name for name in plan if name not in layers]),
            ("opens what reaches() leaves out:", [name for name in opened if name not in reached]),
        ):
            if names:
                raise MethodError(
                    f"The plan of {self.name!r} for step {step} {fault} {', '.join(names)}. "
                    f"Expected one gate for each of {', '.join(layers.names)}."
                )
        return plan

    @property
    def spec(self) -> str:
        """The text that the command line takes for this method: options that differ from their default."""
        options = [
            f"{option.name}={_as_text(getattr(self, option.name))}"
            for option in fields(self)
            if getattr(self, option.name) != option.default
        ]
        return f"{self.name}:{','.join(options)}" if options else self.name

    @property
    def text(self) -> str:
        """The text that the method was read from, without spaces; :attr:`spec` if it was made in Python.

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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__post_init__" in vars(cls):
            cls.__post_init__ = _after_converting(cls.__post_init__)  # type: ignore[method-assign, assignment]

    def __post_init__(self) -> None:
        convert_options(self)
        self._require()

    def _require(self, **checks: tuple[bool, str]) -> None:
        """Raise one MethodError for all options that are out of range.

        Options that are a choice of words are checked without being named, and by their own check if there is one.

        Args:
            checks: for each option, whether its value is right, and what is expected.
        """
        words = {
            option: (getattr(self, option) in allowed, f"one of {', '.join(map(str, allowed))}")
            for option, allowed in choices(type(self)).items()
        }
        wrong: dict[str, str] = {}
        for option, (right, expected) in (*checks.items(), *words.items()):
            if not right:
                wrong[option] = f"{option}={getattr(self, option)} (expected {expected})"
        if wrong:
            raise MethodError(f"The method {self.name!r} cannot have {'; '.join(wrong.values())}.")


def _after_converting(check: Callable[[Method], None]) -> Callable[[Method], None]:
    """Return a ``__post_init__`` that finds options of the declared types."""

    @wraps(check)
    def checked(method: Method) -> None:
        convert_options(method)
        check(method)

    return checked


def failure(error: Exception) -> str:
    """Describe what stopped a method's code, with file and line: the user's code, if gradgate failed below it."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = [] if isinstance(error, SyntaxError) else extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(_PACKAGE)]
    at = (theirs or frames)[-1:]
    return f"{message} ({Path(at[0].filename).name}, line {at[0].lineno})" if at else message


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(_as_text(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
