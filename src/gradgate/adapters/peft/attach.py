"""Attach PEFT's adapters to a model that is trained without PEFT's wrapper, and read and write PEFT's files.

PEFT puts its layers into the model itself; the ``PeftModel`` around it is stored separately, to save and to unload. So
the model has the class, the head and the names that it would have without an adapter.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peft
import torch
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn
from torch.nn import Parameter
from transformers.pytorch_utils import Conv1D

from gradgate.adapters.archive import open_files
from gradgate.adapters.attach import inner
from gradgate.adapters.files import read_record, read_tensors
from gradgate.adapters.peft.options import check_patterns, config_class, read_config
from gradgate.adapters.peft.targets import CHOSEN_HERE, check_spared, choose_targets, spare
from gradgate.adapters.stack import head_parameters
from gradgate.errors import AdapterError, AdapterFileError
from gradgate.files import write_files
from gradgate.layers.quantized import quantization_of

__all__ = [
    "attached",
    "bytes_stored",
    "described",
    "load",
    "merge",
    "put",
    "read_config",
    "remove",
    "restore",
    "save",
    "wrapped",
]

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
_KEY = "_gradgate_peft"
_NAME = "default"  # PEFT keeps an adapter of this name in the folder itself
_TASK_TYPES = {
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
    "ForCausalLM": "CAUSAL_LM",
}
"""Suffix of a model's class to PEFT's type of task; PEFT also loads adapters without one."""


@dataclass(frozen=True)
class AttachedPeft:
    """A PEFT adapter in a model.

    Attributes:
        wrapper: PEFT's model around the model.
        parameters: those that PEFT has made trainable.
        chosen_by: who named the modules that have an adapter.
        flags: each parameter of the model without the adapter, with its ``requires_grad`` before.
    """

    wrapper: Any
    parameters: list[Parameter]
    chosen_by: str
    flags: list[tuple[Parameter, bool]]

    @property
    def config(self) -> Any:
        """PEFT's configuration, with the modules that it found."""
        return self.wrapper.peft_config[_NAME]


def attached(model: Any) -> AttachedPeft:
    """Return the adapter of a model.

    Raises:
        AdapterError: if it has no PEFT adapter.
    """
    found: AttachedPeft | None = inner(model).__dict__.get(_KEY)
    if found is None:
        raise AdapterError(f"{type(model).__name__} has no PEFT adapter. Add one first.")
    return found


def put(model: Any, config: Any, fresh: Collection[str], seed: int, text: str) -> None:
    """Put a fresh adapter into a model; afterwards only it, the head and ``fresh`` are trainable.

    Args:
        config: of PEFT. Without target modules it gets PEFT's own for the type of model, else all linear modules of
            the layers.
        text: the adapter as the user wrote it, for messages.

    Raises:
        AdapterError: if it does not fit the model, which may then contain a part of it.
    """
    host = inner(model)
    if _KEY in host.__dict__:
        raise AdapterError(f"{type(host).__name__} already has a PEFT adapter. Expected at most one; remove it.")
    config = deepcopy(config)
    whole = _trained_whole(host, fresh)
    flags = [(parameter, parameter.requires_grad) for parameter in host.parameters()]
    chosen_by = choose_targets(host, config, text)
    spare(host, config, whole)
    with _drawing(seed), _telling(host, config, text):
        wrapper = peft.get_peft_model(host, config)
    check_spared(host, whole, text)
    trained = [parameter for parameter in host.parameters() if parameter.requires_grad]
    for tensor in (*trained, *host.buffers()):
        if tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size():
            tensor.data = tensor.data.clone()  # checkpoints refuse parts of larger tensors
    for parameter in whole:
        parameter.requires_grad_(True)
    host.__dict__[_KEY] = AttachedPeft(wrapper, trained, chosen_by, flags)


def remove(model: Any) -> None:
    """Take the adapter out of a model. Pretrained weights that PiSSA or OLoRA changed stay as they are."""
    adapter, host = attached(model), inner(model)
    adapter.wrapper.unload()
    for parameter, flag in adapter.flags:
        parameter.requires_grad_(flag)
    del host.__dict__[_KEY]
    host.__dict__.pop("peft_config", None)


