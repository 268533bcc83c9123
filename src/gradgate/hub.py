"""Find a model: embedded, in a folder or on the Hugging Face hub; check whether the hub can be reached."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from gradgate import sample
from gradgate.errors import RunError, nearest
from gradgate.files import parse_json, read_bytes
from gradgate.places import typed_path

CONFIG_FILE = "config.json"
_TIMEOUT_SECONDS = 10
# Entries of a configuration that say how many objects are built, and the most that any model has by far.
_MOST = {
    re.compile(r"(num|n)(_\w+)?_(layers?|blocks?|stages?)|\w+_layers|depths?"): 2_000,
    re.compile(r"(num|n)(_\w+)?_experts?"): 100_000,
    re.compile(r"num_labels|id2label|label2id"): 1_000_000,
}


def model_source(name: str) -> str:
    """Return the source for ``from_pretrained``: a folder for ``sample`` and ``sample-decoder``, else the name itself.

    Raises:
        RunError: for a path that does not exist, or a folder without a model.
    """
    if name in sample.MODELS:
        return str(sample.MODELS[name])
    path = typed_path(name)
    if path.is_dir():
        if not (path / CONFIG_FILE).is_file():
            raise RunError(
                f"{name} is a folder without config.json, so it is not a pretrained model. Expected a folder that "
                f"save_pretrained has written."
            )
        _check_entries(path)
        _check_file(path / CONFIG_FILE)
        _check_generation(path / "generation_config.json")
        return str(path)
    looks_like_path = name.startswith((".", "/", "~")) or name.count("/") > 1
    if looks_like_path:
        raise RunError(
            f"There is no folder {name}. Pass a folder with config.json and weights, or a hub name."
            f"{nearest_model(name)}"
        )
    return name


def is_here(name: str) -> bool:
    """Return whether a model is embedded, in a folder, or in the cache of the hub."""
    if name in sample.MODELS or typed_path(name).is_dir():
        return True
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(name, CONFIG_FILE), str)
    except HFValidationError:  # no name of the hub
        return False


def check_sizes(values: Mapping[str, Any], where: object) -> None:
    """Refuse a model whose configuration asks for far more layers, experts or labels than any has.

    Args:
        values: of a configuration of transformers, those of its parts included.
        where: the place of the configuration, for the message.

    Raises:
        RunError: naming the entry.
    """
    for name, value in values.items():
        if isinstance(value, Mapping) and name not in ("id2label", "label2id"):
            check_sizes(value, where)
            continue
        for number in value if isinstance(value, list) else [value]:
            count = len(number) if isinstance(number, Mapping) else number
            most = next((most for names, most in _MOST.items() if names.fullmatch(str(name))), None)
            if most is not None and isinstance(count, int) and count > most:
                raise RunError(
                    f"{where} says {name}: {_digits(count)}. Expected at most {most:,}; correct the configuration."
                )


def _digits(count: int) -> str:
    return f"{count:,}" if count < 10**15 else "a number of more than 15 digits"


def _check_entries(folder: Path) -> None:
    """Refuse a folder with a pipe or a device, which a library that opens it would wait for."""
    for path in folder.iterdir():
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise RunError(f"{path} is a pipe or a device; expected a file. Remove it, or put the model's file there.")


def _check_file(file: Path) -> None:
    try:
        values = parse_json(read_bytes(file), finite=False)
    except (OSError, ValueError):  # transformers says what is wrong with it
        return
    check_sizes(values, file)


def _check_generation(file: Path) -> None:
    """Refuse damaged settings of generation, which transformers would silently leave out."""
    try:
        if file.exists():
            parse_json(read_bytes(file), finite=False)
    except (OSError, ValueError) as error:
        raise RunError(f"{file} is damaged: {error}. Restore a good copy, or remove it.") from None


def nearest_model(name: str) -> str:
    """Return ``" Did you mean 'sample'?"`` if a name is near an embedded model's or a neighbouring folder's."""
    path = typed_path(name)
    folders = path.parent.iterdir() if path.parent.is_dir() else ()
    models = (str(path.parent / folder.name) for folder in folders if (folder / "config.json").is_file())
    return nearest(name, [*sample.MODELS, *models])


def is_offline() -> bool:
    """Return True if ``HF_HUB_OFFLINE`` forbids the network."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def ask(what: Literal["model", "dataset"], name: str, revision: str | None = None) -> Exception | None:
    """Ask the hub once for a repository. Libraries that load from it retry for half a minute without a network.

    Returns:
        None if the hub has it, else the error: see :func:`is_answer`.
    """
    from huggingface_hub import HfApi

    try:
        if what == "model":
            HfApi().model_info(name, revision=revision, timeout=_TIMEOUT_SECONDS)
        else:
            HfApi().dataset_info(name, revision=revision, timeout=_TIMEOUT_SECONDS)
    except Exception as error:  # the client raises errors of its HTTP library, which has changed before
        return error
    return None


def is_answer(error: Exception | None) -> bool:
    """Return True if the hub was reached, even if it has no repository of that name."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    return error is None or isinstance(error, (HfHubHTTPError, HFValidationError))


@functools.cache
def is_reachable(model: str) -> bool:
    """Return True if the hub answers a request for a model, even if it does not have it."""
    return not is_offline() and is_answer(ask("model", model))


def why_unreachable() -> str:
    """Return the reason, for an error message."""
    return "HF_HUB_OFFLINE is set" if is_offline() else "there is no network"


def not_loaded(error: Exception) -> str:
    """Return why a library could not load something from the hub, without a full stop.

    If there was no way to fetch it, that alone is the reason.
    """
    from huggingface_hub.errors import LocalEntryNotFoundError

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    if any(isinstance(each, LocalEntryNotFoundError) for each in chain):
        return f"{why_unreachable()}, and the cache has no copy"
    lines = (line.strip() for line in str(error).strip().splitlines()[:2])
    return " ".join(lines).rstrip(".") or type(error).__name__


def first_line(error: Exception) -> str:
    """Return the first line of an error's message without its full stop, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
