"""Make the tables of settings, one per subject, from the classes that declare them: ``docs/settings/*.inc``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.cli.wording import flag
from gradgate.settings.base import SECTIONS, CheckedSettings
from gradgate.settings.compare import CompareSettings, RecommendSettings
from gradgate.settings.memory import MemorySettings
from gradgate.settings.plan import PlanSettings
from gradgate.settings.run import RunConfig
from gradgate.settings.signature import shown_default
from gradgate_site.files import tell, write_pages
from gradgate_site.form_tables import table

if TYPE_CHECKING:
    from sphinx.application import Sphinx

REQUESTS: dict[str, type[CheckedSettings]] = {
    "train": RunConfig,
    "compare": CompareSettings,
    "recommend": RecommendSettings,
    "plan": PlanSettings,
    "memory": MemorySettings,
}
"""The commands and functions whose settings are in the tables."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the tables before Sphinx reads any page."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make(app: Sphinx) -> None:
    """Write one table per subject."""
    tell("tables", "of settings")
    write_pages(Path(app.srcdir) / "settings", {f"{file_name(each)}.inc": section_table(each) for each in SECTIONS})


def file_name(section: str) -> str:
    """Return the name of a subject's file, without its suffix."""
    return section.replace(" ", "-")


def section_table(section: str) -> str:
    """Return the settings of a subject: name, flag, default, meaning, and which commands have it."""
    rows: dict[str, tuple[str, type[CheckedSettings], list[str]]] = {}
    for command, kind in REQUESTS.items():
        for name, subject in kind.sections().items():
            if subject == section:
                rows.setdefault(name, (name, kind, []))[2].append(command)
    return table(
        ("setting", "flag", "default", "meaning", "commands"),
        (_row(name, kind, commands) for name, kind, commands in rows.values()),
    )


def _row(name: str, kind: type[CheckedSettings], commands: list[str]) -> tuple[str, ...]:
    field = kind.model_fields[name]
    default = shown_default(field)
    everywhere = len(commands) == len(REQUESTS)
    text = str(field.description).replace("\n", " ").replace("{", "&#123;")
    return (
        f"`{name}`",
        f"`{flag(name)}`",
        "" if default is None else f"`{default}`",
        text,
        "all" if everywhere else ", ".join(commands),
    )