def merge(model: Any, text: str) -> Any:
    """Merge the adapter into the model's weights, and return the model without it.

    Raises:
        AdapterError: for an adapter that does not change weights, such as a prompt, whose values are not finite, or
            that is on quantized weights.
    """
    adapter, host = attached(model), inner(model)
    if (method := quantization_of(host)) is not None:
        raise AdapterError(
            f"The base of the adapter {text!r} is quantized ({method}), so merged weights would be rounded to its "
            f"few bits. Export it as peft, or load the exported adapter on the base without quantization, with "
            f"PeftModel.from_pretrained(base, folder), and call merge_and_unload()."
        )
    try:
        merged = adapter.wrapper.merge_and_unload(safe_merge=True)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise AdapterError(
            f"PEFT cannot merge the adapter {text!r} into {type(host).__name__}: {_reason(error)}. Export it as peft, "
            f"or load it without merge=True."
        ) from error
    del host.__dict__[_KEY]
    host.__dict__.pop("peft_config", None)
    return merged


def wrapped(base: Any, folder: Path) -> Any:
    """Return the pretrained model with the adapter and the head of a folder, as a ``PeftModel``.

    Raises:
        AdapterFileError: if the configuration is damaged.
    """
    record = read_record(open_files(folder), CONFIG_FILE)
    config = _config_of(record, folder)
    config.modules_to_save, config.task_type = record.get("modules_to_save"), record.get("task_type")
    config.inference_mode, config.base_model_name_or_path = True, record.get("base_model_name_or_path")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peft.PeftModel.from_pretrained(base, str(folder), config=config)


def described(model: Any) -> str:
    """Describe the type and the places of its modules in one line."""
    adapter = attached(model)
    targets = getattr(adapter.config, "target_modules", None) or ()
    names = [targets] if isinstance(targets, str) else targets
    if adapter.chosen_by == CHOSEN_HERE:
        names = {name.rpartition(".")[2] for name in names}
    of = f"{adapter.config.peft_type.value} of PEFT {peft.__version__}"
    return f"{of} on {', '.join(sorted(names))} ({adapter.chosen_by})"


def bytes_stored(model: Any) -> int:
    """Return the size of the adapter's tensors in :data:`WEIGHTS_FILE`, in bytes."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors_of(attached(model)).values())


def save(model: Any, folder: Path, head: bool, head_also: Collection[str]) -> None:
    """Write the files that ``PeftModel.from_pretrained`` reads, with the head and ``head_also`` if ``head``.

    Raises:
        AdapterFileError: if they cannot be written.
    """
    found, host = attached(model), inner(model)
    tensors = _tensors_of(found)
    config = found.config.to_dict()
    if head:
        ids = {id(parameter) for parameter in _trained_whole(host, head_also)}
        state = found.wrapper.state_dict()
        tensors |= {name: state[name] for name in _names_of(found.wrapper, ids)}
        config["modules_to_save"] = list(_modules_of(host, ids)) or None
    ending = next((end for end in _TASK_TYPES if type(host).__name__.endswith(end)), None)
    config |= {"inference_mode": True, "task_type": _TASK_TYPES[ending] if ending else None}
    config = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    files = {
        WEIGHTS_FILE: save_safetensors(copies, {"format": "pt"}),
        CONFIG_FILE: json.dumps(config, indent=2, sort_keys=True).encode(),
    }
    try:
        write_files(folder, files)
    except OSError as error:
        raise AdapterFileError(f"Cannot write the adapter to {folder}: {error}") from error


def load(model: Any, folder: Path, kind: str, text: str) -> None:
    """Put the adapter of a folder into a model without one, with its head.

    Raises:
        AdapterFileError: if the files are absent, damaged, or of another type or model.
    """
    files = open_files(folder)
    record, tensors = read_record(files, CONFIG_FILE), read_tensors(files, (WEIGHTS_FILE,))
    if record.get("peft_type") != kind:
        raise AdapterFileError(
            f"{CONFIG_FILE} in {folder} has {record.get('peft_type')!r}, but the run trained a {kind!r}. Restore "
            f"the file of the run."
        )
    try:
        put(model, _config_of(record, folder), (), 0, text)
    except AdapterFileError:
        raise
    except AdapterError as error:
        raise AdapterFileError(f"{folder}: {error}") from error
    _fill(model, tensors, str(folder), head=True)


def restore(model: Any, folder: Path) -> None:
    """Load the tensors of a folder into the adapter in a model; the head stays as it is.

    Raises:
        AdapterFileError: if they are absent, damaged or of another adapter.
    """
    _fill(model, read_tensors(open_files(folder), (WEIGHTS_FILE,)), str(folder), head=False)


def _config_of(record: dict[str, Any], folder: Path) -> Any:
    """Build the configuration in a file, without entries that name code or another model."""
    kind = config_class(str(record["peft_type"]))
    left_out = ("auto_mapping", "megatron_config", "megatron_core", "modules_to_save", "task_type")
    given = {name: value for name, value in record.items() if name not in left_out}
    check_patterns(given)
    try:
        return kind(**given | {"inference_mode": False, "base_model_name_or_path": None})
    except (TypeError, ValueError) as error:
        raise AdapterFileError(
            f"{CONFIG_FILE} in {folder} is damaged, or of another version of PEFT than {peft.__version__}: {error}. "
            f"Expected one that this version has written; restore a good copy or install that version."
        ) from None


def _fill(model: Any, tensors: dict[str, Tensor], where: str, head: bool) -> None:
    """Copy tensors into the adapter; with ``head`` also into parameters of the model, and require all of the head's."""
    found, host = attached(model), inner(model)
    wanted = list(_tensors_of(found))
    if head:
        wanted += _names_of(found.wrapper, {id(parameter) for parameter in head_parameters(host)})
    else:
        own = {name for name, _ in found.wrapper.named_parameters(remove_duplicate=False)}.difference(wanted)
        tensors = {name: tensor for name, tensor in tensors.items() if name not in own}
    absent = [name for name in wanted if name not in tensors]
    if absent:
        raise AdapterFileError(
            f"{WEIGHTS_FILE} in {where} is incomplete: it has no {absent[0]!r}. Expected the file that the run "
            f"wrote; restore a good copy."
        )
    try:
        result = set_peft_model_state_dict(found.wrapper, tensors, adapter_name=_NAME)
    except (RuntimeError, KeyError) as error:
        raise AdapterFileError(
            f"{WEIGHTS_FILE} in {where} does not fit {type(host).__name__}: {_reason(error)}. Expected the "
            f"model that the adapter was trained on."
        ) from None
    if result.unexpected_keys:
        raise AdapterFileError(
            f"{WEIGHTS_FILE} in {where} has {result.unexpected_keys[0]!r}, which {type(host).__name__} has no "
            f"place for. Expected the model that the adapter was trained on."
        )


