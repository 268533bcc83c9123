"""Task-adaptive pre-training: the adapter first learns to fill in masked words of the task's own training texts.

AdapterEff (He et al. 2021), Sec. 3.1: https://arxiv.org/abs/2106.03164; Gururangan et al. 2020:
https://arxiv.org/abs/2004.10964. Labels, dev and test texts are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

from gradgate.adapters.attach import check_name
from gradgate.errors import AdapterError, RunError, UsageError
from gradgate.files import read_json, write_json
from gradgate.training.adapter_kinds import NAME, BottleneckKind
from gradgate.training.checkpoints import writing_to
from gradgate.training.config import RunConfig
from gradgate.training.interrupt import stoppable
from gradgate.training.masked_lm import Row, Stage, train_masked
from gradgate.training.pretrain_config import PretrainConfig
from gradgate.training.progress import RunProgress, Silent
from gradgate.training.run_folder import RunFolder

PROBABILITY = 0.15
_PER_TOKEN = ("input_ids", "token_type_ids")


@dataclass(frozen=True)
class _Settings:
    """The run that an adapter is trained for: its method does not matter."""

    config: RunConfig

    def record(self) -> dict[str, Any]:
        return {name: value for name, value in self.config.record().items() if name != "method"}


def adapt(config: RunConfig, tokenizer: Any, features: Any, folder: Path, progress: RunProgress, stop: Event) -> None:
    """Train the run's adapter on the texts of its training split; what is done already is not done again.

    The adapter is then in ``folder/task``, from where its kind restores it.

    Args:
        config: of the run; learning rate, batch size, schedule and seed hold here too.
        features: the encoded training split; its token ids are read, cut to the run's ``max_length``.
    """
    choice = config.adapter
    assert choice is not None, "TAPT trains an adapter"
    length = config.model_copy(update={**(config.tapt or {}), "lr": config.peak_lr, "adapter": None})
    stage = Stage(length, _Settings(config), choice.kind, PROBABILITY, list(_rows(features)))
    progress.note("First the adapter learns from the task's texts (TAPT).")
    train_masked(stage, tokenizer, RunFolder(folder), folder / NAME, progress, stop)


def _rows(features: Any) -> Iterator[Row]:
    """The token ids of each text; of multiple choice, of each text with each choice."""
    names = [name for name in _PER_TOKEN if name in features.column_names]
    for row in features.select_columns(names):
        if row["input_ids"] and isinstance(row["input_ids"][0], list):
            yield from ({name: row[name][choice] for name in names} for choice in range(len(row["input_ids"])))
        else:
            yield row


_OF_RUN = (
    "model", "max_length", "steps", "epochs", "batch_size", "accumulate", "lr", "schedule", "warmup", "weight_decay",
    "clip", "dropout", "seed", "save_every", "device", "precision", "audit", "trust_remote_code",
)  # fmt: skip


def pretrain_adapter(config: PretrainConfig, out: Path, progress: RunProgress | None = None) -> dict[str, Any]:
    """Train a language adapter on a frozen model, or go on where the folder holds a checkpoint.

    The folder is then one that :func:`gradgate.adapters.load` takes, with ``run.json`` (what was done on what) and
    ``scores.json`` (loss and perplexity on the held-out texts before and after). The head for masked words is not
    kept: a language adapter runs under a task's adapter and head.

    Raises:
        GradgateError: for anything that a user can mend.
        FolderLockedError: if another process trains in the folder.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped it after saving.
    """
    from gradgate.distributed import launch
    from gradgate.training.pretrained import silence_libraries
    from gradgate.training.trainer import on_cpu

    _check_name(config.name)
    progress = progress if progress and launch.is_first() else Silent()
    run = RunConfig(**{name: getattr(config, name) for name in _OF_RUN})
    launch.join(on_cpu(run))
    silence_libraries()
    folder = RunFolder(Path(out))
    with ExitStack() as held:
        if launch.on_first(lambda: folder.claim_alone(config, held)):
            progress.note(f"{folder.path} is finished; nothing to do.")
            return launch.on_first(lambda: read_json(folder.scores_file))
        return _pretrain(config, run, folder, progress)


def _pretrain(config: PretrainConfig, run: RunConfig, folder: RunFolder, progress: RunProgress) -> dict[str, Any]:
    from gradgate.distributed import launch
    from gradgate.tasks.readers.texts import read_texts
    from gradgate.training.masked_lm import Stage, hold_out, packed, train_masked
    from gradgate.training.pretrained import load_tokenizer
    from gradgate.training.records import versions

    texts = read_texts(config.language_data, config.text, config.subset)
    tokenizer = load_tokenizer(run)
    train, dev = (packed(part, tokenizer, config.max_length) for part in hold_out(texts, config.held_out, config.seed))
    data = {"texts": len(texts), "blocks": len(train), "held_out_blocks": len(dev), "fingerprint": _digest(texts)}
    launch.on_first(lambda: _note(folder, config, data, versions()))
    with writing_to(folder.path), stoppable(progress.note) as stop:
        kind = BottleneckKind.read(config.kind, config.name)
        stage = Stage(run, config, kind, config.mlm_probability, train, dev)
        return train_masked(stage, tokenizer, folder, folder.path, progress, stop)


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except AdapterError as error:
        raise UsageError(str(error)) from None


def _note(folder: RunFolder, config: PretrainConfig, data: dict[str, Any], versions: dict[str, str]) -> None:
    begun = read_json(folder.run_file).get("data")
    if begun is not None and begun["fingerprint"] != data["fingerprint"] and folder.history_file.is_file():
        raise RunError(
            f"{folder.path} was begun on other texts: {config.language_data} has changed since. Give another --out, or "
            f"put the texts back to go on."
        )
    write_json(folder.run_file, {"config": config.record(), "data": data, "versions": versions})


def _digest(texts: list[str]) -> str:
    state = sha256()
    for text in texts:
        state.update(text.encode() + b"\n")
    return state.hexdigest()
