"""Measure how fast texts are generated and rows predicted, as runs and commands do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.figures import NONE_DIFFERS, Figure
from benchmarks.gpu.models import decoder, save
from benchmarks.gpu.timing import medians, seconds
from gradgate import sample
from gradgate.evaluation.predict import predict
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import read_predictions
from gradgate.training.generation.decoding import Greedy

_ROWS = 8192


def cases(bench: Bench) -> list[Case]:
    """Return generation, then prediction."""
    return [Case("generation", _generated), Case("prediction", _predicted)]


def _generated(bench: Bench) -> Iterator[Figure]:
    model = decoder(bench, "1 B").eval()
    model.config.use_cache = model.generation_config.use_cache = True
    tokenizer: Any = AutoTokenizer.from_pretrained(sample.DECODER)
    rows, tokens, new = (2, 8, 4) if bench.dry else (32, 128, 128)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, min(len(tokenizer), model.config.vocab_size), (rows, tokens), generator=draw)
    greedy = Greedy(batch_size=rows, max_new_tokens=new, precision="fp32")
    on_device, counts = ids.to(bench.device), list[int]()

    def plain() -> None:
        with torch.no_grad():
            mask = torch.ones_like(on_device)
            model.generate(input_ids=on_device, attention_mask=mask, do_sample=False, max_new_tokens=new)

    def ours() -> None:
        counts.append(sum(map(len, greedy.tokens(model, tokenizer, ids.tolist()))))

    times = medians(bench, {"generate": plain, "gradgate": ours}, 1 if bench.dry else 2)
    yield Figure("generation with a decoder of 1 B", counts[-1] / times["gradgate"], "tokens/s", note=f"{rows} prompts")
    yield Figure("time of generation over that of model.generate", times["gradgate"] / times["generate"], "x")


def _predicted(bench: Bench) -> Iterator[Figure]:
    """Train an encoder of the size of BERT-base for two steps, and predict rows with it."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        _write_encoder(bench, place / "model")
        run = gg.train(
            str(place / "model"),
            "sample",
            steps=2,
            batch_size=64,
            eval_every=2,
            languages="en",
            train_size=128,
            max_length=64,
            device=bench.device.type,  # type: ignore[arg-type]
            out=place / "run",
            quiet=True,
        )
        test = sample.TASKS["sample"] / "test.en.jsonl"
        lines = test.read_text(encoding="utf-8").splitlines()
        many = place / "rows.jsonl"
        count = len(lines) if bench.dry else _ROWS
        many.write_text("\n".join(lines[number % len(lines)] for number in range(count)) + "\n", encoding="utf-8")
        time = seconds(bench, partial(predict, [run.path], many))
        yield Figure("predict with an encoder of 110 M", count / time, "rows/s", note=f"{count:,}, with loading")
        own = read_predictions(RunFolder(run.path), "test.en")
        found = predict([run.path], test).records()
        differ = sum(one["predicted"] != other["predicted"] for one, other in zip(own, found, strict=True))
        yield Figure("predictions that differ from those of the run's own scores", differ, "rows", NONE_DIFFERS)


def _write_encoder(bench: Bench, folder: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(sample.MODEL)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    with bench.device:
        model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), **(sizes if bench.dry else {})))
    save(model, folder)
    tokenizer.save_pretrained(folder)
