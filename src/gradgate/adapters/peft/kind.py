"""Adapters of PEFT as a run names them: ``lora:r=16``, ``dora``, ``rslora``, ``ia3``, ``shira`` and ``peft:TYPE,...``.

What PEFT knows of an adapter's options is asked of PEFT itself, in :mod:`gradgate.adapters.peft.attach`, when a
training begins: reading the text needs neither PEFT nor torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gradgate.adapters.kinds import AdapterKind
from gradgate.errors import AdapterError, UsageError
from gradgate.specs import Spec

if TYPE_CHECKING:
    from torch.nn import Parameter

ANY = "peft"
NAMED: Mapping[str, tuple[str, Mapping[str, bool]]] = {
    "lora": ("LORA", {}),
    "dora": ("LORA", {"use_dora": True}),
    "rslora": ("LORA", {"use_rslora": True}),
    "ia3": ("IA3", {}),
    "shira": ("SHIRA", {}),
}
"""Name to PEFT's type and the options that the name stands for."""


@dataclass(frozen=True)
class PeftKind(AdapterKind):
    """An adapter that PEFT builds, trains and stores.

    Attributes:
        type: PEFT's name of the type, in capitals.
        options: option and text of its value, in the order of their names; PEFT's defaults hold for all others.
        fixed: options that the adapter's name stands for.
    """

    type: str
    options: tuple[tuple[str, str], ...] = ()
    fixed: Mapping[str, bool] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, text: str, spec: Spec) -> PeftKind:
        """The adapter of a name in :data:`NAMED`, or of a type of PEFT's, with its options.

        Args:
            text: for people.
            spec: the name, or the type behind ``peft:``, with the options that are not of the training.
        """
        name, fixed = NAMED.get(spec.name, (spec.name.upper().replace("-", "_"), {}))
        return cls(text, name, tuple(sorted(spec.pairs)), fixed)

    @property
    def wants_own_rate(self) -> bool:
        """LoRA and its relatives do."""
        return True

    def check(self) -> None:
        """Let PEFT read the options."""
        self._peft().read_config(self)

    def put(self, model: Any, fresh: Collection[str], seed: int) -> None:
        """As PEFT's ``get_peft_model``, inside the model itself, which keeps its class."""
        peft = self._peft()
        peft.put(model, peft.read_config(self), fresh, seed, self.text)

    def remove(self, model: Any) -> None:
        """As PEFT's ``unload``."""
        self._peft().remove(model)

    def save(self, model: Any, folder: Path, head: bool = True, head_also: Collection[str] = ()) -> None:
        """Write ``adapter_config.json`` and ``adapter_model.safetensors``, in which the head is ``modules_to_save``."""
        self._peft().save(model, folder, head, head_also)

    def load(self, model: Any, folder: Path) -> None:
        """The adapter is as its ``adapter_config.json`` says, whatever the defaults of this version of PEFT are."""
        self._peft().load(model, folder, self.type, self.text)

    def restore(self, model: Any, folder: Path) -> None:
        """In place."""
        self._peft().restore(model, folder)

    def parameters(self, model: Any) -> list[Parameter]:
        """What PEFT has made trainable."""
        found: list[Parameter] = self._peft().attached(model).parameters
        return found

    def bytes_stored(self, model: Any) -> int:
        """Of what PEFT writes, which for some types is more than what they train, such as the places of weights."""
        size: int = self._peft().bytes_stored(model)
        return size

    def described(self, model: Any) -> str:
        """The type, PEFT's version, and the modules that have an adapter, with who chose them."""
        text: str = self._peft().described(model)
        return text

    def _peft(self) -> ModuleType:
        """The module that speaks with PEFT.

        Raises:
            UsageError: without PEFT.
        """
        if find_spec("peft") is None:
            raise UsageError(
                f"The adapter {self.text!r} is PEFT's, and PEFT is not installed. Install it with: "
                f"pip install 'gradgate[peft]', or take one of gradgate's own adapters, such as houlsby."
            )
        from gradgate.adapters.peft import attach as peft_adapter

        return peft_adapter


def split_type(text: str) -> str:
    """``"peft:TYPE,option=value"`` with its type in front, as ``"TYPE:option=value"``; other texts as they are.

    Raises:
        AdapterError: for ``peft`` without a type.
    """
    name, _, rest = text.partition(":")
    if name != ANY:
        return text
    kind, _, options = rest.partition(",")
    if not kind or "=" in kind:
        raise AdapterError(
            f"{text!r} names no type of PEFT's. Expected peft:TYPE,option=value, such as peft:loha,r=4; the types are "
            f"in PEFT's documentation, https://huggingface.co/docs/peft."
        )
    return f"{kind}:{options}" if options else kind
