"""Gates that act on a part of a group, and gates that add noise instead of dropping."""

from __future__ import annotations

import pytest
import torch
from transformers import FNetConfig, FNetForSequenceClassification, XLMConfig, XLMModel

from gradgate import Tuner, gates, map_layers
from gradgate import method as read_method
from gradgate.errors import MethodError
from support.tiny_models import TINY, tiny_batch


def gradients(name: str, method: str | None) -> dict[str, torch.Tensor]:
    """The gradients of one batch, with the method's gates on them."""
    torch.manual_seed(0)
    model = TINY[name]().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tuner = Tuner(model, optimizer, method) if method else None
    model(**tiny_batch(model)).loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    if tuner:
        tuner.detach()
    return found


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("bert", ("attention.self.query.weight", "attention.output.dense.weight")),
        ("gpt2", ("attn.c_attn.weight", "attn.c_proj.weight")),
        ("t5", ("SelfAttention.q.weight", "EncDecAttention.v.weight")),
    ],
)
def test_the_attention_scope_masks_the_attention_weights_alone(name: str, inside: tuple[str, ...]) -> None:
    plain, gated = gradients(name, None), gradients(name, "graddrop:p=0.5,mask_scope=attention")
    changed = {n for n in plain if not torch.equal(plain[n], gated[n])}
    assert changed
    assert all("attn" in n.lower() or "attention" in n.lower() for n in changed)
    assert all(plain[n].dim() >= 2 for n in changed)
    for end in inside:
        assert any(n.endswith(end) for n in changed), end


def test_an_attention_scope_without_attention_is_refused() -> None:
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32}
    layers = map_layers(FNetForSequenceClassification(FNetConfig(**sizes)))
    with pytest.raises(MethodError, match="masks nothing in FNetForSequenceClassification"):
        read_method("graddrop:mask_scope=attention").check(layers)
    read_method("graddrop").check(layers)
    xlm = map_layers(XLMModel(XLMConfig(vocab_size=50, emb_dim=16, n_heads=2, n_layers=2, pad_index=0)))
    read_method("graddrop:mask_scope=attention").check(xlm)


def test_what_the_attention_scope_masks_is_dropped_and_scaled() -> None:
    plain, gated = gradients("bert", None), gradients("bert", "graddrop:p=0.5,mask_scope=attention")
    name = next(n for n in plain if n.endswith("attention.self.query.weight"))
    key = gates.key(seed=0, stream="graddrop", name=name, draw=0)
    passes = gates.mask(plain[name].numel(), lo=0.5, hi=1.0, key=key).view_as(plain[name])
    assert torch.equal(gated[name], plain[name] * 2.0 * passes)


def test_gaussian_noise_multiplies_the_layers_and_nothing_else() -> None:
    plain, gated = gradients("bert", None), gradients("bert", "graddrop:p=0.2,noise=gaussian")
    layers = {n for group in map_layers(TINY["bert"]()).layers for n in group.parameter_names}
    for name, gradient in plain.items():
        same = torch.equal(gradient, gated[name])
        assert same != (name in layers and bool(gradient.count_nonzero())), name


def test_noise_has_mean_one_and_the_variance_of_dropping() -> None:
    p, count = 0.2, 1_000_000
    std = (p / (1 - p)) ** 0.5
    factors = gates.multiply_noise_(torch.ones(count, dtype=torch.float64), std=std, key=7)
    assert abs(factors.mean() - 1.0) < 4 * std / count**0.5
    assert abs(factors.std() - std) < 4 * std / (2 * count) ** 0.5


def test_noise_is_a_function_of_key_and_index() -> None:
    whole = gates.multiply_noise_(torch.ones(100), std=0.5, key=3)
    assert torch.equal(gates.multiply_noise_(torch.ones(40), std=0.5, key=3, offset=60), whole[60:])
    assert not torch.equal(gates.multiply_noise_(torch.ones(100), std=0.5, key=4), whole)


def test_bitfit_moves_biases_and_the_head_alone() -> None:
    torch.manual_seed(0)
    model = TINY["bert"]()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    head = set(map_layers(model)["head"].parameter_names)
    with Tuner(model, optimizer, "bitfit"):
        for _ in range(3):
            model(**tiny_batch(model)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    for name, parameter in model.named_parameters():
        if name not in head and not name.endswith("bias"):
            assert torch.equal(parameter, before[name]), name
    assert any(not torch.equal(p, before[n]) for n, p in model.named_parameters() if n.endswith("bias"))
    assert any(not torch.equal(p, before[n]) for n, p in model.named_parameters() if n in head)
