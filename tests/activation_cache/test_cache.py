"""The activation cache: the same training, whatever it holds, and never a row that other weights made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from gradgate import ActivationCache, Clock, Tuner, map_layers
from gradgate.activation_cache import Horizon, RowCounts
from gradgate.errors import UsageError
from gradgate.methods import MethodState
from gradgate.methods import method as read_method
from gradgate.methods.timeline import Timeline
from support.cached_loop import ROWS, STEPS, assert_close, collate, run, texts
from support.crossed import some_fast
from support.loop import adamw, assert_same_weights, build, fisher_data
from support.tiny_models import TINY, tiny_batch

MODELS = ("bert", "roberta", "xlm-roberta", "deberta-v2", "llama", "llama-classifier", "distilbert", "gpt2-classifier")


@pytest.mark.parametrize("method", ["freeze:layers=1", pytest.param("head", marks=pytest.mark.slow)])
@some_fast("name", MODELS, ["bert", "deberta-v2", "llama-classifier"])
def test_the_cache_gives_the_losses_and_weights_of_none(name: str, method: str, tmp_path: Path) -> None:
    plain, cached = run(name, method), run(name, method, tmp_path)
    assert cached.notes == []
    assert cached.rows == RowCounts(read=2 * ROWS, computed=ROWS)
    assert_close(plain, cached)


@some_fast(
    "method",
    ["lpft:every=9", "gradual:every=9", "order:layers=2/1/0,every=5", "gradfreeze"],
    ["lpft:every=9", "order:layers=2/1/0,every=5"],
)
@some_fast("name", ["bert", "deberta-v2", "llama-classifier"], ["bert"])
def test_layers_may_open_on_the_way(name: str, method: str, tmp_path: Path) -> None:
    plain, cached = run(name, method, epochs=4), run(name, method, tmp_path, epochs=4)
    assert cached.rows.computed > 0
    assert_close(plain, cached)


def test_accumulation_reads_each_part_of_a_batch(tmp_path: Path) -> None:
    plain, cached = run("bert", "head", accumulate=2), run("bert", "head", tmp_path, accumulate=2)
    assert cached.rows == RowCounts(read=2 * ROWS, computed=ROWS)
    assert_close(plain, cached)


@pytest.mark.parametrize("name", ["llama-classifier", "gpt2-classifier"])
def test_padding_in_front(name: str, tmp_path: Path) -> None:
    plain, cached = run(name, "freeze:layers=2", left=True), run(name, "freeze:layers=2", tmp_path, left=True)
    assert cached.notes == []
    assert_close(plain, cached)


class TokensFirst(nn.Module):
    """Layers that take states of shape (tokens, rows, width), as those of torch.nn do by default."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 16)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0) for _ in range(3))
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        states = self.table(input_ids).transpose(0, 1)
        for layer in self.layers:
            states = layer(states)
        logits = self.head(states.mean(0))
        return {"logits": logits} if labels is None else {"loss": nn.functional.cross_entropy(logits, labels)}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_layers_that_take_tokens_first_are_computed_as_usual(tmp_path: Path) -> None:
    def losses(cache: ActivationCache | None) -> list[float]:
        torch.manual_seed(0)
        model, draw, found = TokensFirst(), torch.Generator().manual_seed(1), []
        # One batch has as many tokens as rows, so that its states fit either way.
        batches = [torch.randint(3, 64, (4, tokens), generator=draw) for tokens in (6, 4, 7)] * 2
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Tuner(model, optimizer, "freeze:layers=2", total_steps=6, steps_per_epoch=3, activation_cache=cache):
            for batch in batches:
                loss = model(input_ids=batch, labels=torch.tensor([0, 1, 0, 1]))["loss"]
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                found.append(loss.item())
        return found

    notes: list[str] = []
    assert losses(ActivationCache(folder=tmp_path, note=notes.append)) == losses(None)
    assert len(notes) == 1
    assert "do not take hidden states of shape (rows, tokens, width)" in notes[0]


def test_what_the_cache_held_before_changes_no_bit(tmp_path: Path) -> None:
    empty = run("bert", "freeze:layers=2", tmp_path, seed=1)
    run("bert", "freeze:layers=2", tmp_path / "other", seed=2)
    full = run("bert", "freeze:layers=2", tmp_path / "other", seed=1)
    tight = run("bert", "freeze:layers=2", tmp_path / "tight", seed=1, size=2e-6)
    assert full.rows == RowCounts(read=3 * ROWS)
    assert 0 < tight.rows.read < 2 * ROWS
    assert "limit" in tight.notes[0]
    assert empty.losses == full.losses == tight.losses
    assert_same_weights(empty.model, full.model)
    assert_same_weights(empty.model, tight.model)


