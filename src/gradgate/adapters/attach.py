"""Put adapters into a model and take them out again; the model's class and its own parameters do not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import Parameter

from gradgate.adapters.architectures import (
    INVERTIBLE,
    ActiveAdapters,
    Architecture,
    InvertibleSite,
    Site,
    TunedNorms,
    architecture_of,
    tuned_norm,
)
from gradgate.adapters.build import AdapterModules, embedding_width
from gradgate.adapters.config import AdapterConfig, check_spelling, unfit_name
from gradgate.errors import AdapterError
from gradgate.layers.names import unwrap

_KEY = "_gradgate_adapters"


class Attached:
    """The adapters of one model: what was inserted where, and how to take it out.

    It is stored on the base model (the encoder or decoder), so a copy of the model has a copy of it.

    Attributes:
        configs: adapter by name, in the order in which they were added.
        setup: what is active.
        hooks: handles of the model's hooks that end with the adapters.
    """

    def __init__(self, model: Any) -> None:
        self.architecture: Architecture = architecture_of(model)
        self.base: Any = model.base_model
        self.setup = ActiveAdapters()
        self.configs: dict[str, AdapterConfig] = {}
        self.invertible: InvertibleSite | None = None
        self.overwritten: list[tuple[Parameter, Tensor]] = []
        self._flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
        self._children: list[tuple[nn.Module, str]] = []  # those that were added to the model
        self._forwards: list[tuple[nn.Module, str, Any]] = []  # with the instance's own before; None if it had none
        self.hooks: list[Any] = []
        self._put_sites()

    def blocks(self, name: str) -> AdapterModules:
        """Return the modules of one adapter, as they are in the model."""
        found = AdapterModules()
        for path, module in self.base.named_modules():
            if isinstance(module, Site) and name in module:
                found.modules[path] = module[name]
            elif isinstance(module, TunedNorms) and name in module:
                found.norms[path.removesuffix(".tuned")] = module[name]
        if self.invertible is not None and name in self.invertible:
            found.modules[INVERTIBLE] = self.invertible[name]
        return found

    def put(self, model: Any, name: str, config: AdapterConfig, blocks: AdapterModules) -> None:
        """Put the modules of one adapter into the model, inactive."""
        for place, module in blocks.modules.items():
            site = self._invertible_site(model) if place == INVERTIBLE else self.base.get_submodule(place)
            site[name] = module.train(self.base.training)
        for path, norm in blocks.norms.items():
            self._tuned(path)[name] = norm.train(self.base.training)
        self.configs[name] = config

    def take(self, name: str) -> None:
        """Take the modules of one adapter out of the model."""
        for module in self.base.modules():
            if isinstance(module, Site | InvertibleSite | TunedNorms) and name in module:
                del module[name]
        self.setup.active = tuple(other for other in self.setup.active if other != name)
        del self.configs[name]

    def detach(self) -> None:
        """Restore the model as it was before the first adapter."""
        for hook in self.hooks:
            hook.remove()
        for module, bound, before in reversed(self._forwards):
            name = bound if bound in module.__dict__ else "forward"  # where accelerate puts it if it removes its hook
            if before is None:
                del module.__dict__[name]
            else:
                module.__dict__[name] = before
        for parent, name in reversed(self._children):
            del parent._modules[name]
        self.restore_flags()
        for parameter, before in reversed(self.overwritten):
            parameter.data.copy_(before)
        del self.base.__dict__[_KEY]

    def restore_flags(self) -> None:
        """Restore the ``requires_grad`` of each of the model's parameters to its value before the first adapter."""
        for parameter, flag in self._flags:
            parameter.requires_grad_(flag)

    def keep_out_of_saves(self, model: Any) -> None:
        """Make ``save_pretrained`` leave the adapters out."""
        for saved in {id(m): m for m in (model, self.base)}.values():
            prefix = next(path for path, module in saved.named_modules() if module is self.base)
            names = set(self._names(prefix + "." if prefix else ""))
            ignored = {key for key in saved._keys_to_ignore_on_save or () if not _is_adapter_key(key)}
            saved._keys_to_ignore_on_save = ignored | names

    def _names(self, prefix: str) -> Iterator[str]:
        for path, module in self.base.named_modules():
            if isinstance(module, Site | InvertibleSite | TunedNorms):
                yield from (f"{prefix}{path}.{key}" for key in module.state_dict())

    def _put_sites(self) -> None:
        for number, layer in enumerate(self.base.get_submodule(self.architecture.layers)):
            for path in self.architecture.sites.values():
                self._put_site(layer, path, number)
            for path, (forward, _) in self.architecture.forwards.items():
                self._bind(layer.get_submodule(path), forward)

    def _put_site(self, layer: nn.Module, path: str, number: int) -> None:
        holder_path, _, name = path.rpartition(".")
        try:
            holder = layer.get_submodule(holder_path)
        except AttributeError:
            holder = nn.Module()
            self._put_child(layer, holder_path, holder)
        self._put_child(holder, name, Site(self.setup, number))

    def _put_child(self, parent: nn.Module, name: str, child: nn.Module) -> None:
        parent.add_module(name, child)
        self._children.append((parent, name))

    def _bind(self, module: nn.Module, forward: Callable[..., Any]) -> None:
        # A method could not be pickled; so the class, its name and its checkpoints do not change.
        # Under a hook of accelerate, "forward" is the hook, which calls the forward that it stores.
        name = "_old_forward" if "_hf_hook" in module.__dict__ else "forward"
        self._forwards.append((module, name, module.__dict__.get(name)))
        module.__dict__[name] = partial(forward, module)

    def _tuned(self, path: str) -> TunedNorms:
        norm = self.base.get_submodule(path)
        if "tuned" not in norm._modules:
            _, inside, rest = path.partition(self.architecture.layers + ".")
            self._put_child(norm, "tuned", TunedNorms(self.setup, int(rest.partition(".")[0]) if inside else None))
            self._bind(norm, tuned_norm)
        tuned = norm.get_submodule("tuned")
        assert isinstance(tuned, TunedNorms)
        return tuned

    def _invertible_site(self, model: Any) -> InvertibleSite:
        if self.invertible is None:
            self.invertible = InvertibleSite(self.setup)
            embeddings = self.base.get_submodule(self.architecture.embeddings)
            self._put_child(embeddings, INVERTIBLE, self.invertible)
            self.hooks.append(embeddings.register_forward_hook(self.invertible.after_embeddings))
            output = output_embeddings(model)
            if output is not None and output.in_features == embedding_width(self.base):
                self.hooks.append(output.register_forward_pre_hook(self.invertible.before_output))
        return self.invertible


