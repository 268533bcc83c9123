"""Import the studies of the gallery, and write their reports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import gradgate as gg
from evidence.studies import FOLDER

LIST = FOLDER / "gallery" / "studies.yaml"


@dataclass(frozen=True, kw_only=True)
class GalleryStudy:
    """Results of others in the gallery.

    Attributes:
        title: the question.
        of: whose runs they are, and how many.
        source: an address, with ``licence``.
        file: the committed scores, below ``evidence/``.
        settings: of the import.
    """

    name: str
    title: str
    of: str
    source: str
    licence: str
    file: str
    settings: Mapping[str, Any]

    @property
    def scores(self) -> Path:
        """The file with the committed scores."""
        return FOLDER / self.file

    @property
    def command(self) -> str:
        """The command that imports it, to be run in a clone of the repository."""
        flags = [
            word
            for name, value in self.settings.items()
            for each in (value if isinstance(value, list) else [value])
            for word in (f"--{name}", str(each))
        ]
        return shlex.join(["gradgate", "study", "import", f"evidence/{self.file}", *flags, "--out", self.out])

    @property
    def out(self) -> str:
        """The folder of the study in the command."""
        return f"studies/{self.name}"

    def imported(self, folder: Path) -> gg.Study:
        """Import the scores into a new folder."""
        return gg.import_results(self.scores, folder, **self.settings)


def read_gallery() -> list[GalleryStudy]:
    """Read the studies of the gallery, in the order of the page."""
    return [GalleryStudy(**entry) for entry in yaml.safe_load(LIST.read_text(encoding="utf-8"))]