def test_methods_share_the_output_of_a_prefix(tmp_path: Path) -> None:
    run("bert", "freeze:layers=2", tmp_path)
    other = run("bert", "gradual:every=1000,order=top-down", tmp_path)
    assert other.rows == RowCounts(read=3 * ROWS)


def test_rows_of_other_weights_are_never_read(tmp_path: Path) -> None:
    def altered() -> Any:
        model = build("bert", dropout=True)
        with torch.no_grad():
            model.bert.encoder.layer[0].output.dense.weight[3, 5] += 1e-3
        return model

    run("bert", "head", tmp_path)
    plain, cached = run(altered, "head"), run(altered, "head", tmp_path)
    assert cached.rows == RowCounts(read=2 * ROWS, computed=ROWS)
    assert_close(plain, cached)


def test_the_head_does_not_matter(tmp_path: Path) -> None:
    def other_head() -> Any:
        model = build("bert", dropout=True)
        nn.init.normal_(model.classifier.weight)
        return model

    run("bert", "head", tmp_path)
    assert run(other_head, "head", tmp_path).rows == RowCounts(read=3 * ROWS)


def test_frozen_weights_that_change_in_training_make_rows_stale(tmp_path: Path) -> None:
    def load(model: Any, tuner: Tuner) -> None:
        if tuner.clock.step == STEPS + 2:
            weights = {name: 1.01 * tensor for name, tensor in model.bert.encoder.layer[0].state_dict().items()}
            model.bert.encoder.layer[0].load_state_dict(weights)

    plain = run("bert", "freeze:layers=2", each_step=load, audit=False)
    cached = run("bert", "freeze:layers=2", tmp_path, each_step=load, audit=False)
    assert cached.rows.computed > ROWS
    assert_close(plain, cached)


def test_passes_without_the_adapter_have_rows_of_their_own(tmp_path: Path) -> None:
    """As in DPO, whose reference is the model without its adapter."""
    model: Any = get_peft_model(build("bert"), LoraConfig(target_modules=["query"], init_lora_weights=False)).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    inputs = tiny_batch(build("bert"))
    with torch.no_grad():
        trained = model(**inputs).logits
        with model.disable_adapter():
            reference = model(**inputs).logits
        assert not torch.equal(trained, reference)
        cache = ActivationCache(folder=tmp_path)
        with Tuner(
            model, adamw(model), "freeze:layers=2", total_steps=9, steps_per_epoch=3, activation_cache=cache
        ) as tuner:
            for _ in range(3):
                assert torch.equal(model(**inputs).logits, trained)
                with model.disable_adapter():
                    assert torch.equal(model(**inputs).logits, reference)
            rows = len(inputs["input_ids"])
            assert tuner.cached_rows == RowCounts(read=4 * rows, computed=2 * rows)


def test_rows_of_autocast_are_not_those_of_float32(tmp_path: Path) -> None:
    model = build("bert").train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    inputs = tiny_batch(model)
    with torch.no_grad():
        expected = model(**inputs).logits
        cache = ActivationCache(folder=tmp_path)
        with Tuner(
            model, adamw(model), "freeze:layers=2", total_steps=9, steps_per_epoch=3, activation_cache=cache
        ) as tuner:
            model(**tiny_batch(model, seed=1))
            with torch.autocast("cpu", torch.bfloat16):
                model(**inputs)
            assert torch.equal(model(**inputs).logits, expected)
            assert tuner.cached_rows == RowCounts(computed=3 * len(inputs["input_ids"]))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A folder with the rows of a training, and the losses of that training."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, run("bert", "freeze:layers=2", folder).losses


@some_fast("damage", ["flip", "cut", "empty", "alien"], ["flip", "alien"])  # test_store.py cuts files as well
def test_a_damaged_file_costs_time_and_nothing_else(
    damage: str, filled: tuple[Path, list[float]], tmp_path: Path
) -> None:
    shutil.copytree(filled[0], tmp_path, dirs_exist_ok=True)
    (path,) = tmp_path.glob("*.rows")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"flip": bytes(content), "cut": content[:-100], "empty": b"", "alien": b"x" * 5000}[damage])
    again = run("bert", "freeze:layers=2", tmp_path)
    assert again.rows.computed > 0
    assert again.losses == filled[1]
    assert run("bert", "freeze:layers=2", tmp_path).rows == RowCounts(read=3 * ROWS)


