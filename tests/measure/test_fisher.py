"""The Fisher trace is what a loop over examples and labels gives, for every kind of output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from gradgate.errors import AttachError
from gradgate.measure import FisherRequest
from gradgate.measure.likelihood import OutputForm, log_likelihoods
from gradgate.measure.trace import trace
from gradgate.training.multitask.model import MultitaskModel
from support.crossed import each_once
from support.tiny_models import _ENCODER, LABELS, TINY, VOCABULARY, tiny, tiny_batch

Batch = dict[str, Tensor]
REGRESSION = tiny("BertConfig", "BertForSequenceClassification", **_ENCODER | {"num_labels": 1})
CHOICES = tiny("BertConfig", "BertForMultipleChoice", **_ENCODER | {"num_labels": 1})
SEVERAL = tiny("BertConfig", "BertForSequenceClassification", **_ENCODER, problem_type="multi_label_classification")


def layer_names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters() if "layer" in name or ".h." in name or "block" in name]


def measure(model: nn.Module, data: Iterable[Batch], names: list[str] | None = None, **options: Any) -> float:
    """The trace over the layers' parameters, or the named ones."""
    groups = {"all": layer_names(model) if names is None else names}
    return trace(model, groups, data, FisherRequest(groups=("all",), **options))["all"]


def squared(model: nn.Module, log_p: Tensor, names: list[str]) -> float:
    wanted = [p for name, p in model.named_parameters() if name in names]
    gradients = torch.autograd.grad(log_p, wanted, allow_unused=True, retain_graph=True)
    return sum(float(g.pow(2).sum()) for g in gradients if g is not None)


def row(batch: Batch, number: int) -> Batch:
    """One example without its padding."""
    one = {name: tensor[number : number + 1] for name, tensor in batch.items()}
    if "attention_mask" not in batch:
        return one
    length = int(one["attention_mask"].sum(dim=-1).max())
    return {name: t[..., :length] if t.shape[-1] == batch["input_ids"].shape[-1] else t for name, t in one.items()}


def class_log_p(output: Any, one: Batch) -> Tensor:
    return functional.log_softmax(output.logits[0], -1)[one["labels"][0]]


def token_log_p(output: Any, one: Batch) -> Tensor:
    scores = functional.log_softmax(output.logits[0], -1)
    return sum((scores[t, y] for t, y in enumerate(one["labels"][0]) if y != -100), scores.sum() * 0.0)


def next_token_log_p(output: Any, one: Batch) -> Tensor:
    scores = functional.log_softmax(output.logits[0], -1)
    return sum((scores[t, y] for t, y in enumerate(one["labels"][0][1:]) if y != -100), scores.sum() * 0.0)


def span_log_p(output: Any, one: Batch) -> Tensor:
    start, end = (functional.log_softmax(x[0], -1) for x in (output.start_logits, output.end_logits))
    return start[one["start_positions"][0]] + end[one["end_positions"][0]]


def normal_log_p(output: Any, one: Batch) -> Tensor:
    return -0.5 * (one["labels"][0] - output.logits[0]).pow(2).sum()


def coins_log_p(output: Any, one: Batch) -> Tensor:
    p = output.logits[0].sigmoid()
    return torch.where(one["labels"][0] > 0, p, 1 - p).log().sum()


def padded(model: Any, size: int = 5, more: int = 0, fill: int = 7) -> Batch:
    """A batch whose rows 1 and 3 end with 2 and 3 tokens of padding, and all with ``more`` others."""
    batch = tiny_batch(model, size)
    for name, value in (("input_ids", fill), ("attention_mask", 0), ("labels", -100)):
        if name in batch and batch[name].dim() == 2:
            batch[name] = functional.pad(batch[name], (0, more), value=value)
            for number, count in zip(range(1, size, 2), (2, 3), strict=False):
                batch[name][number, 7 - count :] = value
    for name in ("start_positions", "end_positions"):
        if name in batch:
            batch[name] = batch[name].clamp(max=3)
    return batch


def with_scores(model: Any, **options: int) -> Batch:
    batch = padded(model, **options)
    return batch | {"labels": torch.linspace(-1, 1, 5)}


def with_flags(model: Any) -> Batch:
    return padded(model) | {"labels": (torch.arange(5 * LABELS).view(5, LABELS) % 2).float()}


def with_choices(model: Any, more: int = 0, fill: int = 7) -> Batch:
    draw = torch.Generator().manual_seed(0)
    ids = functional.pad(torch.randint(4, VOCABULARY, (5, 2, 7), generator=draw), (0, more), value=fill)
    mask = torch.ones_like(ids)
    mask[..., 7:] = 0
    mask[1, :, 5:] = 0
    ids[mask == 0] = fill
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([0, 1, 1, 0, 1])}


