"""Grade how relevant documents are to a query; the documents of a query are ranked by grade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradgate.errors import DataError
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import CellType, Examples, Scored, TaskData, make_rows
from gradgate.tasks.kinds.labels import (
    Labelled,
    OneLabel,
    check_labels,
    known_labels,
    label_order,
    labels_of,
    named_labels,
)
from gradgate.tasks.metrics.ranking import score_ranking
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import KIND_INFO, RankingOptions

if TYPE_CHECKING:
    from datasets import Dataset


class Ranking(OneLabel):
    """Ranking of documents for queries; ``label`` is the index of the grade in ``TaskData.labels``.

    The head has one output per grade, as XGLUE's for web pages (Liang et al. 2020,
    https://aclanthology.org/2020.emnlp-main.484). Documents are ranked by the expected grade.
    """

    info = KIND_INFO["ranking"]

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read queries and documents with their grades.

        Raises:
            DataError: only one text column, or a grade that is not a whole number from 0 or that train does not have.
        """
        if len(spec.text_columns) < 2:
            raise DataError(f"{spec.name}: {self.info.name} needs two text columns or three, `text: [query, document]`")
        assert isinstance(spec.options, RankingOptions)
        query = spec.options.query
        found = _labelled(spec, tables)
        labels, notes = found.order, found.notes
        types: dict[str, CellType] = {"text": "string", "text_pair": "string", "query": "string", "label": labels}
        splits = {}
        for split, table in found.tables.items():
            columns, blank = sequence.text_columns(spec, table, split)
            notes += blank
            queries = columns["text"] if query is None else table.column(query, "`query` of the task")
            grades = [labels.index(name) for name in found.named[split]]
            rows = {**columns, "query": [str(cell) for cell in queries], "label": grades}
            splits[split] = make_rows(rows, types)
        return Examples(splits, labels, tuple(notes))

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute every ranking metric of logits ``(rows, grades)``."""
        grades = np.array([int(name) for name in labels_of(data)])
        logits = sequence.logits_of(outputs)
        sequence.check_predictions(logits, len(rows), len(grades))
        expected = sequence.softmax(logits) @ grades
        predicted, gold = grades[logits.argmax(axis=1)], grades[sequence.as_array(rows["label"])]
        queries = rows["query"][:]
        cells = zip(queries, gold.tolist(), predicted.tolist(), expected.tolist(), strict=True)
        return Scored(
            score_ranking(expected, predicted, gold, queries),
            [
                {"index": index, "query": query, "gold": true, "predicted": found, "score": score}
                for index, (query, true, found, score) in enumerate(cells)
            ],
        )


def _labelled(spec: TaskSpec, tables: dict[str, SourceTable]) -> Labelled:
    tables, notes = sequence.scored_tables(spec, tables)
    named, spelled = named_labels(spec, tables, ["0"])
    notes += spelled
    for split, table in tables.items():
        for row, name in enumerate(named[split]):
            if not name.isdecimal():
                raise DataError(
                    f"{table.place(row)}: the grade {name!r} is not a whole number from 0; if grades have names, "
                    "pass `label_map: {Bad: 0, Fair: 1, ...}`"
                )
    check_labels(spec, tables, named)
    order = label_order(spec.model_copy(update={"label_map": None}), known_labels(spec, named))
    return Labelled(tables, named, order, notes)
