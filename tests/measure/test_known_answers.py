"""The trace against a closed form, and against another library."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput

from gradgate.measure import FisherRequest
from gradgate.measure.trace import trace

CLASSES, WIDTH, ROWS = 3, 4, 6


class Classifier(nn.Module):
    """Logits of any module, as a model of transformers gives them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, labels: Tensor) -> SequenceClassifierOutput:
        return SequenceClassifierOutput(loss=None, logits=self.inner(x))


@pytest.fixture
def batch() -> dict[str, Tensor]:
    return {"x": torch.randn(ROWS, WIDTH), "labels": torch.tensor([0, 1, 2, 2, 1, 0])}


def traced(inner: nn.Module, batches: list[dict[str, Tensor]], **options: object) -> float:
    model = Classifier(inner)
    names = [name for name, _ in model.named_parameters()]
    request = FisherRequest(groups=("all",), batches=None, **options)  # type: ignore[arg-type]
    return trace(model, {"all": names}, batches, request)["all"]


def test_of_a_logistic_regression_with_the_data_s_labels(batch: dict[str, Tensor]) -> None:
    """The gradient of log p(y|x) is ``(e_y - p) x^T`` for the weights and ``e_y - p`` for the intercepts."""
    regression = nn.Linear(WIDTH, CLASSES)
    p = regression(batch["x"]).softmax(dim=-1)
    residuals = functional.one_hot(batch["labels"], CLASSES) - p
    expected = ((batch["x"].pow(2).sum(dim=-1) + 1) * residuals.pow(2).sum(dim=-1)).mean()
    assert traced(regression, [batch], labels="true") == pytest.approx(expected.item(), rel=1e-5)


def test_of_a_logistic_regression_with_its_own_labels(batch: dict[str, Tensor]) -> None:
    """With y drawn from p, the expected square of ``e_y - p`` is ``1 - |p|^2``."""
    regression = nn.Linear(WIDTH, CLASSES)
    p = regression(batch["x"]).softmax(dim=-1)
    expected = ((batch["x"].pow(2).sum(dim=-1) + 1) * (1 - p.pow(2).sum(dim=-1))).mean()
    many = {name: torch.cat([values] * 20) for name, values in batch.items()}
    assert traced(regression, [many] * 100) == pytest.approx(expected.item(), rel=0.02)


def test_curvlinops_finds_the_same(batch: dict[str, Tensor]) -> None:
    """Its empirical Fisher has the data's labels; its GGN is the Fisher matrix of a softmax, labels averaged out."""
    curvlinops = pytest.importorskip("curvlinops")
    inner = nn.Sequential(nn.Linear(WIDTH, 5), nn.Tanh(), nn.Linear(5, CLASSES))
    data = [(batch["x"], batch["labels"])]

    def exact(operator: type) -> float:
        matrix = operator(inner, nn.CrossEntropyLoss(), list(inner.parameters()), data)
        return float((matrix @ torch.eye(matrix.shape[0])).trace())

    assert traced(inner, [batch], labels="true") == pytest.approx(exact(curvlinops.EFLinearOperator), rel=1e-4)
    assert traced(inner, [batch] * 2000) == pytest.approx(exact(curvlinops.GGNLinearOperator), rel=0.02)
