"""Name PEFT's adapters as a run does: ``lora:r=16``, ``dora``, ``rslora``, ``ia3``, ``shira``, ``peft:TYPE,...``.

PEFT itself checks an adapter's options, in :mod:`gradgate.adapters.peft.attach`, when a training starts: reading the
text needs neither PEFT nor torch.
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
"""Name to PEFT's type and the options that the name implies."""


@dataclass(frozen=True)
class PeftKind(AdapterKind):
    """An adapter that PEFT builds, trains and stores.

    Attributes:
        type: PEFT's name of the type, in capitals.
        options: option and text of its value, in the order of their names; PEFT's defaults hold for all others.
        fixed: options that the adapter's name implies.
    """

    type: str
    options: tuple[tuple[str, str], ...] = ()
    fixed: Mapping[str, bool] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, text: str, spec: Spec) -> PeftKind:
        """Create the adapter of a name in :data:`NAMED`, or of a PEFT type, with its options.

        Args:
            text: for people.
            spec: the name, or the type after ``peft:``, with the options that are not of the training.
        """
        name, fixed = NAMED.get(spec.name, (spec.name.upper().replace("-", "_"), {}))
        return cls(text, name, tuple(sorted(spec.pairs)), fixed)

    @property
    def wants_own_rate(self) -> bool:
        """Whether it is LoRA or one of its relatives."""
        return True

    def check(self) -> None:
        """Let PEFT read the options."""
        self._peft().read_config(self)

    def complete(self) -> tuple[str, str]:
        """Return PEFT's type and its whole configuration as text, so that ``lora`` is ``lora:r=8``."""
        options = self._peft().read_config(self).to_dict()
        return self.type, repr(sorted((name, _ordered(value)) for name, value in options.items()))

    def put(self, model: Any, fresh: Collection[str], seed: int) -> None:
        """Add the adapter as PEFT's ``get_peft_model`` does, but inside the model, which keeps its class."""
        peft = self._peft()
        peft.put(model, peft.read_config(self), fresh, seed, self.text)

    def remove(self, model: Any) -> None:
        """Remove the adapter as PEFT's ``unload`` does."""
        self._peft().remove(model)

    def save(self, model: Any, folder: Path, head: bool = True, head_also: Collection[str] = ()) -> None:
        """Write ``adapter_config.json`` and ``adapter_model.safetensors``, in which the head is ``modules_to_save``."""
        self._peft().save(model, folder, head, head_also)

    def load(self, model: Any, folder: Path) -> None:
        """Load the adapter as its ``adapter_config.json`` says, whatever the defaults of this version of PEFT are."""
        self._peft().load(model, folder, self.type, self.text)

    def merge(self, model: Any) -> Any:
        """Merge the adapter into the weights as PEFT's ``merge_and_unload`` does; return the model without it."""
        return self._peft().merge(model, self.text)

    def wrapped(self, base: Any, folder: Path) -> Any:
        """Return a pretrained model with the adapter and the head of a folder, as a ``PeftModel``."""
        return self._peft().wrapped(base, folder)

    def restore(self, model: Any, folder: Path) -> None:
        """Load the weights in place."""
        self._peft().restore(model, folder)

    def parameters(self, model: Any) -> list[Parameter]:
        """Return what PEFT has made trainable."""
        found: list[Parameter] = self._peft().attached(model).parameters
        return found

    def bytes_stored(self, model: Any) -> int:
        """Return the size of the adapter's file in bytes, which may exceed that of its trained tensors."""
        size: int = self._peft().bytes_stored(model)
        return size

    def described(self, model: Any) -> str:
        """Return the type, PEFT's version, and the modules that have an adapter, with who chose them."""
        text: str = self._peft().described(model)
        return text

    def _peft(self) -> ModuleType:
        """Import the module that uses PEFT.

        Raises:
            UsageError: without PEFT.
        """
        if find_spec("peft") is None:
            raise UsageError(
                f"The adapter {self.text!r} needs PEFT, which is not installed. Install it with: "
                f"pip install 'gradgate[peft]', or use one of gradgate's own adapters, such as houlsby."
            )
        from gradgate.adapters.peft import attach as peft_adapter

        return peft_adapter


def _ordered(value: Any) -> str:
    return repr(sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value)


def split_type(text: str) -> str:
    """Rewrite ``"peft:TYPE,option=value"`` as ``"TYPE:option=value"``; return other texts unchanged.

    Raises:
        AdapterError: for ``peft`` without a type.
    """
    name, _, rest = text.partition(":")
    if name != ANY:
        return text
    kind, _, options = rest.partition(",")
    if not kind or "=" in kind:
        raise AdapterError(
            f"{text!r} is not a PEFT type. Expected peft:TYPE,option=value, such as peft:loha,r=4; the types are "
            f"in PEFT's documentation, https://huggingface.co/docs/peft."
        )
    return f"{kind}:{options}" if options else kind
