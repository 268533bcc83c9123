"""The adapter of a run as it is typed: a kind with its options, and what this adapter wants of the training."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.errors import AdapterError

NONE = "none"
_OF_TRAINING = ("lr",)


@dataclass(frozen=True)
class AdapterChoice:
    """One adapter of a run.

    Attributes:
        kind: what :func:`gradgate.adapters.add` takes.
        lr: peak learning rate, instead of the run's; None for the run's own.
    """

    kind: str
    lr: float | None = None


def read_choice(text: str) -> AdapterChoice:
    """The adapter that a text such as ``"houlsby:size=64,lr=1e-3"`` describes.

    Raises:
        AdapterError: for an unknown kind or option, or a value that is out of range.
    """
    from gradgate.adapters.kinds import adapter_config

    name, _, rest = "".join(text.split()).partition(":")
    given: dict[str, float] = {}
    kept = []
    for part in filter(None, rest.split(",")):
        option, _, value = part.partition("=")
        if option not in _OF_TRAINING:
            kept.append(part)
        elif option in given:
            raise AdapterError(f"The option {option!r} of {name!r} is given twice.")
        else:
            given[option] = _rate(name, value)
    kind = f"{name}:{','.join(kept)}" if kept else name
    adapter_config(kind)
    return AdapterChoice(kind, **given)


def same_choice(one: str | None, other: str | None) -> bool:
    """Whether two texts describe one adapter: ``houlsby`` is ``houlsby:size=64``."""
    from gradgate.adapters.kinds import adapter_config

    if one is None or other is None:
        return one is other
    mine, theirs = read_choice(one), read_choice(other)
    return mine.lr == theirs.lr and adapter_config(mine.kind) == adapter_config(theirs.kind)


def checked_text(text: str | None) -> str | None:
    """The text without blanks; None for ``none``.

    Raises:
        AdapterError: as :func:`read_choice` does.
    """
    plain = None if text is None else "".join(text.split())
    if plain is None or plain.lower() == NONE:
        return None
    read_choice(plain)
    return plain


def _rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.0 < rate < float("inf"):
        raise AdapterError(f"{name!r} cannot have lr={text!r} (expected a learning rate above 0, such as 1e-3).")
    return rate
