"""Relate the papers' figures to figures of the studies that show the same of their own runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence.studies import Study
from gradgate.papers.published import papers


@dataclass(frozen=True)
class PaperFigure:
    """Figures of one paper that show the same for several models or tasks."""

    paper: str
    numbers: tuple[int, ...]
    shows: str


PAPER_FIGURES = (
    PaperFigure("elsa", (1, 2), "The share of the full score that is kept, by the number of frozen layers"),
    PaperFigure("graddrop", (1,), "What is trained in each epoch"),
    PaperFigure("graddrop", (2,), "Scores on test after each epoch"),
    PaperFigure("graddrop", (3,), "The t statistic of each method"),
    PaperFigure("graddrop", (4,), "What each language gains"),
    PaperFigure("fun", (2,), "Scores of adapters next to full fine-tuning"),
    PaperFigure("fun", (3,), "The trace of the Fisher information over steps"),
    PaperFigure("fun", (4,), "The trace's peak and area against the score in other languages"),
    PaperFigure("fun", (5,), "When each layer is unfrozen"),
    PaperFigure("adaptereff", (2, 7, 8), "How close representations stay to those before training, by layer"),
    PaperFigure("adaptereff", (3,), "Scores by the size of the training set"),
    PaperFigure("adaptereff", (4,), "Scores by the learning rate"),
    PaperFigure("adaptereff", (5, 9), "The loss on train and dev over steps"),
    PaperFigure("adaptereff", (6,), "The loss on the line through the weights before and after training"),
    PaperFigure("adaptereff", (10,), "Scores and losses in other languages over training"),
)


def figure_table(studies: Sequence[Study]) -> str:
    """Tabulate one row per figure of a paper, with links to the figures of recorded studies."""
    rows = [f"| {_name(figure)} | {figure.shows} | {_here(figure, studies)} |" for figure in PAPER_FIGURES]
    return "\n".join(["| in the paper | what it shows | here |\n|---|---|---|", *rows])


def _name(figure: PaperFigure) -> str:
    return f"{papers()[figure.paper].name}, Fig. {', '.join(map(str, figure.numbers))}"


def _here(figure: PaperFigure, studies: Sequence[Study]) -> str:
    return ", ".join(_links(figure, studies)) or "–"


def _links(figure: PaperFigure, studies: Sequence[Study]) -> Iterator[str]:
    for study in studies:
        for kept in study.figures if study.paper == figure.paper else ():
            if set(kept.paper) & set(figure.numbers):
                part = "" if kept.part is None else f", {kept.part}"
                yield f"[{study.name}{part}](figures/{study.name}/{kept.file})"