def output_embeddings(model: Any) -> Any:
    """Return the output embeddings of a model; None for a bare encoder or decoder, or if its head has none."""
    return model.get_output_embeddings() if model.base_model is not model else None


def inner(model: Any) -> Any:
    """Return the model from transformers inside DDP and ``torch.compile``.

    Raises:
        AdapterError: if it is not a model from transformers.
    """
    host: Any = unwrap(model)
    if not (hasattr(host, "base_model") and hasattr(host, "config")):
        raise AdapterError(
            f"Adapters need a model from transformers, got {type(host).__name__}. Pass one that from_pretrained "
            "returned."
        )
    return host


def attached(model: Any) -> Attached | None:
    """Return the adapters of a model; None if it has none."""
    adapters: Attached | None = inner(model).base_model.__dict__.get(_KEY)
    return adapters


def attach(model: Any) -> Attached:
    """Return the adapters of a model, and prepare it for the first one if it has none."""
    adapters = attached(model)
    if adapters is None:
        adapters = Attached(inner(model))
        inner(model).base_model.__dict__[_KEY] = adapters
    return adapters


def check_name(name: str) -> None:
    """Refuse an invalid adapter name: it becomes a part of parameter names, and of AdapterHub's keys.

    Raises:
        AdapterError: if the name is invalid.
    """
    check_spelling(name)
    setup = ActiveAdapters()
    if any(hasattr(site, name) for site in (Site(setup, 0), InvertibleSite(setup), TunedNorms(setup, 0))):
        raise unfit_name(name)


def _is_adapter_key(key: str) -> bool:
    return any(f".{part}." in f".{key}" for part in ("adapters", INVERTIBLE, "tuned"))
