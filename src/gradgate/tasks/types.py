"""Define the light types of a task: kinds by name, names of splits, file formats and places on the hub.

Nothing here reads data or imports a heavy library, so that task files are checked without either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from gradgate.errors import UsageError
from gradgate.tasks import metrics

KindName = Literal[
    "classification",
    "multi-label",
    "regression",
    "token-classification",
    "question-answering",
    "multiple-choice",
    "ranking",
    "generation",
]


_NAME = re.compile(r"\w[\w.-]{0,99}")


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r:.120} cannot be part of a file name; expected up to 100 letters, digits, '.', '_' and '-', "
            f"starting with a letter or digit, as in test_hard. Rename it"
        )
    return name


def _checked_path(path: str) -> str:
    longest = max(len(part.encode("utf-8", "replace")) for part in re.split(r"[/\\]", path))
    if not path.strip() or not path.isprintable() or longest > 255:
        raise ValueError(f"{path!r:.120} cannot be the path of a file; expected one such as data/train.csv")
    return path


Name = Annotated[str, AfterValidator(_checked_name)]
"""The pattern of a task's or a split's name, which becomes part of a path."""
FileName = Annotated[str, AfterValidator(_checked_path)]
LanguageCode = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*$", max_length=40)]


SEPARATORS = ("|", ";", ",")
"""What joins several labels to one text, most telling first: names of labels may have commas."""


class KindOptions(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """The entries of a task file that only one kind of task has; most kinds have none."""


class MultiLabelOptions(KindOptions):
    """Entries of a task with several labels per row.

    Args:
        label_separator: the text between labels that are joined to one text; None takes the first of ``|``, ``;`` and
            ``,`` that occurs in train.
        threshold: the probability from which a label is predicted.
    """

    label_separator: Annotated[str | None, Field(min_length=1)] = None
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5


class MultipleChoiceOptions(KindOptions):
    """Entries of a multiple choice task.

    Args:
        choices: the columns of the choices.
        question: the column that asks for ``cause`` or ``effect``, or None.
        question_from: split or its part before the dot -> file in ``folder`` whose ``question`` of equal ``idx``
            counts in place of the split's own.
    """

    choices: Annotated[tuple[str, ...], Field(min_length=2)] = ("choice1", "choice2")
    question: str | None = "question"
    question_from: dict[str, FileName] = {}


class QuestionAnsweringOptions(KindOptions):
    """Entries of a question answering task.

    Args:
        normalization: of answers before they are compared: ``squad`` or, by language, ``mlqa``.
        no_answer_threshold: how much better "no answer" must be than the best answer, if train has questions without
            one (SQuAD 2).
        articles: how many of the first articles of the source language's test are train and how many of the next ones
            are dev, if there is no train file; the rest are tested on in every language.
    """

    normalization: Literal["squad", "mlqa"] = "squad"
    no_answer_threshold: float = 0.0
    articles: dict[Literal["train", "dev"], Annotated[int, Field(ge=1)]] | None = None


class RankingOptions(KindOptions):
    """Entries of a ranking task.

    Args:
        query: the column that identifies queries; None takes the query's text.
    """

    query: str | None = None


class GenerationOptions(KindOptions):
    """Entries of a generation task.

    Args:
        template: the tokenizer's chat template, for ``messages`` alone if it has one (``auto``), for prompts and
            responses too (``chat``), or for nothing (``none``).
        loss_on: whether the loss counts the tokens of responses, or all.
        turns: which turns of the assistant are responses: the last one of each row, or all. The last one is what is
            generated and scored either way.
        separator: the text between prompt and response, and between turns, if no template is used; None is nothing
            between prompt and response, and a line break between the turns of ``messages``.
    """

    template: Literal["auto", "chat", "none"] = "auto"
    loss_on: Literal["response", "all"] = "response"
    turns: Literal["last", "all"] = "last"
    separator: str | None = None


@dataclass(frozen=True)
class KindInfo:
    """The entries that a task file may have for one kind of task; :mod:`gradgate.tasks.kinds` has the implementations.

    Args:
        name: the word in a task's ``kind``.
        text, label: the text column or columns and the label column of a task that names none.
        metrics: every metric that may select checkpoints; the first one is the default.
        options: the entries that only this kind has.
        in_windows: whether rows longer than the model's input are read in windows, rather than cut.
    """

    name: KindName
    text: str | tuple[str, ...]
    label: str
    metrics: tuple[str, ...]
    options: type[KindOptions] = KindOptions
    in_windows: bool = False

    @property
    def default_metric(self) -> str:
        """The metric that selects unless the task names one."""
        return self.metrics[0]


_ALL_KINDS = (
    KindInfo("classification", "text", "label", metrics.CLASSIFICATION),
    KindInfo("multi-label", "text", "label", metrics.MULTI_LABEL, MultiLabelOptions),
    KindInfo("regression", "text", "label", metrics.REGRESSION),
    KindInfo("token-classification", "tokens", "tags", metrics.TAGS, in_windows=True),
    KindInfo("question-answering", ("question", "context"), "answers", metrics.ANSWERS, QuestionAnsweringOptions, True),
    KindInfo("multiple-choice", "premise", "label", ("accuracy",), MultipleChoiceOptions),
    KindInfo("ranking", ("query", "document"), "grade", metrics.RANKING, RankingOptions),
    KindInfo("generation", "prompt", "response", metrics.GENERATION, GenerationOptions),
)
KIND_INFO: dict[str, KindInfo] = {info.name: info for info in _ALL_KINDS}


@dataclass(frozen=True)
class Shares:
    """Percentages of a file's rows for train, dev and test; their sum is 100, and test may be 0."""

    train: float
    dev: float
    test: float

    def __str__(self) -> str:
        return "/".join(f"{share:g}" for share in (self.train, self.dev, self.test))


