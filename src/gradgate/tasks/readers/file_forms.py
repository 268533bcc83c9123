"""List the forms of files and folders that are read; the table in the documentation is made from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileForm:
    """A form of a file or folder.

    Args:
        shown: what it is, for people.
        recognised: by what, in Markdown.
        meaning: how it is read, in Markdown.
    """

    shown: str
    recognised: str
    meaning: str


FILE_FORMS: dict[str, FileForm] = {
    "csv": FileForm(
        "csv",
        "`.csv`, or no known ending",
        "commas, semicolons, tabs or bars, as the header has them; a first line `sep=;`, comment lines, line breaks "
        "within quotes, spaces or backslashes before quotes, row names of R, and empty columns at the end are "
        "understood",
    ),
    "tsv": FileForm("tsv", "`.tsv`, `.tab`, or a tab in the first line", "tabs; quotes are characters like any other"),
    "jsonl": FileForm("JSON lines", "`.jsonl`, `.ndjson`, or a first line `{...}`", "one object per line"),
    "json": FileForm(
        "JSON",
        "`.json`",
        'an array of objects; `{"data": [...]}`; pages of the hub\'s viewer; objects of columns, as pandas writes '
        "them; objects of splits "
        '(`{"train": [...], "test": [...]}`), each of which is a split',
    ),
    "parquet": FileForm("Parquet", "`.parquet`", "with the names of classes that `datasets` stores"),
    "arrow": FileForm("Arrow", "`.arrow`, `.feather`", "as Parquet"),
    "conll": FileForm(
        "a token per line (CoNLL)",
        "`.conll`, `.iob`, `.bio`, `.bioes`, or lines that end in tags such as `B-PER`",
        "the first column has tokens and the last one tags; a blank line ends a sentence",
    ),
    "conllu": FileForm("CoNLL-U", "`.conllu`", "words and their parts of speech"),
    "squad": FileForm("SQuAD's JSON", "`.json` with `data` and `paragraphs`", "questions with contexts and answers"),
    "fasttext": FileForm("fastText's lines", "`__label__` in most lines", "one label or several, and the text"),
    "folders": FileForm("a folder of texts per class", "`pos/1.txt`, `neg/7.txt`", "the folder's name is the label"),
    "saved": FileForm("saved by datasets", "`state.json` or `dataset_dict.json`", "what `save_to_disk` has written"),
}
"""Type of a file, as in a task's ``format`` -> its form."""

FOLDER_FORMS = {
    "named files": FileForm("", "`train.csv`, `dev.csv`, `test.csv`", "also with `.de` for languages"),
    "folders of splits": FileForm(
        "a folder per split", "`train/data.csv`, `train/pos/1.txt`", "each folder is a split"
    ),
    "shards": FileForm(
        "shards, as data sets of the hub have them", "`data/train-00000-of-00002.parquet`", "joined, in their order"
    ),
    "a clone of the hub": FileForm(
        "a data set of the hub, by its README.md", "`configs` in `README.md`", "the files that it names"
    ),
}
"""How a folder has its splits."""
