"""A finished run, loaded back from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from transformers import AutoConfig

from gradgate import adapters
from gradgate.errors import RunError
from gradgate.tasks.kinds import KINDS
from gradgate.tasks.mixture import KIND as MIXED
from gradgate.training.config import RunConfig
from gradgate.training.folder import RunFolder, read_json
from gradgate.training.loading import load_pretrained, load_tokenizer


@dataclass(frozen=True)
class FinishedRun:
    """What a run has left.

    Attributes:
        folder, config: of the run.
        task: what ``run.json`` says of its task: name, kind, metric, labels and more.
        model: with the weights that were best on dev, its adapter active; in evaluation mode.
        tokenizer: that of the model.
    """

    folder: RunFolder
    config: RunConfig
    task: dict[str, Any]
    model: Any
    tokenizer: Any


def load_finished(path: Path) -> FinishedRun:
    """Load a run that ``gradgate train`` or ``compare`` has finished.

    Raises:
        RunError: no run there, one that has not finished or kept no model, or files that are damaged.
        AdapterError: an adapter that does not fit the pretrained model any more.
    """
    folder = RunFolder(Path(path))
    if not folder.run_file.is_file():
        raise RunError(f"{folder.path} holds no run: {folder.run_file} is missing. Name a folder that `train` made.")
    if not folder.finished:
        raise RunError(f"The run in {folder.path} has not finished. Run its command again to finish it first.")
    if not folder.model.is_dir():
        raise RunError(f"The run in {folder.path} kept no model ({folder.model} is missing). Train with --keep-model.")
    record = read_json(folder.run_file)
    try:
        config = RunConfig.model_validate(record["config"])
        task = dict(record["task"])
        if task["kind"] == MIXED:
            raise RunError(
                f"The run in {folder.path} trained several tasks at once, and what it keeps is their encoder. Its own "
                f"scores are in {folder.scores_file}; to score one task, train it from --model {folder.model}."
            )
        kind = KINDS[task["kind"]]
    except (ValidationError, KeyError, TypeError) as error:
        raise RunError(f"{folder.run_file} is damaged or of another version: {error}.") from None
    saved = config.model_copy(update={"model": str(folder.model)})
    settings = load_pretrained(AutoConfig, saved, "configuration")
    base = saved if config.adapter is None else config
    model = load_pretrained(kind.auto_model, base, "model", config=settings, ignore_mismatched_sizes=base is config)
    if config.adapter is not None:
        adapters.activate(model, adapters.load(model, folder.model, head=True))
    return FinishedRun(folder, config, task, model.eval(), load_tokenizer(saved))
