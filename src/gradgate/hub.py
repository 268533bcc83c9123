"""Whether the Hugging Face hub can be asked, and why not."""

from __future__ import annotations

import functools
from typing import Literal

_TIMEOUT_SECONDS = 10


def is_offline() -> bool:
    """Whether ``HF_HUB_OFFLINE`` forbids the network."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def ask(what: Literal["model", "dataset"], name: str, revision: str | None = None) -> Exception | None:
    """Ask the hub once for a repository; libraries that load from it try for half a minute without a network.

    Returns:
        None if the hub has it, else the error: see :func:`is_answer`.
    """
    from huggingface_hub import HfApi

    try:
        if what == "model":
            HfApi().model_info(name, revision=revision, timeout=_TIMEOUT_SECONDS)
        else:
            HfApi().dataset_info(name, revision=revision, timeout=_TIMEOUT_SECONDS)
    except Exception as error:  # the client passes on the errors of its HTTP library, which has changed before
        return error
    return None


def is_answer(error: Exception | None) -> bool:
    """Whether the hub was reached, even if it has no repository of that name."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    return error is None or isinstance(error, (HfHubHTTPError, HFValidationError))


@functools.cache
def is_reachable(model: str) -> bool:
    """Whether the hub can be asked for a model, whether or not it has it."""
    return not is_offline() and is_answer(ask("model", model))


def why_unreachable() -> str:
    """The reason for an error message."""
    return "HF_HUB_OFFLINE is set" if is_offline() else "there is no network"


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
