"""Pretrain the adapter, or the full model, on masked words of the training texts (task-adaptive pretraining).

AdapterEff (He et al. 2021), Sec. 3.1: https://arxiv.org/abs/2106.03164; Gururangan et al. 2020:
https://arxiv.org/abs/2004.10964. Labels, dev and test texts are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

from torch import Tensor

from gradgate.adapters.attach import check_name
from gradgate.adapters.kinds import NAME, AdapterKind, BottleneckKind
from gradgate.distributed import launch
from gradgate.distributed.environment import check_environment
from gradgate.errors import AdapterError, RunError, UsageError
from gradgate.files import read_json, write_json
from gradgate.layers import named_parameters
from gradgate.runs.checkpoints import writing_to
from gradgate.runs.folder import RunFolder
from gradgate.runs.interrupt import stoppable
from gradgate.runs.progress import RunProgress, Silent
from gradgate.settings.pretraining import PretrainConfig
from gradgate.settings.run import RunConfig
from gradgate.torch_state import cpu_threads
from gradgate.training.masked.masked_lm import MaskedTraining, Row, train_masked
from gradgate.training.weight_history import put_weights, write_weights

PROBABILITY = 0.15
_Learner = tuple[Callable[[Any, frozenset[str]], None], Callable[[Any], None]]
"""``prepare`` and ``save`` of a :class:`MaskedTraining`."""
_PER_TOKEN = ("input_ids", "token_type_ids")


@dataclass(frozen=True)
class _Settings:
    """The settings of the run that starts from the pretrained weights, without its method."""

    config: RunConfig

    def record(self) -> dict[str, Any]:
        return {name: value for name, value in self.config.record().items() if name != "method"}


def adapt(config: RunConfig, tokenizer: Any, features: Any, folder: Path, progress: RunProgress, stop: Event) -> None:
    """Train the run's adapter, or its model, on the texts of its training split; do nothing if that is finished.

    :func:`begin_with` then puts the weights into the model of the task.

    Args:
        config: of the run; its learning rate, batch size, schedule and seed apply here too.
        features: the encoded training split; its token ids are read, cut to the run's ``max_length``.
        folder: of the pretraining.

    Raises:
        RunError: for a model that cannot fill in masked words, or has no separate encoder.
    """
    length = config.model_copy(update={**(config.tapt or {}), "lr": config.peak_lr, "adapter": None})
    out = RunFolder(folder)
    prepare, save = _of_model(config, out) if config.adapter is None else _of_adapter(config.adapter.kind, config, out)
    what = "model" if config.adapter is None else "adapter"
    progress.note(f"First the {what} learns from the task's texts (TAPT).")
    stage = MaskedTraining(length, _Settings(config), prepare, save, PROBABILITY, list(_rows(features)))
    train_masked(stage, tokenizer, out, progress, stop)


def begin_with(model: Any, config: RunConfig, folder: Path) -> None:
    """Put the weights that :func:`adapt` has trained into the model of the task; its head stays unchanged.

    A pooler that the model for masked words lacks keeps its pretrained weights.

    Raises:
        GradgateError: if the files are absent, damaged or of another model.
    """
    if config.adapter is not None:
        config.adapter.kind.restore(model, folder / NAME)
    else:
        put_weights(model, RunFolder(folder).encoder)


def encoder_of(model: Any) -> dict[str, Tensor]:
    """Return the parameters of a model without its head, by their full names; each distinct tensor once."""
    return {f"{model.base_model_prefix}.{name}": tensor for name, tensor in named_parameters(model.base_model).items()}


def _of_adapter(kind: AdapterKind, config: RunConfig, folder: RunFolder) -> _Learner:
    return (
        lambda model, fresh: kind.put(model, fresh, config.seed),
        lambda model: kind.save(model, folder.path / NAME, head=False),
    )


def _of_model(config: RunConfig, folder: RunFolder) -> _Learner:
    if launch.on_first(lambda: folder.finished and not folder.encoder.is_file()):  # removed by keep_model=False
        launch.on_first(folder.scores_file.unlink)

    def check(model: Any, fresh: frozenset[str]) -> None:
        if model.base_model is model or model.config.is_encoder_decoder:
            raise RunError(
                f"{config.model!r} is a {model.config.model_type} model, which has no separate encoder, so it cannot "
                f"be pretrained on masked words. Expected an encoder under a head: BERT, RoBERTa, XLM-R or "
                f"similar. Pass one of these as model=, or leave out tapt_steps= and tapt_epochs=."
            )

    def save(model: Any) -> None:
        write_weights(folder.encoder, {name: each.detach().contiguous() for name, each in encoder_of(model).items()})

    return check, save


def _rows(features: Any) -> Iterator[Row]:
    """Yield the token ids of each text; for multiple choice, of each text with each choice."""
    names = [name for name in _PER_TOKEN if name in features.column_names]
    for row in features.select_columns(names):
        if row["input_ids"] and isinstance(row["input_ids"][0], list):
            yield from ({name: row[name][choice] for name in names} for choice in range(len(row["input_ids"])))
        else:
            yield row


_OF_RUN = (
    "model", "max_length", "steps", "epochs", "batch_size", "accumulate", "lr", "schedule", "warmup", "weight_decay",
    "clip", "dropout", "seed", "save_every", "device", "threads", "precision", "audit", "trust_remote_code",
)  # fmt: skip


_OWN_HEAD = (
    "{model} has no pretrained head for masked words, so a fresh one learns with this adapter. Language adapters that "
    "are trained this way have different heads, and a task adapter that was trained on one may fail on another."
)


def pretrain_adapter(config: PretrainConfig, out: Path, progress: RunProgress | None = None) -> dict[str, Any]:
    """Train a language adapter on a frozen model, or resume from the folder's checkpoint.

    :func:`gradgate.adapters.load` reads the folder, which also has ``run.json`` (settings, data, versions) and
    ``scores.json`` (loss and perplexity on the held-out texts before and after). The head for masked words is not
    stored, and stays frozen if it is pretrained: a language adapter runs under a task's adapter and head.

    Raises:
        GradgateError: for any fault that a user can fix.
        FolderLockedError: if another process trains in the folder.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped it after saving.
    """
    from gradgate.training.arguments import on_cpu
    from gradgate.training.pretrained import silence_libraries

    _check_name(config.name)
    progress = progress if progress and launch.is_first() else Silent()
    run = RunConfig(**{name: getattr(config, name) for name in _OF_RUN})
    check_environment(run.precision, run.accumulate)
    launch.join(on_cpu(run))
    silence_libraries()
    folder = RunFolder(Path(out))
    with ExitStack() as locks:
        if launch.on_first(lambda: folder.claim_alone(config, launch.count(), locks)):
            progress.note(f"{folder.path} is finished; nothing to do.")
            return launch.on_first(lambda: read_json(folder.scores_file))
        return _pretrain(config, run, folder, progress)


def _pretrain(config: PretrainConfig, run: RunConfig, folder: RunFolder, progress: RunProgress) -> dict[str, Any]:
    from gradgate.runs.records import versions
    from gradgate.tasks.readers.texts import read_texts
    from gradgate.training.masked.masked_lm import MaskedTraining, hold_out, packed, train_masked
    from gradgate.training.pretrained import load_tokenizer

    texts = read_texts(config.language_data, config.text, config.subset)
    tokenizer = load_tokenizer(run)
    train, dev = (packed(part, tokenizer, config.max_length) for part in hold_out(texts, config.held_out, config.seed))
    data = {"texts": len(texts), "blocks": len(train), "held_out_blocks": len(dev), "fingerprint": _digest(texts)}
    launch.on_first(lambda: _note(folder, config, data, versions()))
    with writing_to(folder.path), stoppable(progress.note) as stop, cpu_threads(config.threads):
        kind = BottleneckKind.read(config.kind, config.name)

        def prepare(model: Any, fresh: frozenset[str]) -> None:
            if fresh:
                progress.note(_OWN_HEAD.format(model=config.model))
            kind.put(model, fresh, config.seed)
            _close_pretrained_head(model, fresh)

        stage = MaskedTraining(
            run,
            config,
            prepare,
            lambda model: kind.save(model, folder.path, head=False),
            config.mlm_probability,
            train,
            dev,
        )
        return train_masked(stage, tokenizer, folder, progress, stop)


def _close_pretrained_head(model: Any, fresh: frozenset[str]) -> None:
    """Freeze the head for masked words, which is not stored: adapters of several languages fit together on one head."""
    from gradgate.adapters.stack import head_parameters

    head = {id(parameter) for parameter in head_parameters(model)}
    for name, parameter in model.named_parameters():
        if id(parameter) in head and name not in fresh:
            parameter.requires_grad_(False)


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except AdapterError as error:
        raise UsageError(str(error)) from None


def _note(folder: RunFolder, config: PretrainConfig, data: dict[str, Any], versions: dict[str, str]) -> None:
    record = read_json(folder.run_file)
    before = record.get("data")
    if before is not None and before["fingerprint"] != data["fingerprint"] and folder.history_file.is_file():
        raise RunError(
            f"{folder.path} was started on other texts: {config.language_data} has changed since. Pass another out=, "
            f"or restore the texts to resume."
        )
    write_json(folder.run_file, {**record, "data": data, "versions": versions})


def _digest(texts: list[str]) -> str:
    state = sha256()
    for text in texts:
        state.update(text.encode() + b"\n")
    return state.hexdigest()