def test_a_batch_that_is_read_runs_no_closed_layer(tmp_path: Path) -> None:
    ran: list[int] = []

    def watch(model: Any, tuner: Tuner) -> None:
        if tuner.clock.step == STEPS:
            for number, layer in enumerate(model.bert.encoder.layer):
                layer.output.dense.register_forward_hook(lambda *_, number=number: ran.append(number))

    run("bert", "freeze:layers=2", tmp_path, each_step=watch)
    assert set(ran) == {2}


def test_evaluation_and_the_forward_of_each_layer_stay_as_they_are(tmp_path: Path) -> None:
    done: list[bool] = []

    def look(model: Any, tuner: Tuner) -> None:
        if tuner.clock.step == STEPS + 1:
            inputs = tiny_batch(model)
            expected = build("bert")
            expected.load_state_dict(model.state_dict())
            done.append(torch.equal(model.eval()(**inputs).logits, expected.eval()(**inputs).logits))
            done.append(all("forward" not in vars(module) for module in model.modules()))
            model.train()

    run("bert", "freeze:layers=2", tmp_path, each_step=look)
    assert done == [True, True]


def test_bfloat16_takes_half_the_space_and_stays_near(tmp_path: Path) -> None:
    exact = run("bert", "freeze:layers=2", tmp_path / "exact")
    short = run("bert", "freeze:layers=2", tmp_path / "short", dtype="bfloat16")
    sizes = [sum(file.stat().st_size for file in (tmp_path / name).glob("*.rows")) for name in ("exact", "short")]
    assert sizes[0] - 64 - 32 * ROWS == 2 * (sizes[1] - 64 - 32 * ROWS)
    assert short.notes == []
    assert short.losses == pytest.approx(exact.losses, rel=0.02)
    assert short.losses != exact.losses


class LooksBelowForSequenceClassification(nn.Module):
    """A model whose loss depends on the output of a closed layer beside the top one's."""

    def __init__(self) -> None:
        super().__init__()
        self.body = build("bert")
        self.config = self.body.config

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
        seen: list[Tensor] = []
        hook = self.body.bert.encoder.layer[0].register_forward_hook(lambda module, args, out: seen.append(out))
        output = self.body(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
        hook.remove()
        output.loss = None if labels is None else output.loss + seen[0][..., 0].sum()
        return output


def test_a_model_that_looks_below_is_computed_as_usual(tmp_path: Path) -> None:
    plain = run(lambda: LooksBelowForSequenceClassification().train(), "freeze:layers=2")
    cached = run(lambda: LooksBelowForSequenceClassification().train(), "freeze:layers=2", tmp_path)
    assert plain.losses == cached.losses
    assert len(cached.notes) == 1
    assert "depends on more" in cached.notes[0]


def test_a_head_that_reads_padding_is_computed_as_usual(tmp_path: Path) -> None:
    """BERT's pooler reads the first position, which is padding here."""
    plain, cached = run("bert", "head", left=True), run("bert", "head", tmp_path, left=True)
    assert "depends on more" in cached.notes[0]
    assert plain.losses == pytest.approx(cached.losses, rel=1e-6)


def test_question_answering_reads_its_padding(tmp_path: Path) -> None:
    """Its loss is taken over padding, too, so that padded batches cannot come from the cache."""
    model = build("bert-qa", dropout=True)
    notes: list[str] = []
    cache = ActivationCache(folder=tmp_path, note=notes.append)
    rows = texts()[:4]
    inputs = collate(model, rows, torch.zeros(4))
    del inputs["labels"]
    spans = {"start_positions": torch.ones(4, dtype=torch.long), "end_positions": torch.ones(4, dtype=torch.long)}
    with Tuner(model, adamw(model), "head", total_steps=9, steps_per_epoch=1, activation_cache=cache):
        losses = [model(**inputs, **spans).loss.item() for _ in range(2)]
    assert losses[0] == losses[1] == pytest.approx(build("bert-qa")(**inputs, **spans).loss.item(), rel=1e-5)
    assert "depends on more" in notes[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: model.gradient_checkpointing_enable(), "checkpointing"),
        (lambda model: setattr(model.config, "output_hidden_states", True), "output_hidden_states"),
    ],
    ids=["checkpointing", "hidden states"],
)
def test_what_the_cache_does_not_fit_is_said_once(change: Any, reason: str, tmp_path: Path) -> None:
    def changed() -> Any:
        model = build("bert", dropout=True)
        change(model)
        return model

    plain, cached = run(changed, "freeze:layers=2"), run(changed, "freeze:layers=2", tmp_path)
    assert plain.losses == cached.losses
    assert len(cached.notes) == 1
    assert reason in cached.notes[0]


