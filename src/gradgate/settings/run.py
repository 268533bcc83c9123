"""The settings of a run: typed, the same from Python, a YAML file and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from gradgate.methods import Full
from gradgate.settings.adapter import check_stack, titled
from gradgate.settings.base import (
    LEAST_EPOCHS,
    MOST_EPOCHS,
    MOST_IN_BATCH,
    MOST_SEED,
    MOST_STEPS,
    MOST_THREADS,
    CheckedSettings,
    checked_settings,
)
from gradgate.settings.fields import (
    AdapterField,
    ForgettingField,
    LanguageField,
    LrScaleField,
    MethodField,
    SplitField,
    TrackField,
)
from gradgate.settings.identity import fingerprint_of
from gradgate.tasks.types import KindName


class RunConfig(CheckedSettings):
    """Everything that decides what a run computes.

    Unknown names are errors. Where both ``epochs`` and ``steps`` are None, a run takes 3 epochs.
    """

    model: str = Field(
        "sample",
        description="hub name or folder of a pretrained model; 'sample' is built in, and for "
        "generation 'sample-decoder'",
    )
    layers: str | None = Field(None, description="path of the layer stack where it cannot be found by itself")
    task: str = Field(
        "sample",
        description="name from 'gradgate tasks', several as 'cola+sst2', a YAML task file, a folder of data files, or "
        "one file, whose rows are divided by split",
    )
    data: Path | None = Field(None, description="folder with the files of a named task, or with the folders of several")
    mix: str | None = Field(
        None,
        description="how several tasks are mixed: size (the default), or temperature:T, where a task of n examples has "
        "a share in proportion to n^(1/T)",
    )
    text: str | None = Field(None, description="column of the (first) text")
    text_pair: str | None = Field(None, description="column of the second text")
    label: str | None = Field(None, description="column of the label or score")
    kind: KindName | None = Field(None, description="kind of task")
    metric: str | None = Field(None, description="metric that selects the best checkpoint on dev")
    train_file: Path | None = Field(
        None, description="training file, instead of the task's own; without a task, a task of its own"
    )
    dev_file: Path | None = Field(None, description="dev file, instead of the task's own")
    test_file: Path | None = Field(None, description="test file, instead of the task's own")
    split: SplitField = Field(
        None,
        description="percentages of train, dev and test, of which those without a file are taken from the training "
        "file by a fixed data seed, with equal shares of labels; 80/10/10 for a single file",
    )
    languages: str | None = Field(None, description="score in these languages only, as 'de,fr'; default all there are")
    source: str | None = Field(None, description="language to train and select in; default the task's, mostly en")
    train_size: int | None = Field(
        None, ge=1, description="train on this many examples (of each task), drawn at random by the seed"
    )
    dev_size: int | None = Field(
        None,
        ge=1,
        description="select on this many rows of train, drawn at random by the seed from those that train_size leaves "
        "out, and score the task's own dev split as a test split",
    )
    max_length: int = Field(128, ge=4, le=MOST_IN_BATCH, description="tokens; longer inputs are cut")
    packing: bool | None = Field(
        None, description="generation: fill each training row up to max_length with several examples, kept apart"
    )
    max_new_tokens: int | None = Field(
        None,
        ge=1,
        le=MOST_IN_BATCH,
        description="generation: tokens of a generated response at most; default 128, or half of the model's positions",
    )
    method: MethodField = Field(
        Full(), description="what learns when: a method from 'gradgate methods' with its options"
    )
    open_new_tokens: bool | None = Field(
        None,
        description="train the rows of tokens that were added to the tokenizer, whatever the method does, and nothing "
        "else of the embeddings; a table without rows for them gets these",
    )
    adapter: AdapterField = Field(
        None,
        description="train an adapter and the head on a frozen model: a kind with its options, such as "
        "houlsby:size=64, or of PEFT lora:r=16, dora, rslora, ia3, shira, and its others as peft:TYPE,r=4; lr=1e-3, "
        "tapt_steps=500 or tapt_epochs=20, and tapt_batch=256 (as in Gururangan et al. 2020) among them are this "
        "adapter's own, and pooler=frozen keeps the pretrained pooler as it is, as FUN's code does; none for none",
    )
    language_adapters: LanguageField = Field(
        None,
        description="MAD-X: keep a pretrained language adapter frozen below the adapter that is trained, and score "
        "each test split with that of its language: folders, archives or names on the hub, with {language} for a "
        "language's code, as adapters/{language}; one without it is for all languages; in a comparison, of the arms "
        "with an adapter",
    )
    tapt_steps: int | None = Field(
        None,
        ge=1,
        le=MOST_STEPS,
        description="first train the adapter, or without one the whole model, to fill in masked words of the training "
        "texts, for so many steps; in a comparison with adapters, these alone",
    )
    tapt_epochs: float | None = Field(
        None, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="the same, in passes over the training texts"
    )
    tapt_batch: int | None = Field(
        None, ge=1, le=MOST_IN_BATCH, description="texts in one forward pass of it, instead of batch_size"
    )
    seed: int = Field(
        0, ge=0, le=MOST_SEED, description="of the starts of head and adapter, the data order, dropout and masks"
    )
    epochs: float | None = Field(None, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="passes over the training data")
    steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="optimizer steps, instead of epochs")
    batch_size: int = Field(32, ge=1, le=MOST_IN_BATCH, description="examples in one forward pass of one process")
    accumulate: int = Field(1, ge=1, le=MOST_IN_BATCH, description="forward passes for one optimizer step")
    optim: str | None = Field(
        None,
        description="optimizer, by Trainer's names, such as sgd, adafactor, or in 8 bits adamw_torch_8bit (torchao) "
        "and adamw_bnb_8bit (bitsandbytes); default AdamW",
    )
    lr: float = Field(5e-5, gt=0, description="peak learning rate")
    lr_scale: LrScaleField = Field(
        None,
        description="SELECTOR=FACTOR on the learning rate of what it names, such as head=10 or layers.bottom4=0.1; "
        "repeat for several",
    )
    schedule: Literal["linear", "constant", "cosine"] = Field("linear", description="learning rate after warm-up")
    warmup: float = Field(0.06, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.01, ge=0, description="decoupled weight decay")
    clip: float = Field(1.0, ge=0, description="limit of the gradient's norm; 0 for none")
    dropout: float | None = Field(None, ge=0, lt=1, description="ordinary dropout, instead of the model's own")
    frozen_dropout: bool | None = Field(
        None,
        description="keep dropout on in the closed layers at the bottom, as FUN's code does; else they run without",
    )
    eval_every: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="optimizer steps between scores on dev; default each epoch"
    )
    save_every: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="optimizer steps between checkpoints; default each epoch"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto is a GPU where there is one")
    threads: int | None = Field(
        None, ge=1, le=MOST_THREADS, description="CPU threads of the computation; sums depend on it in their last bits"
    )
    fsdp: bool = Field(False, description="shard the model over the launched processes, with PyTorch's FSDP2")
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="of the forward and backward pass")
    weights: Literal["float32", "bfloat16"] | None = Field(
        None, description="type that the model is loaded and trained in, float32 by default; bfloat16 takes half of it"
    )
    master: Literal["float32", "none"] | None = Field(
        None,
        description="what the optimizer steps where weights are in 16 bits: float32 copies of those that are open, "
        "which is the default, or the weights themselves",
    )
    checkpointing: bool | None = Field(
        None, description="compute activations again in the backward pass, so that few are in memory; the same bits"
    )
    release_gradients: bool | None = Field(
        None,
        description="step each weight within the backward pass, so that few gradients are in memory; the same bits, "
        "with clip=0 and in one process",
    )
    skip_test: bool | None = Field(None, description="leave the test splits alone, as in a search of settings")
    test_each_epoch: bool | None = Field(
        None, description="score the test splits after each epoch too, for curves; nothing is selected by it"
    )
    audit: bool | None = Field(None, description="prove at each change of plan that closed weights are bit-identical")
    track: TrackField = Field(
        None,
        description="measure tr(F), the Fisher information of each layer, while training, which changes no bit of it: "
        "fisher:every=50,batches=8, in optimizer steps and in training batches for one measurement",
    )
    forgetting: ForgettingField = Field(
        None,
        description="generation: measure what training forgets of other text, before and after: a text file with one "
        "text a line ('sample-opinions' is built in), a table or hub data set with a column of texts, or prompts and "
        "responses of another task; with options as FILE:column=body,tokens=50000, or subset, split, metric and rows",
    )
    trust_remote_code: bool = Field(False, description="run code that comes with a hub model")
    keep_model: bool = Field(True, description="write the best model into the run folder")
    keep_checkpoints: bool | None = Field(
        None,
        description="keep the weights that have learned at each score on dev, in weights/ of the run folder, for "
        "'analyze forgetting'; as large each time as what learns",
    )
    store: Literal["auto", "delta", "model"] = Field(
        "auto",
        description="how the best model is kept: model whole, delta as what training changed in the pretrained one, "
        "auto as a delta where that is less than half of it",
    )
    activation_cache: str = Field(
        "auto",
        description="compute closed lower layers once for each example: auto (where it pays, until the run or study "
        "has finished), off, or a folder that is kept",
    )
    activation_cache_dtype: Literal["model", "bfloat16"] = Field("model", description="of what the cache holds")
    activation_cache_size: float = Field(10.0, gt=0, description="limit of the activation cache, in GiB")

    @model_validator(mode="before")
    @classmethod
    def _train_file_is_the_task(cls, values: Any) -> Any:
        """Take ``train_file`` alone for the task, not for other training data of the default task."""
        if not isinstance(values, dict) or values.get("task") is not None or values.get("train_file") is None:
            return values
        return {**values, "task": str(values["train_file"]), "train_file": None}

    @field_validator("languages", mode="before")
    @classmethod
    def _language_codes(cls, given: object) -> object:
        words = given.split(",") if isinstance(given, str) else given
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            return given
        codes = list(dict.fromkeys(word.strip() for word in words))
        if not all(codes):
            raise ValueError("expected codes of languages with commas between them, as in de,fr")
        return ",".join(codes)

    @field_validator("mix")
    @classmethod
    def _known_mix(cls, text: str | None) -> str | None:
        from gradgate.tasks.multitask import read_mix  # with the catalogue, which few commands look at

        return None if text is None else read_mix(text).text

    @model_validator(mode="after")
    def _one_length(self) -> RunConfig:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("give epochs or steps, not both")
        if self.tapt_epochs is not None and self.tapt_steps is not None:
            raise ValueError("give tapt_epochs or tapt_steps, not both")
        return self

    @model_validator(mode="after")
    def _one_dev(self) -> RunConfig:
        if self.dev_size is not None and self.dev_file is not None:
            raise ValueError("dev_size takes dev from train and dev_file is another dev; give one of them")
        return self

    @model_validator(mode="after")
    def _whole_adapters(self) -> RunConfig:
        if self.adapter is not None and self.fsdp:
            raise ValueError(
                f"adapter and fsdp do not go together: {str(self.adapter)!r} is small, so copy the model (DDP). Leave "
                f"--fsdp out"
            )
        if self.tapt is not None and self.fsdp:
            raise ValueError(
                "tapt_steps or tapt_epochs and fsdp do not go together: the model is pre-trained whole in each process "
                "(DDP). Leave --fsdp out"
            )
        return self

    @model_validator(mode="after")
    def _one_half(self) -> RunConfig:
        if self.weights == "bfloat16" and self.precision == "fp16":
            raise ValueError("weights=bfloat16 and precision=fp16 do not go together; give precision bf16 or fp32")
        return self

    @model_validator(mode="after")
    def _released_alone(self) -> RunConfig:
        refused = {
            f"clip={self.clip}, which needs all gradients at once (give clip=0)": self.clip > 0,
            f"accumulate={self.accumulate}, which needs several backward passes": self.accumulate > 1,
            "precision=fp16, which scales gradients until the step": self.precision == "fp16",
            "fsdp, which averages gradients over processes": self.fsdp,
        }
        reasons = [reason for reason, applies in refused.items() if applies]
        if self.release_gradients and reasons:
            raise ValueError(f"release_gradients does not go with {'; nor with '.join(reasons)}")
        return self

    @model_validator(mode="after")
    def _scored_or_not(self) -> RunConfig:
        if self.test_each_epoch and self.skip_test:
            raise ValueError("test_each_epoch scores the test splits and skip_test leaves them alone; give one of them")
        return self

    @model_validator(mode="after")
    def _tracked_whole(self) -> RunConfig:
        if self.track is not None and self.fsdp:
            raise ValueError(
                f"track={str(self.track)!r} and fsdp do not go together: whole weights are measured, and FSDP2 keeps "
                f"shards. Leave out one of them"
            )
        return self

    @model_validator(mode="after")
    def _rows_of_one_model(self) -> RunConfig:
        if self.open_new_tokens and self.tapt is not None:
            raise ValueError(
                "open_new_tokens and tapt_steps or tapt_epochs do not go together: new rows would be drawn anew after "
                "the pre-training. Add the tokens, train their rows in a run of its own, and go on from its model"
            )
        return self

    @model_validator(mode="after")
    def _cacheable(self) -> RunConfig:
        if self.frozen_dropout and self.activation_cache not in ("auto", "off"):
            raise ValueError(
                f"activation_cache={self.activation_cache!r} and frozen_dropout do not go together: with dropout the "
                f"output of closed layers differs in each forward pass. Leave out one of them"
            )
        return self

    @property
    def tapt(self) -> dict[str, Any] | None:
        """The settings of the task-adaptive pre-training that differ from the run's; None without it."""
        own = self.adapter
        mine = (None, None) if own is None else (own.tapt_steps, own.tapt_epochs)
        steps, epochs = mine if any(mine) else (self.tapt_steps, self.tapt_epochs)
        size = self.tapt_batch if own is None or own.tapt_batch is None else own.tapt_batch
        batch = {} if size is None else {"batch_size": size}
        return {"steps": steps, "epochs": epochs, **batch} if steps or epochs else None

    def check_adapter(self) -> None:
        """Refuse an adapter that no model could take, or no language adapter, as far as that can be seen without one.

        Raises:
            UsageError: if its package is missing, an option is wrong, or it cannot be in a stack.
        """
        if self.adapter is not None:
            self.adapter.kind.check()
        if self.language_adapters is not None:
            check_stack(self.language_adapters, self.adapter, has_tapt=self.tapt is not None)

    @property
    def title(self) -> str:
        """What learns, for people: the method, behind the adapter if there is one."""
        return titled(str(self.method), None if self.adapter is None else str(self.adapter))

    @property
    def length(self) -> dict[str, Any]:
        """How long to train, as Trainer's arguments."""
        if self.steps is not None:
            return {"max_steps": self.steps}
        return {"num_train_epochs": self.epochs if self.epochs is not None else 3.0}

    @property
    def peak_lr(self) -> float:
        """The peak learning rate: the adapter's own where it has one."""
        own = self.adapter
        return self.lr if own is None or own.lr is None else own.lr

    def record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return self.model_dump(mode="json")

    def fingerprint(self) -> str:
        """Equal for runs that compute the same; what is proved or kept along the way does not count."""
        return fingerprint_of({**self.record(), **({"method": self.followed} if self.followed else {})})

    @property
    def followed(self) -> str | None:
        """The method with the digest of the plan file that it follows; None where it follows none."""
        return self.method.fingerprint if self.method.fingerprint != self.method.spec else None


def make_config(**values: Any) -> RunConfig:
    """A RunConfig from plain values; None means not given.

    Raises:
        UsageError: naming every unknown name and every value out of range.
    """
    return checked_settings(RunConfig, values)
