"""Write the weights that training has changed at each score on dev, for analyses over the steps of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.distributed import launch
from gradgate.errors import RunError
from gradgate.files import remedy
from gradgate.layers import named_parameters
from gradgate.layers.names import canonical_name
from gradgate.replacing import replaced
from gradgate.runs.folder import RunFolder
from gradgate.training.fsdp import is_sharded, whole_weights
from gradgate.training.gate_callback import GateCallback

_FILE = re.compile(r"step-(\d+)\.safetensors")


class WeightHistory(TrainerCallback):  # type: ignore[misc]
    """Writes the weights that were open in any step so far when dev is scored; the others are unchanged.

    Args:
        folder: of the run.
        gate: the callback whose tuner has the names of open parameters.
    """

    def __init__(self, folder: RunFolder, gate: GateCallback) -> None:
        self._folder, self._gate = folder, gate

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Remove the files of steps after the checkpoint that training resumes from."""
        for step, file in weight_files(self._folder).items() if launch.is_first() else ():
            if step > state.global_step:
                file.unlink()

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Write the file of this step."""
        tuner = self._gate.tuner
        assert tuner is not None, "the gate's callback comes before"
        if is_sharded(model):  # all processes take part
            weights = {canonical_name(name): tensor for name, tensor in whole_weights(model).items()}
        else:
            weights = {name: parameter.detach() for name, parameter in named_parameters(model).items()}
        if launch.is_first():
            write_weights(
                self._folder.weights / f"step-{state.global_step}.safetensors",
                {name: tensor.contiguous() for name, tensor in weights.items() if name in tuner.names_opened},
            )


def write_weights(file: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors that share no memory; the file appears only once it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replaced(file) as part:
        save_file(tensors, part)


def weight_files(folder: RunFolder) -> dict[int, Path]:
    """Return optimizer step to the file of its weights, in the order of steps; empty for a run without such files."""
    files = {int(match[1]): file for file in folder.weights.glob("step-*") if (match := _FILE.fullmatch(file.name))}
    return dict(sorted(files.items()))


def put_weights(model: nn.Module, file: Path) -> None:
    """Load the weights of a file into a model that may have more, such as those of a step into the step before.

    Raises:
        RunError: for a file that is damaged, or of another model.
    """
    parameters = named_parameters(model)
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise RunError(f"{file} is damaged: {error}. {remedy(file)}") from None
    wrong = [n for n, tensor in tensors.items() if n not in parameters or parameters[n].shape != tensor.shape]
    if wrong:
        raise RunError(
            f"{file} has {wrong[0]}, which {type(model).__name__} lacks or has in another shape; expected the weights "
            f"of the run's own model. {remedy(file)}"
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            parameters[name].copy_(tensor)