def _tensors_of(found: AttachedPeft) -> dict[str, Tensor]:
    """Return the adapter's tensors under the names that they have in PEFT's files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = get_peft_model_state_dict(found.wrapper, adapter_name=_NAME, save_embedding_layers=False)
    return dict(tensors)


def _trained_whole(host: Any, fresh: Collection[str]) -> list[Parameter]:
    """Return the head's parameters and those that learn with it."""
    return [*head_parameters(host), *(parameter for name, parameter in host.named_parameters() if name in fresh)]


def _names_of(wrapper: Any, ids: Collection[int]) -> list[str]:
    """Return the names of the parameters with these ids in PEFT's files."""
    return [name for name, p in wrapper.named_parameters(remove_duplicate=False) if id(p) in ids]


def _modules_of(module: nn.Module, whole: Collection[int], path: str = "") -> Iterator[str]:
    """Yield the paths of the largest modules with only parameters of these ids."""
    held = [id(parameter) for parameter in module.parameters()]
    is_list = isinstance(module, nn.ModuleList | nn.ModuleDict)  # PEFT cannot store lists
    if path and held and not is_list and set(held) <= set(whole):
        yield path
        return
    for name, child in module.named_children():
        yield from _modules_of(child, whole, f"{path}.{name}" if path else name)


@contextmanager
def _drawing(seed: int) -> Iterator[None]:
    """Let PEFT draw from torch's generator of the CPU, seeded, and restore its state."""
    before = torch.random.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.random.set_rng_state(before)


@contextmanager
def _telling(host: Any, config: Any, text: str) -> Iterator[None]:
    """Convert what PEFT reports about an adapter that does not fit into an AdapterError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # an option that would be ignored
            yield
    except (ValueError, TypeError, KeyError, RuntimeError, AttributeError, ImportError, RuntimeWarning) as error:
        names = [name for name, module in host.named_modules() if isinstance(module, nn.Linear | Conv1D)]
        ends = list(dict.fromkeys(name.rpartition(".")[2] for name in names))
        raise AdapterError(
            f"PEFT cannot add {text!r} to {type(host).__name__}: {_reason(error)}. Expected options that fit its "
            f"sizes, and target_modules among its modules (linear: {', '.join(ends[:12]) or 'none'}); correct them, or "
            f"pass another adapter=."
        ) from error


def _reason(error: BaseException) -> str:
    """Return the first line of an error's text that is not blank."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line.rstrip(".") for line in lines if line and not line.endswith(":")), type(error).__name__)
