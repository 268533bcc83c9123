"""Tiny modules of several networks: teachers, momentum encoders, encoders side by side, lists of heads."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTModel,
)

from support.placing import Block

WIDTH = 16


def bert(layers: int = 2, kind: Any = BertModel) -> Any:
    sizes = {"hidden_size": WIDTH, "intermediate_size": 32, "num_attention_heads": 2, "num_labels": 3}
    torch.manual_seed(0)
    return kind(BertConfig(vocab_size=96, num_hidden_layers=layers, max_position_embeddings=40, **sizes))


def classifier(layers: int) -> Any:
    return bert(layers, BertForSequenceClassification)


def vit() -> Any:
    sizes = {"hidden_size": WIDTH, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    return ViTModel(ViTConfig(image_size=8, patch_size=4, **sizes))


def t5() -> Any:
    sizes = {"vocab_size": 96, "d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(decoder_start_token_id=0, **sizes))


class Distilled(nn.Module):
    """A student, and a frozen teacher that is larger and runs first."""

    def __init__(self, first: str = "teacher") -> None:
        super().__init__()
        networks = {"student": classifier(2), "teacher": classifier(4).requires_grad_(False)}
        for name in sorted(networks, key=lambda name: name != first):
            self.add_module(name, networks[name])

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            wanted = self.teacher(input_ids, attention_mask).logits
        return (self.student(input_ids, attention_mask).logits - wanted).square().mean()


class Unmarked(Distilled):
    """The teacher's parameters require gradients, which it never gets."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher.requires_grad_(True)


class DistilledInBatches(Distilled):
    def forward(self, batch: Any, number: int) -> Tensor:
        return super().forward(**batch)


class DistilledT5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = t5(), t5().requires_grad_(False)

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        given = {"input_ids": input_ids, "decoder_input_ids": decoder_input_ids}
        return self.student(**given).logits - self.teacher(**given).logits


class TaughtConvolutions(nn.Module):
    """A student of another architecture than its teacher."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = bert().requires_grad_(False)
        self.table = nn.Embedding(96, WIDTH)
        self.convolutions = nn.ModuleList(
            nn.Sequential(nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.ReLU()) for _ in range(3)
        )
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids).transpose(1, 2)
        for convolution in self.convolutions:
            x = convolution(x)
        return self.out(x.mean(-1)) - self.teacher(input_ids).pooler_output


class Momentum(nn.Module):
    """MoCo: the keys' encoder follows that of the queries by its average, and runs between two of its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder_q = bert()
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        first, keys = self.encoder_q(input_ids).pooler_output, self.encoder_k(input_ids).pooler_output
        second, other_keys = self.encoder_q(input_ids + 0).pooler_output, self.encoder_k(input_ids + 0).pooler_output
        return (first * other_keys + second * keys).mean()

    @torch.no_grad()
    def follow(self) -> None:
        for slow, fast in zip(self.encoder_k.parameters(), self.encoder_q.parameters(), strict=True):
            slow.lerp_(fast, 0.1)


class Retriever(nn.Module):
    """DPR: an encoder for queries, another for passages, each with a dictionary of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.query_encoder, self.passage_encoder = bert(2), bert(3)

    def forward(self, query: dict[str, Tensor], passage: dict[str, Tensor]) -> Tensor:
        scores: Tensor = self.query_encoder(**query).pooler_output @ self.passage_encoder(**passage).pooler_output.T
        return scores * self.scale


class SharedTable(Retriever):
    """One module of embeddings in both encoders."""

    def __init__(self) -> None:
        super().__init__()
        self.passage_encoder.embeddings = self.query_encoder.embeddings


class OneRoute(nn.Module):
    """Runs one of two networks, as a router does."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = bert(2), bert(3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, route: str = "short") -> Tensor:
        pooled: Tensor = self.get_submodule(route)(input_ids).pooler_output
        return pooled


class Generator(nn.Module):
    """ELECTRA: what one network draws, another reads; no gradient passes between them."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = bert(2), bert(3)

    def forward(self, input_ids: Tensor) -> Tensor:
        hidden: Tensor = self.discriminator(self.generator(input_ids).last_hidden_state.argmax(-1)).pooler_output
        return hidden


class ImageAndText(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image_encoder, self.text_encoder = vit(), bert(3)
        self.of_image, self.of_text = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 8)

    def forward(self, pixel_values: Tensor, input_ids: Tensor) -> Tensor:
        images: Tensor = self.of_image(self.image_encoder(pixel_values).pooler_output)
        return images @ self.of_text(self.text_encoder(input_ids).pooler_output).T


class FrozenImage(ImageAndText):
    def __init__(self) -> None:
        super().__init__()
        self.image_encoder.requires_grad_(False)


class Members(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(bert(2) for _ in range(2))

    def forward(self, input_ids: Tensor) -> Any:
        return [member(input_ids).pooler_output for member in self.members]


class Siamese(nn.Module):
    """One encoder under two names, run on two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left = bert(3)
        self.right = self.left
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, input_ids: Tensor) -> Tensor:
        difference: Tensor = self.left(input_ids).pooler_output - self.right(input_ids + 0).pooler_output
        return self.out(difference)


class Headed(nn.Module):
    """Heads of two matrices each, larger than the layers; all or one of them run."""

    def __init__(self, ran: int = 4) -> None:
        super().__init__()
        self.encoder, self.ran = bert(2), ran
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 512), nn.Linear(512, 2)) for _ in range(4))

    def forward(self, input_ids: Tensor) -> Any:
        pooled = self.encoder(input_ids).pooler_output
        return [head(pooled) for head in self.heads[: self.ran]]


class Plain(nn.Module):
    """Two networks of no library, of which nothing says what their forward takes."""

    def __init__(self, left: int = 3, right: int = 2) -> None:
        super().__init__()
        self.left, self.right = nn.Module(), nn.Module()
        self.left.blocks = nn.ModuleList(Block() for _ in range(left))
        self.right.blocks = nn.ModuleList(Block() for _ in range(right))

    def forward(self, first: Any, second: Any) -> None:
        raise NotImplementedError


# Name: the module, its towers with their numbers of layers, the paths that are left out, and whether they are networks
# side by side.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], dict[str, int], list[str], bool]] = {
    "teacher first": (Distilled, {"student": 2}, ["teacher"], False),
    "student first": (lambda: Distilled("student"), {"student": 2}, ["teacher"], False),
    "teacher, forward unknown": (DistilledInBatches, {"student": 2}, ["teacher"], False),
    "teacher of two towers": (DistilledT5, {"encoder": 2, "decoder": 2}, ["teacher"], False),
    "teacher of convolutions": (TaughtConvolutions, {"convolutions": 3}, ["teacher"], False),
    "momentum encoder": (Momentum, {"encoder_q": 2}, ["encoder_k"], False),
    "query and passage": (Retriever, {"query_encoder": 2, "passage_encoder": 3}, [], True),
    "shared table": (SharedTable, {"query_encoder": 2, "passage_encoder": 3}, [], True),
    "one route": (OneRoute, {"short": 2, "long": 3}, [], True),
    "generator": (Generator, {"generator": 2, "discriminator": 3}, [], True),
    "image and text": (ImageAndText, {"vision": 2, "text": 3}, [], True),
    "frozen image": (FrozenImage, {"text": 3}, ["image_encoder"], False),
    "list of networks": (Members, {"members.0": 2, "members.1": 2}, [], True),
}
