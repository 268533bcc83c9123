"""Types of settings that are typed as text and stored as objects: arms, methods, adapters, what is measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, InstanceOf, PlainSerializer

from gradgate.errors import MethodError
from gradgate.layers.lr_scale import checked_lr_scale, read_lr_scale
from gradgate.measure.track import FisherTrack, read_track
from gradgate.methods import Method
from gradgate.places import typed_path, typed_place
from gradgate.settings.arms.adapter import AdapterSetting, read_adapter
from gradgate.settings.arms.arm import Arm, read_arm
from gradgate.settings.forgetting import ForgettingSetting, read_forgetting
from gradgate.settings.values import several
from gradgate.specs import shown
from gradgate.tasks.types import LANGUAGE, read_shares


def _parsed(read: Callable[[Any], Any]) -> BeforeValidator:
    """Parse a text. Pass on what is neither a text nor an object to pydantic, whose message names the value."""
    return BeforeValidator(lambda given: read(given) if isinstance(given, str) else given)


def _typed_path(given: object) -> object:
    return typed_path(given) if isinstance(given, str | os.PathLike) else given


def _place_of_languages(text: str | None) -> str | None:
    """Refuse braces that stand for no language's code."""
    text = None if text is None else typed_place(text)
    if text is not None and set("{}") & set(text.replace(LANGUAGE, "")):
        raise ValueError(f"expected {LANGUAGE} for the code of a language and no other braces")
    return text


def _read_method_alone(text: str) -> Method:
    """Read a method where the adapter and all settings have fields of their own; MethodError for a text with more."""
    arm = read_arm(text)
    if arm.adapter is not None or arm.overrides:
        raise MethodError(f"{shown(text)} is more than a method. Expected the method alone, such as {arm.method}.")
    return arm.method


_AS_TEXT = PlainSerializer(lambda given: None if given is None else str(given))

PathField = Annotated[Path | None, BeforeValidator(_typed_path)]
PlaceField = Annotated[str, AfterValidator(typed_place)]
OptionalPlaceField = Annotated[str | None, AfterValidator(lambda given: None if given is None else typed_place(given))]
PlacesField = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: tuple(typed_place(str(each)) for each in several(given)))
]
MethodField = Annotated[InstanceOf[Method], _parsed(_read_method_alone), PlainSerializer(str)]
ArmsField = Annotated[tuple[InstanceOf[Arm], ...], BeforeValidator(lambda given: tuple(map(read_arm, several(given))))]
AdaptersField = Annotated[
    tuple[InstanceOf[AdapterSetting] | None, ...],
    BeforeValidator(lambda given: tuple(map(read_adapter, several(given)))),
]
AdapterField = Annotated[InstanceOf[AdapterSetting] | None, BeforeValidator(read_adapter), _AS_TEXT]
LanguageField = Annotated[str | None, AfterValidator(_place_of_languages)]
SplitField = Annotated[str | None, AfterValidator(lambda text: None if text is None else str(read_shares(text)))]
TrackField = Annotated[InstanceOf[FisherTrack] | None, _parsed(read_track), _AS_TEXT]
ForgettingField = Annotated[InstanceOf[ForgettingSetting] | None, _parsed(read_forgetting), _AS_TEXT]
LrScaleField = Annotated[
    dict[str, float] | None,
    BeforeValidator(
        lambda given: (read_lr_scale(several(given)) or None) if isinstance(given, str | list | tuple) else given
    ),
    AfterValidator(lambda scale: scale and checked_lr_scale(scale)),
]
