"""Define the kinds of adapter that a run can train on a frozen model, behind one interface.

An adapter of a new family is a subclass of :class:`AdapterKind` and its line in ``read_kind`` of ``adapter_setting``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.adapters.config import AdapterConfig, adapter_config

if TYPE_CHECKING:
    from torch.nn import Parameter

NAME = "task"
"""The name of a run's bottleneck adapter, in the model and in its files."""


@dataclass(frozen=True)
class AdapterKind(ABC):
    """An adapter as a run adds, trains and stores it. Equal for texts that describe the same adapter.

    Attributes:
        text: what it was read from, without the options of the training.
    """

    text: str = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def bottleneck(self) -> AdapterConfig | None:
        """The configuration of a bottleneck adapter; None for all others."""
        return None

    @property
    def wants_own_rate(self) -> bool:
        """Whether it learns best at about ten times the learning rate of full fine-tuning, as LoRA does."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Refuse settings that no model could take, before one is loaded.

        Raises:
            UsageError: if a package is missing, or an option or its value is wrong.
        """

    def complete(self) -> Hashable:
        """Return what decides how it trains, with the defaults of a package that only :meth:`check` imports."""
        return self

    @abstractmethod
    def put(self, model: Any, fresh: Collection[str], seed: int) -> None:
        """Put a fresh adapter into a model and freeze everything but the adapter, the head and ``fresh``.

        Args:
            model: from transformers.
            fresh: names of parameters of the base model that are trained with the head, such as its pooler.
            seed: of the adapter's weights; no global generator is touched.

        Raises:
            AdapterError: if the adapter does not fit the model.
        """

    @abstractmethod
    def remove(self, model: Any) -> None:
        """Take the adapter out again. What PEFT's PiSSA and OLoRA took out of the pretrained weights stays out."""

    @abstractmethod
    def save(self, model: Any, folder: Path, head: bool = True, head_also: Collection[str] = ()) -> None:
        """Write the adapter, with the model's head if ``head``; ``head_also`` as in :func:`gradgate.adapters.save`."""

    @abstractmethod
    def load(self, model: Any, folder: Path) -> None:
        """Put the adapter and the head of a folder into the pretrained model, ready to run.

        Raises:
            AdapterFileError: if the files are absent, damaged or of another model.
        """

    @abstractmethod
    def restore(self, model: Any, folder: Path) -> None:
        """Load the weights of a folder into the adapter in the model, in place; the head stays as it is.

        Raises:
            AdapterFileError: if the files are absent, damaged or of another adapter.
        """

    @abstractmethod
    def parameters(self, model: Any) -> list[Parameter]:
        """Return the adapter's own parameters in the model."""

    @abstractmethod
    def bytes_stored(self, model: Any) -> int:
        """Return the size of the tensors that :meth:`save` writes for the adapter, without the head, in bytes."""

    def described(self, model: Any) -> str:
        """Return what ``run.json`` adds about its place in the model; empty if its text says everything."""
        return ""


@dataclass(frozen=True)
class BottleneckKind(AdapterKind):
    """A bottleneck adapter in AdapterHub's format.

    Attributes:
        config: what the text stands for.
        name: of the adapter, in the model and in its files.
    """

    config: AdapterConfig = field(hash=False)
    name: str = NAME

    @classmethod
    def read(cls, text: str, name: str = NAME) -> BottleneckKind:
        """Parse an adapter from a text such as ``"houlsby:size=64"``.

        Raises:
            AdapterError: as :func:`gradgate.adapters.adapter_config`.
        """
        return cls(text, adapter_config(text), name)

    @property
    def bottleneck(self) -> AdapterConfig:
        """The configuration of the adapter."""
        return self.config

    def check(self) -> None:
        """Do nothing, as reading the text has checked everything."""

    def put(self, model: Any, fresh: Collection[str], seed: int) -> None:
        """Add the adapter as :func:`gradgate.adapters.add` does."""
        from gradgate import adapters

        adapters.add(model, self.name, self.config, seed=seed)
        for name, parameter in model.named_parameters():
            if name in fresh:
                parameter.requires_grad_(True)

    def remove(self, model: Any) -> None:
        """Remove the adapter as :func:`gradgate.adapters.remove` does."""
        from gradgate import adapters

        adapters.remove(model, self.name)

    def save(self, model: Any, folder: Path, head: bool = True, head_also: Collection[str] = ()) -> None:
        """Write the adapter as :func:`gradgate.adapters.save` does."""
        from gradgate import adapters

        adapters.save(model, self.name, folder, head=head, head_also=head_also)

    def load(self, model: Any, folder: Path) -> None:
        """Load the adapter with the head as :func:`gradgate.adapters.load` does, and activate it."""
        from gradgate import adapters

        adapters.activate(model, adapters.load(model, folder, head=True))

    def restore(self, model: Any, folder: Path) -> None:
        """Load weights as :func:`gradgate.adapters.restore` does, which needs a folder with the adapter's name."""
        from gradgate import adapters

        adapters.restore(model, folder.parent, folder.name)

    def parameters(self, model: Any) -> list[Parameter]:
        """Return the parameters of its modules, with its copies of layer norms."""
        from gradgate import adapters

        return adapters.parameters(model, self.name)

    def bytes_stored(self, model: Any) -> int:
        """Return the size of its parameters, as its files have nothing else, in bytes."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self.parameters(model))
