"""Find and copy a model's small files: its configuration, and a tokenizer that is not the base's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gradgate.files import parse_json, read_bytes

CONFIG_FILE = "config.json"
_CONFIGURATIONS = (CONFIG_FILE, "generation_config.json")
_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_TOKENIZER = "tokenizer.json"
_OF_TOKENIZER = (
    _TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt",
    "merges.txt", "chat_template.jinja",
)  # fmt: skip
_SETTINGS_FILES = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
_DECIDES_INPUT = (
    "add_bos_token", "add_eos_token", "additional_special_tokens", "bos_token", "chat_template", "cls_token",
    "eos_token", "extra_special_tokens", "mask_token", "model_max_length", "pad_token", "padding_side", "sep_token",
    "truncation_side", "unk_token",
)  # fmt: skip
"""The settings of a tokenizer that decide what a model reads; others, such as versions, differ between equal ones."""
_NO_LIMIT = 10**12  # a longer model_max_length means that none is known
_VOCABULARIES = (
    _TOKENIZER, "vocab*", "*_vocab.json", "merges.txt", "dict.txt", "tekken.json", "*.codes", "*.model", "*.spm",
    "*.tiktoken", "*.tokenizer",
)  # fmt: skip
"""Patterns of the files that alone are a tokenizer, or the largest part of one."""
_NOT_KEPT = (
    "*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt*", "*.h5", "*.msgpack", "*.onnx*", "*.gguf", "*.ot", "*.npz",
    "*.pkl", "*.index.json", "adapter_config.json", "*.py", "*.pyc", "*.so", "*.sh", "*.ipynb", "*.md", ".*",
)  # fmt: skip
"""Patterns of weights with their indices, of code, and of model cards, which describe only their own model."""
_MOST_BYTES = 100 << 20  # of a file that no tokenizer is known to have; larger ones are weights or data
_OF_A_CALL = ("truncation", "padding")  # settings of the tokenizer's last call, which its file stores


def differing_files(trained: Path, base: Path) -> dict[str, str]:
    """Return the files of a trained model that a delta must contain: the configuration, and what its tokenizer changed.

    Args:
        trained, base: folders of models.
    """
    files = {name: text for name in _CONFIGURATIONS if (text := _text(trained / name)) is not None}
    if _tokens(trained) not in (None, _tokens(base)):
        files |= {name: text for name in _OF_TOKENIZER if (text := _text(trained / name)) is not None}
    elif has_tokenizer(trained) and _tokenizer_settings(trained) != _tokenizer_settings(base):
        files |= {name: text for name in _SETTINGS_FILES if (text := _text(trained / name)) is not None}
    return files


def dtype_in_memory(files: Mapping[str, str]) -> str | None:
    """Return the dtype that a configuration names, in which transformers loads the model; None if it names none.

    Args:
        files: name to text of a model's small files.
    """
    try:
        config = parse_json(files.get(CONFIG_FILE, ""))
    except ValueError:
        return None
    named = config.get("dtype", config.get("torch_dtype"))
    return _DTYPES.get(named) if isinstance(named, str) else None


def kept_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a model's folder that belong to its configuration, tokenizer and preprocessing.

    They are all but weights, code and model cards, as tokenizers have files of many names.
    """
    for path in sorted(folder.iterdir()):
        if not path.is_file() or _is_one_of(path.name, _NOT_KEPT):
            continue
        if _is_one_of(path.name, _VOCABULARIES) or path.stat().st_size <= _MOST_BYTES:
            yield path


def copy_files(source: Path, target: Path, newer: Collection[str] = ()) -> None:
    """Copy the files that :func:`kept_files` yields; raise OSError if one cannot be copied.

    Args:
        source, target: folders.
        newer: names of files of a newer tokenizer, which those of the one in ``source`` must not override.
    """
    older = _overriding(newer)
    for path in kept_files(source):
        if not _is_one_of(path.name, older):
            shutil.copyfile(path, target / path.name)


def has_tokenizer(folder: Path) -> bool:
    """Return True if a folder contains a tokenizer."""
    patterns = (*_VOCABULARIES, *_OF_TOKENIZER)
    return any(_is_one_of(path.name, patterns) and path.is_file() for path in folder.iterdir())


def _overriding(newer: Collection[str]) -> tuple[str, ...]:
    """Return patterns of the files of an older tokenizer that would override these of a newer one."""
    if any(_is_one_of(name, _VOCABULARIES) for name in newer):
        return (*_VOCABULARIES, "added_tokens.json", *_SETTINGS_FILES)
    # Settings alone belong to the older vocabulary, with its added tokens.
    return _SETTINGS_FILES if any(name in _SETTINGS_FILES for name in newer) else ()


def _is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _tokenizer_settings(folder: Path) -> dict[str, Any]:
    """Return what a tokenizer's settings say, wherever its version of transformers writes it."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        try:
            content = parse_json(_text(folder / name) or "{}")
        except ValueError:
            continue
        found |= {key: content[key] for key in _DECIDES_INPUT if content.get(key)} if isinstance(content, dict) else {}
    template = _text(folder / "chat_template.jinja")
    if template is not None:
        found["chat_template"] = template
    found = {key: _plain_token(value) for key, value in found.items()}
    if isinstance(length := found.get("model_max_length"), int | float) and length > _NO_LIMIT:
        del found["model_max_length"]
    return found


def _plain_token(value: Any) -> Any:
    """Return a special token as text: some versions write its flags, too."""
    if isinstance(value, dict) and "content" in value:
        return value["content"]
    return [_plain_token(each) for each in value] if isinstance(value, list) else value


def _tokens(folder: Path) -> Any:
    """Return a tokenizer's content in a comparable form; None if there is no tokenizer."""
    text = _text(folder / _TOKENIZER)
    if text is not None:
        try:
            content = parse_json(text)
        except ValueError:
            return text
        return json.dumps({name: value for name, value in content.items() if name not in _OF_A_CALL}, sort_keys=True)
    others = {name: _text(folder / name) for name in ("vocab.txt", "vocab.json", "merges.txt", "added_tokens.json")}
    return others if any(others.values()) else None


def _text(path: Path) -> str | None:
    try:
        return read_bytes(path).decode("utf-8")
    except (OSError, ValueError):
        return None
