"""Settings of a run that do not go together, whatever the model and the task are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradgate.training.config import RunConfig


def check_together(config: RunConfig) -> None:
    """Refuse settings of which one excludes another.

    Raises:
        ValueError: naming the first such settings, and what to leave out.
    """
    for check in (
        _one_length,
        _one_dev,
        _whole_adapters,
        _one_half,
        _released_alone,
        _scored_or_not,
        _tracked_whole,
        _rows_of_one_model,
        _cacheable,
    ):
        check(config)


def _one_length(config: RunConfig) -> None:
    if config.epochs is not None and config.steps is not None:
        raise ValueError("give epochs or steps, not both")
    if config.tapt_epochs is not None and config.tapt_steps is not None:
        raise ValueError("give tapt_epochs or tapt_steps, not both")


def _one_dev(config: RunConfig) -> None:
    if config.dev_size is not None and config.dev_file is not None:
        raise ValueError("dev_size takes dev from train and dev_file is another dev; give one of them")


def _whole_adapters(config: RunConfig) -> None:
    if config.adapter is not None and config.fsdp:
        raise ValueError(
            f"adapter and fsdp do not go together: {str(config.adapter)!r} is small, so copy the model (DDP). Leave "
            f"--fsdp out"
        )
    if config.tapt is not None and config.fsdp:
        raise ValueError(
            "tapt_steps or tapt_epochs and fsdp do not go together: the model is pre-trained whole in each process "
            "(DDP). Leave --fsdp out"
        )


def _one_half(config: RunConfig) -> None:
    if config.weights == "bfloat16" and config.precision == "fp16":
        raise ValueError("weights=bfloat16 and precision=fp16 do not go together; give precision bf16 or fp32")


def _released_alone(config: RunConfig) -> None:
    refused = {
        f"clip={config.clip}, which needs all gradients at once (give clip=0)": config.clip > 0,
        f"accumulate={config.accumulate}, which needs several backward passes": config.accumulate > 1,
        "precision=fp16, which scales gradients until the step": config.precision == "fp16",
        "fsdp, which averages gradients over processes": config.fsdp,
    }
    reasons = [reason for reason, applies in refused.items() if applies]
    if config.release_gradients and reasons:
        raise ValueError(f"release_gradients does not go with {'; nor with '.join(reasons)}")


def _scored_or_not(config: RunConfig) -> None:
    if config.test_each_epoch and config.skip_test:
        raise ValueError("test_each_epoch scores the test splits and skip_test leaves them alone; give one of them")


def _tracked_whole(config: RunConfig) -> None:
    if config.track is not None and config.fsdp:
        raise ValueError(
            f"track={str(config.track)!r} and fsdp do not go together: whole weights are measured, and FSDP2 keeps "
            f"shards. Leave out one of them"
        )


def _rows_of_one_model(config: RunConfig) -> None:
    if config.open_new_tokens and config.tapt is not None:
        raise ValueError(
            "open_new_tokens and tapt_steps or tapt_epochs do not go together: new rows would be drawn anew after "
            "the pre-training. Add the tokens, train their rows in a run of its own, and go on from its model"
        )


def _cacheable(config: RunConfig) -> None:
    if config.frozen_dropout and config.activation_cache not in ("auto", "off"):
        raise ValueError(
            f"activation_cache={config.activation_cache!r} and frozen_dropout do not go together: with dropout the "
            f"output of closed layers differs in each forward pass. Leave out one of them"
        )