KINDS: dict[str, tuple[Callable[[], Any], Callable[..., Batch], Callable[[Any, Batch], Tensor]]] = {
    "classes": (TINY["bert"], padded, class_log_p),
    "regression": (REGRESSION, with_scores, normal_log_p),
    "several classes": (SEVERAL, with_flags, coins_log_p),
    "tokens": (TINY["bert-tokens"], padded, token_log_p),
    "spans": (TINY["bert-qa"], padded, span_log_p),
    "choices": (CHOICES, with_choices, class_log_p),
    "next tokens": (TINY["gpt2"], padded, next_token_log_p),
    "deberta": (TINY["deberta-v2"], padded, class_log_p),
    "rms norm": (TINY["llama"], padded, next_token_log_p),
    "shared layers": (TINY["albert"], padded, class_log_p),
    "images": (TINY["vit"], lambda model: tiny_batch(model, 5), class_log_p),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
PADDABLE = pytest.mark.parametrize("kind", ["classes", "regression", "tokens", "spans", "choices", "deberta"])


@EVERY_KIND
def test_with_true_labels_it_is_the_loop_over_examples(kind: str) -> None:
    build, batch_of, log_p = KINDS[kind]
    model = build().eval()
    batch, names = batch_of(model), layer_names(model)
    expected = [squared(model, log_p(model(**row(batch, n)), row(batch, n)), names) for n in range(5)]
    assert measure(model, [batch], labels="true") == pytest.approx(sum(expected) / 5, rel=1e-5)


@EVERY_KIND
def test_the_batch_form_is_the_squared_mean_gradient_over_the_batch_size(kind: str) -> None:
    build, batch_of, log_p = KINDS[kind]
    model = build().eval()
    batch, names = batch_of(model), layer_names(model)
    mean = sum(log_p(model(**row(batch, n)), row(batch, n)) for n in range(5)) / 5
    found = measure(model, [batch, batch], labels="true", gradient="batch")
    assert found == pytest.approx(squared(model, mean, names) / 5, rel=1e-5)


@PADDABLE
@each_once("gradient", ["per_example", "batch"], "labels", ["sample", "true"])
def test_neither_the_content_nor_the_length_of_padding_counts(kind: str, gradient: Any, labels: Any) -> None:
    build, batch_of, _ = KINDS[kind]
    model = build().eval()
    one, other = batch_of(model), batch_of(model, more=3, fill=11)
    assert not torch.equal(one["input_ids"], other["input_ids"][..., :7])
    found, again = (measure(model, [b], labels=labels, gradient=gradient) for b in (one, other))
    assert found == pytest.approx(again, rel=1e-4)


@pytest.mark.parametrize("kind", ["classes", "choices"])
def test_sampled_labels_have_the_mean_over_all_labels(kind: str) -> None:
    build, batch_of, _ = KINDS[kind]
    model = build().eval()
    batch, names, repeats = batch_of(model), layer_names(model), 40
    mean, variance = 0.0, 0.0
    for number in range(5):
        log_p = functional.log_softmax(model(**row(batch, number)).logits[0], -1)
        norms = torch.tensor([squared(model, value, names) for value in log_p])
        log_p = log_p.detach()
        expected = float(log_p.exp() @ norms)
        mean += expected / 5
        variance += float(log_p.exp() @ (norms - expected).pow(2)) / 25
    found = measure(model, [batch] * repeats, batches=repeats)
    assert abs(found - mean) < 4 * (variance / repeats) ** 0.5
    assert variance > 0


def test_sampled_values_of_a_regression_have_the_mean_over_the_normal_distribution() -> None:
    model = REGRESSION().eval()
    batch, names, repeats = padded(model), layer_names(model), 40
    norms = [squared(model, model(**row(batch, n)).logits.sum(), names) for n in range(5)]
    found = measure(model, [batch] * repeats, batches=repeats)  # E z^2 = 1, Var z^2 = 2
    error = (2 * sum(norm**2 for norm in norms) / 25 / repeats) ** 0.5
    assert abs(found - sum(norms) / 5) < 4 * error


def test_sampled_spans_have_the_mean_over_all_spans() -> None:
    model = TINY["bert-qa"]().eval()
    batch, names, repeats = padded(model, 2), layer_names(model), 40
    mean, variance = 0.0, 0.0
    for number in range(2):
        output = model(**row(batch, number))
        start, end = (functional.log_softmax(x[0], -1) for x in (output.start_logits, output.end_logits))
        pairs = [(float((s + e).detach().exp()), squared(model, s + e, names)) for s, e in product(start, end)]
        expected = sum(p * norm for p, norm in pairs)
        mean += expected / 2
        variance += sum(p * (norm - expected) ** 2 for p, norm in pairs) / 4
    found = measure(model, [batch] * repeats, batches=repeats)
    assert abs(found - mean) < 4 * (variance / repeats) ** 0.5


def test_with_sampled_labels_the_batch_form_estimates_the_same_but_for_the_batch_size() -> None:
    model = TINY["bert"]().eval()
    batch, names = padded(model), layer_names(model)
    exact = 0.0
    for number in range(5):
        log_p = functional.log_softmax(model(**row(batch, number)).logits[0], -1)
        exact += sum(float(value.detach().exp()) * squared(model, value, names) for value in log_p) / 5
    found = torch.tensor([25 * measure(model, [batch], gradient="batch", seed=seed) for seed in range(60)])
    assert abs(float(found.mean()) - exact) < 4 * float(found.std()) / 60**0.5


@pytest.mark.parametrize("kind", ["classes", "tokens", "spans", "choices"])
def test_argmax_labels_are_the_most_likely_ones(kind: str) -> None:
    build, batch_of, _ = KINDS[kind]
    model = build().eval()
    batch = batch_of(model)
    with torch.no_grad():
        output = model(**batch)
    if kind == "spans":
        hidden = batch["attention_mask"] == 0
        modes = {
            f"{side}_positions": output[f"{side}_logits"].masked_fill(hidden, -torch.inf).argmax(-1)
            for side in ("start", "end")
        }
    else:
        best = output.logits.argmax(-1)
        modes = {"labels": best.masked_fill(batch["labels"] == -100, -100)}
    expected = measure(model, [batch | modes], labels="true")
    assert measure(model, [batch], labels="argmax") == pytest.approx(expected, rel=1e-6)


def test_stacked_spans_are_two_rows() -> None:
    model = TINY["bert-qa"]().eval()
    batch, names = padded(model), layer_names(model)
    rows = []
    for number in range(5):
        one = row(batch, number)
        output = model(**one)
        rows += [
            functional.log_softmax(output[f"{s}_logits"][0], -1)[one[f"{s}_positions"][0]] for s in ("start", "end")
        ]
    each = sum(squared(model, log_p, names) for log_p in rows) / 10
    mean = squared(model, sum(rows) / 10, names) / 5
    assert measure(model, [batch], labels="true", qa="stack") == pytest.approx(each, rel=1e-5)
    assert measure(model, [batch], labels="true", qa="stack", gradient="batch") == pytest.approx(mean, rel=1e-5)


def test_a_span_outside_of_the_text_does_not_count() -> None:
    model = TINY["bert-qa"]().eval()
    batch = padded(model) | {"start_positions": torch.full((5,), 7), "end_positions": torch.full((5,), -1)}
    assert measure(model, [batch], labels="true") == 0.0


class Wrapped(nn.Module):
    """A model inside another module, as in a loop of one's own or a LightningModule."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: Tensor) -> Any:
        return self.model(**inputs)


@pytest.mark.parametrize("kind", ["next tokens", "several classes"])
def test_a_wrapper_without_a_configuration_changes_nothing(kind: str) -> None:
    make, data, _ = KINDS[kind]
    model = make().eval()
    bare = measure(model, [data(model)], labels="true")
    assert measure(Wrapped(model), [data(model)], labels="true") == bare
    assert not any(module._forward_hooks for module in model.modules())


def test_each_task_of_a_multitask_model_is_measured_by_its_own_kind() -> None:
    def found(*order: str) -> float:
        models = {"classes": TINY["bert"]().eval(), "score": REGRESSION().eval(), "several": SEVERAL().eval()}
        encoder = models["classes"].base_model
        model = MultitaskModel(encoder, {name: models[name] for name in order}).eval()
        model.config = models[order[0]].config
        batch = padded(model.head("classes")) | {"task_ids": torch.full((5,), order.index("classes"))}
        names = [name for name, _ in model.named_parameters() if name.startswith("encoder.encoder.layer")]
        return measure(model, [batch], names, labels="true")

    alone = found("classes")
    assert found("score", "classes") == found("several", "classes") == alone > 0


@pytest.mark.parametrize("name", ["t5", "bart-lm"])
def test_padding_of_the_source_does_not_count_for_the_target(name: str) -> None:
    model = TINY[name]().eval()
    labels = torch.arange(4, 18).view(2, 7)
    source = torch.tensor([[5, 6, 7, 0, 0, 0, 0], [8, 9, 10, 11, 0, 0, 0]])
    as_long, longer = (
        {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}
        for ids in (source, functional.pad(source, (0, 1)))
    )
    names = [name for name, _ in model.named_parameters()]
    found = measure(model, [as_long], names, labels="true", gradient="batch")
    assert found == pytest.approx(measure(model, [longer], names, labels="true", gradient="batch"), rel=1e-4)


class Maps(nn.Module):
    """A head that gives out classes for each place of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)

    def forward(self, pixels: Tensor) -> Any:
        return SimpleNamespace(logits=self.layer(pixels))


def test_logits_of_a_shape_that_is_not_known_are_refused() -> None:
    with pytest.raises(AttachError, match=r"this model's have the shape \(2, 4, 5, 5\)"):
        measure(Maps(), [{"pixels": torch.ones(2, 3, 5, 5)}])


def test_true_labels_of_another_length_are_refused() -> None:
    request = FisherRequest(groups=("all",), labels="true")
    output, batch = SimpleNamespace(logits=torch.zeros(5, 7, 3)), {"labels": torch.zeros(5, 4, dtype=torch.long)}
    with pytest.raises(AttachError, match=r"fisher_labels=true needs a label per token, of the shape \(5, 7\)"):
        log_likelihoods(output, batch, request, torch.Generator(), OutputForm())