MOST_HELD_OUT = 5_000
"""Rows of dev and of test that are taken from a large file unless its shares are named."""


def default_shares(rows: int) -> Shares:
    """Return 80/10/10, or the shares that make dev and test of 5,000 rows each in a file of more than 50,000."""
    share = min(10.0, round(100 * MOST_HELD_OUT / max(rows, 1), 4))
    return Shares(round(100 - 2 * share, 4), share, share)


def read_shares(text: str) -> Shares:
    """Parse ``80/10/10``, or ``90/10`` without a test split.

    Raises:
        UsageError: for anything else.
    """
    try:
        numbers = [float(word) for word in text.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) == 2:
        numbers.append(0.0)
    whole = len(numbers) == 3 and abs(sum(numbers) - 100) < 1e-9
    if not whole or not (numbers[0] > 0 and numbers[1] > 0 and numbers[2] >= 0):
        raise UsageError(
            f"split={text!r}: expected percentages of train, dev and test that add up to 100, as in 80/10/10, or 90/10 "
            "for no test split"
        )
    return Shares(*numbers)


TRAIN, DEV = "train", "dev"
TRAIN_AND_DEV = (TRAIN, DEV)
LEAST_DEV = 2
"""Rows of dev at least, of every kind of task. Train and test need one."""
TEST = "test"
SPLIT_WORDS = {
    "train": TRAIN, "training": TRAIN, "dev": DEV, "devel": DEV, "development": DEV, "val": DEV, "valid": DEV,
    "validation": DEV, "test": TEST, "testing": TEST,
}  # fmt: skip
"""What anything calls a split, in lower case -> the split; :mod:`gradgate.tasks.split_names` has words that may be."""
ORIGINAL_DEV = "original_dev"
"""The dev split of a task with test splits, if runs hold out dev rows of train and score this one."""
IGNORED = -100
"""The label of a token that the loss does not count, as in transformers."""
LANGUAGE = "{language}"
"""The placeholder for a language's code in the path of a file or in a name on the hub."""


def base_of(split: str) -> str:
    """Return ``test`` for ``test.de``."""
    return split.partition(".")[0]


