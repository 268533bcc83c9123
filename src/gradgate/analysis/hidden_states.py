"""Measure how far training has moved the representations of tokens: after He et al. 2021, Fig. 2, 7 and 8."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from gradgate.analysis.finished import LoadedRun, Loader
from gradgate.analysis.folder import AnalysisFolder
from gradgate.analysis.representations import RepresentationRow
from gradgate.analysis.runs import AnalyzedRuns, check_same_dev
from gradgate.analysis.similarity import linear_cka, rsa
from gradgate.distributed import launch
from gradgate.errors import RunError, counted
from gradgate.runs.progress import RunProgress, about
from gradgate.runs.records import DEV
from gradgate.settings.analysis import RepresentationSettings
from gradgate.study.run_result import RunResult
from gradgate.torch_state import cpu_threads
from gradgate.training.pretrained import silence_libraries

LEFT_OUT = ("pad", "cls", "sep", "bos", "eos")
"""Tokens that are not compared, as tokenizers name them."""
_LABELS = ("labels", "start_positions", "end_positions")
_OF_ENCODER = ("input_ids", "attention_mask")
States = list[NDArray[np.float32]]
"""Of each layer from the embeddings up, shape ``(tokens, width)``."""


@dataclass(frozen=True)
class TokenSample:
    """Tokens of some features: which rows they are in, and the how many-th content token of its row each is."""

    features: Dataset
    places: tuple[NDArray[np.int64], ...]
    special: Tensor

    @property
    def count(self) -> int:
        """The number of positions that are compared."""
        return sum(len(place) for place in self.places)


def measure(
    runs: Sequence[RunResult],
    folder: AnalysisFolder[RepresentationRow],
    asked: RepresentationSettings,
    progress: RunProgress,
) -> list[RepresentationRow]:
    """Compare every layer of each run with the pretrained model; what the folder holds is not measured again.

    Args:
        runs: of one pretrained model and task.
        folder: keeps the rows.

    Raises:
        FolderLockedError: while another process measures there.
        UsageError: for runs of different models or tasks, or a split that does not exist.
        RunError: for a damaged run, data that have changed, or a model that shows no hidden states.
        DataError: for data that cannot be read.
    """
    launch.refuse("gradgate analyze")
    silence_libraries()
    with folder.locked(), cpu_threads(asked.threads):
        return _measure(runs, folder, asked, Loader(asked), progress)


def _measure(
    runs: Sequence[RunResult],
    folder: AnalysisFolder[RepresentationRow],
    asked: RepresentationSettings,
    loader: Loader,
    progress: RunProgress,
) -> list[RepresentationRow]:
    folder.claim({"tokens": asked.tokens, "seed": asked.seed, "left_out": list(LEFT_OUT)})
    if DEV in asked.splits:
        check_same_dev(runs)
    analyzed, existing = AnalyzedRuns(runs), folder.read()
    complete = {(row.arm, row.seed, row.run, row.split) for row in existing if row.layer == row.layers}
    kept = folder.keep(lambda row: (row.arm, row.seed, row.run, row.split) in complete and not analyzed.supersede(row))
    rows = [row for row in kept if analyzed.have(row)]
    missing = [
        (run, splits)
        for run in runs
        if (splits := [s for s in asked.splits if (run.arm.name, run.seed, run.mark, s) not in complete])
    ]
    if not missing:
        progress.note("Every layer is measured already.")
    for found in _measured(missing, asked, loader, progress):
        folder.append(found)
        rows += found
    return rows


def _measured(
    missing: Sequence[tuple[RunResult, list[str]]],
    asked: RepresentationSettings,
    loader: Loader,
    progress: RunProgress,
) -> Iterator[list[RepresentationRow]]:
    """Yield the rows of each run and split."""
    first: LoadedRun | None = None
    before: dict[str, tuple[TokenSample, States]] = {}
    splits = list(dict.fromkeys(split for _, wanted in missing for split in wanted))
    for number, (run, wanted) in enumerate(missing):
        measured = loader.load(run.files.path)
        if first is None:
            first = measured
            samples = {split: sample_tokens(first, split, asked) for split in splits}
            began = time.monotonic()
            model = first.pretrained()
            before = {split: (s, hidden_states(first, model, s)) for split, s in samples.items()}
            del model
            tokens = sum(sample.count for sample in samples.values())
            progress.note(
                f"{counted(len(missing), 'run')}, {tokens} tokens of {', '.join(splits)}: "
                f"{about((time.monotonic() - began) * len(missing))}."
            )
            progress.begin(len(missing), 0)
        for split in wanted:
            sample, states = before[split]
            yield _compared(run, split, states, hidden_states(measured, measured.found.model, sample))
        progress.advance(number + 1, None)


def _compared(run: RunResult, split: str, before: States, after: States) -> list[RepresentationRow]:
    if len(before) != len(after):
        raise RunError(
            f"The run in {run.folder} has {len(after) - 1} layers and the pretrained model {len(before) - 1}; "
            f"expected the same number. Analyze it alone, with the model that it was trained from."
        )
    return [
        RepresentationRow(
            arm=run.arm.name,
            seed=run.seed,
            run=run.mark,
            split=split,
            tokens=len(old),
            layer=layer,
            layers=len(before) - 1,
            rsa=rsa(old, new),
            cka=linear_cka(old, new),
        )
        for layer, (old, new) in enumerate(zip(before, after, strict=True))
    ]


def sample_tokens(measured: LoadedRun, split: str, asked: RepresentationSettings) -> TokenSample:
    """Draw tokens of a split, each with the same chance.

    Padding and the tokens around a text are left out: ``[PAD]``, ``[CLS]`` and ``[SEP]`` of BERT, ``<pad>``, ``<s>``
    and ``</s>`` of XLM-R. Words that the tokenizer does not know, and masks, are tokens like any other.

    Raises:
        RunError: if the split has fewer than three.

    Source:
        He et al. 2021, section 2.2, https://arxiv.org/abs/2106.03164
    """
    features = measured.features(measured.rows(split))
    tokenizer = measured.found.tokenizer
    ids = {getattr(tokenizer, f"{name}_token_id", None) for name in LEFT_OUT}
    special = torch.tensor(sorted(number for number in ids if number is not None), dtype=torch.int64)
    counts = np.array([int(_content(_flat(row), special).sum()) for row in _padded_apart(features)])
    total = int(counts.sum())
    if total < 3:
        raise RunError(f"{split} has {total} tokens besides special ones; expected 3 or more. Pass another split=.")
    drawn = np.sort(np.random.default_rng(asked.seed).permutation(total)[: asked.tokens])
    row_of = np.repeat(np.arange(len(counts)), counts)[drawn]
    place_of = drawn - (np.cumsum(counts) - counts)[row_of]
    rows = np.unique(row_of)
    return TokenSample(features.select(rows), tuple(place_of[row_of == row] for row in rows), special)


def _padded_apart(features: Dataset) -> Iterator[dict[str, Any]]:
    names = [name for name in ("input_ids", "attention_mask") if name in features.column_names]
    yield from features.select_columns(names)


def _flat(row: dict[str, Any]) -> dict[str, Tensor]:
    """Return one row of features with the choices of a multiple-choice question in one sequence."""
    nested = row["input_ids"] and isinstance(row["input_ids"][0], list)
    return {
        name: torch.tensor([item for choice in values for item in choice] if nested else values)
        for name, values in row.items()
    }


def _content(batch: dict[str, Tensor], special: Tensor) -> Tensor:
    """Return which tokens are neither padding nor ``special``, in the shape of ``input_ids``."""
    ids = batch["input_ids"]
    content = ~torch.isin(ids, special.to(ids.device))
    return content & batch["attention_mask"].bool() if "attention_mask" in batch else content


def hidden_states(measured: LoadedRun, model: Any, sample: TokenSample) -> States:
    """Return each layer's output for the sampled tokens; of a model with encoder and decoder, the encoder's.

    The last layer of decoders is taken behind the final norm, as transformers has it.

    Raises:
        RunError: if the model shows no hidden states, or these are not one for each token.
    """
    trainer = measured.trainer(model)
    found: list[list[NDArray[np.float32]]] = []
    places = iter(sample.places)
    with torch.no_grad():
        for batch in trainer.get_test_dataloader(sample.features):
            batch = trainer._prepare_inputs(batch)
            states = _states(model, {name: value for name, value in batch.items() if name not in _LABELS})
            content = _content(batch, sample.special)
            rows = len(content)
            found = found or [[] for _ in states]
            chosen = [(content[row].flatten().nonzero()[:, 0].cpu().numpy(), next(places)) for row in range(rows)]
            for layer, state in enumerate(states):
                if state.shape[:-1].numel() != content.numel():
                    raise RunError(
                        f"{type(model).__name__} returns {tuple(state.shape)} at layer {layer} for {content.numel()} "
                        f"tokens; expected one vector per token."
                    )
                by_row = state.reshape(rows, -1, state.shape[-1])
                found[layer] += [
                    by_row[row, torch.as_tensor(at[place])].float().cpu().numpy()
                    for row, (at, place) in enumerate(chosen)
                ]
    return [np.concatenate(layer) for layer in found]


def _states(model: Any, inputs: dict[str, Any]) -> tuple[Tensor, ...]:
    if getattr(model.config, "is_encoder_decoder", False):  # a decoder's inputs are made of the labels
        model = model.get_encoder()
        inputs = {name: inputs[name] for name in _OF_ENCODER if name in inputs}
    output = model(**inputs, output_hidden_states=True, return_dict=True)
    states = getattr(output, "hidden_states", None) or getattr(output, "encoder_hidden_states", None)
    if not states:
        raise RunError(
            f"{type(model).__name__} returns no hidden states; expected those of each layer. Only models that "
            f"support output_hidden_states can be compared."
        )
    return tuple(states)