@pytest.mark.parametrize("name", ["albert", "t5", "bart", "vit"])
def test_other_architectures_train_as_without(name: str, tmp_path: Path) -> None:
    losses = []
    for cache in (None, ActivationCache(folder=tmp_path, note=lambda text: None)):
        model = TINY[name]().train()
        torch.manual_seed(0)
        optimizer = adamw(model)
        with Tuner(model, optimizer, "freeze:layers=1", total_steps=9, steps_per_epoch=1, activation_cache=cache):
            for number in range(3):
                loss = model(**tiny_batch(model, seed=number % 2)).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
    assert losses[:3] == pytest.approx(losses[3:], rel=1e-6)


def depths(method: str, steps: int, epoch: int | None, passes: float) -> list[int]:
    """How many layers of tiny BERT are kept in each step."""
    layers = map_layers(build("bert"))
    horizon = Horizon(read_method(method), layers, Clock(0, epoch, steps), 0, passes)
    timeline, found = Timeline(), []
    for step in range(steps):
        timeline.record(step, read_method(method).plan(Clock(step, epoch, steps), layers, MethodState()))
        found.append(horizon.layers_to_keep(step, timeline))
    return found


def test_the_deepest_prefix_that_lasts_is_kept() -> None:
    assert depths("freeze:layers=2", 4, 2, 2.0) == [2, 2, 2, 2]
    assert depths("freeze:layers=2", 3, 2, 2.0) == [0, 0, 0]
    assert depths("full", 4, 2, 1.0) == [0, 0, 0, 0]
    assert depths("freeze:layers=0", 4, 2, 1.0) == [0, 0, 0, 0]
    assert depths("freeze:layers=2", 4, None, 1.0) == [0, 0, 0, 0]
    assert depths("lpft:every=5", 6, 2, 2.0) == [3] * 5 + [0]
    assert depths("lpft:every=3", 6, 2, 2.0) == [0] * 6
    assert depths("gradfreeze", 9, 3, 1.0) == [2, 2, 2, 1, 1, 1, 0, 0, 0]
    assert depths("gradfreeze", 9, 3, 2.0) == [1, 1, 1, 1, 1, 1, 0, 0, 0]


def test_where_measuring_decides_a_prefix_counts_after_a_pass(tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    optimizer = adamw(model)
    cache = ActivationCache(folder=tmp_path)
    with Tuner(
        model,
        optimizer,
        "fun:every=1000,batches=1",
        total_steps=8,
        steps_per_epoch=2,
        fisher_data=fisher_data(model),
        activation_cache=cache,
    ) as tuner:
        closed = [name for name in tuner.layers.names if tuner.plan[name].closed]
        counts = []
        for number in range(6):
            model(**tiny_batch(model, seed=number % 2)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            counts.append(tuner.cached_rows.computed + tuner.cached_rows.read)
    assert counts[1] == 0
    assert (counts[-1] > 0) == (closed[:2] == ["embeddings", "layers.0"])


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="size=0"):
        ActivationCache(folder=Path("x"), size=0)
    for number in (float("inf"), float("nan")):
        with pytest.raises(UsageError, match=f"size={number}.*a finite size above 0"):
            ActivationCache(folder=Path("x"), size=number)
        with pytest.raises(UsageError, match=f"passes={number}: .*a finite number of passes"):
            ActivationCache(folder=Path("x"), passes=number)
    with pytest.raises(UsageError, match="size='many'"):
        ActivationCache(folder=Path("x"), size="many")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="float8"):
        ActivationCache(folder=Path("x"), dtype="float8")  # type: ignore[arg-type]


def test_what_is_measured_in_training_mode_is_not_read_from_the_cache(tmp_path: Path) -> None:
    method = "fun:every=6,batches=2,fisher_labels=true,fisher_eval_mode=false"

    def order(folder: Path | None) -> Any:
        torch.manual_seed(0)
        model = build("bert", dropout=True)
        optimizer = adamw(model)
        data = [tiny_batch(model, seed=seed) for seed in (0, 1)]
        cache = None if folder is None else ActivationCache(folder=folder)
        with Tuner(
            model, optimizer, method, total_steps=12, steps_per_epoch=2, fisher_data=lambda step: data,
            activation_cache=cache,
        ) as tuner:  # fmt: skip
            for number in range(8):
                model(**data[number % 2]).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            assert folder is None or tuner.cached_rows.read > 0
            return tuner.memory.notes["order"]

    assert order(tmp_path) == order(None)