def scored(splits: Iterable[str]) -> tuple[str, ...]:
    """Return the splits that a run reads: train and dev first, then those that it is tested on."""
    names = tuple(splits)
    tests = [split for split in names if base_of(split) not in TRAIN_AND_DEV]
    tests = tests or [split for split in names if base_of(split) == DEV and split != DEV]
    return (*(split for split in TRAIN_AND_DEV if split in names), *tests)


class FileFormat(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """The format of a data file.

    Args:
        type: ``auto`` goes by the file's ending and its first lines. JSON lines, a JSON array of objects,
            comma or tab separated values, Parquet, Arrow; ``conllu``; ``conll`` for files of one token and its tags a
            line, separated by tabs or spaces, with a blank line after each sentence; ``squad`` for SQuAD's JSON;
            ``fasttext``; ``saved`` for a folder of ``save_to_disk``, ``folders`` for one with a folder of texts per
            class.
        header: whether the first line of a csv or tsv file names the columns.
        columns: the names of the columns if there is no header. Those of a ``conll`` file are by default ``tokens``,
            ``tags`` (the last) and numbered ones between.
        quoting: whether ``"`` encloses fields; None is true for csv and false for tsv, as in GLUE's files.
        extra_columns: accept rows with more columns than named, and drop the extra ones.
        join: put between two text columns to make one text of them; None keeps a text and its pair.
        rename: a column's name in the file -> the name that the task knows it by, if the file has that column.
        encoding: of text files; None is UTF-8, or cp1252 if the text shows that.
        part: the entry of a JSON object that has the rows.
        rows: a column -> what it has in the rows that count, as ``{split: train}`` for a file with the rows of several
            splits.
    """

    type: Literal[
        "auto", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "conllu", "conll", "squad", "fasttext", "saved",
        "folders",
    ] = "auto"  # fmt: skip
    header: bool = True
    columns: tuple[str, ...] | None = None
    quoting: bool | None = None
    extra_columns: bool = False
    join: str | None = None
    rename: dict[str, str] = {}
    encoding: str | None = None
    part: str | None = None
    rows: dict[str, str] = {}

    @model_validator(mode="after")
    def _columns_where_no_header(self) -> FileFormat:
        if self.type == "conll":
            return self
        if self.header and self.columns is not None:
            raise ValueError("columns are for files without a header; add `header: false` or leave them out")
        if not self.header and self.columns is None:
            raise ValueError("a file without a header needs its columns named: `columns: [text, label]`")
        return self


class HubSource(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """A data set on the Hugging Face hub.

    Args:
        path: ``owner/name``.
        name: its configuration, if it has several: one for all languages, one with ``{language}`` in it, or language ->
            configuration.
        revision: branch, tag or commit; None is the newest.
        splits: our split -> the hub's, slices such as ``train[:1000]`` included. If a configuration or a split has
            one language, each stands for one split by language, as in ``TaskSpec.files``.
        text, label: column names if the hub's differ from the local files'.
        rename: other columns' names on the hub -> the names that the task knows them by.
        training: the data set with train and dev, if it is another one; ``splits`` then has neither.
    """

    path: str = Field(pattern=r"^\w[\w.-]*/\w[\w.-]*$")
    name: str | dict[str, str] | None = None
    revision: str | None = None
    splits: dict[Name, str] = {"train": "train", "dev": "validation", "test": "test"}
    text: str | tuple[str, str] | tuple[str, str, str] | None = None
    label: str | None = None
    rename: dict[str, str] = {}
    training: HubSource | None = None

    def configuration(self, language: str) -> str | None:
        """Return the name of the configuration of a language."""
        name = self.name.get(language) if isinstance(self.name, dict) else self.name
        return None if name is None else name.replace(LANGUAGE, language)

    def is_by_language(self, split: str) -> bool:
        """Return True if the hub has a split of ours once per language."""
        return isinstance(self.name, dict) or LANGUAGE in f"{self.name} {self.splits[split]}"
