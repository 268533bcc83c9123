"""Describe the papers' experiments as data: settings, published numbers, and claims that a study can check."""

from __future__ import annotations

from gradgate.papers.preset import Preset, TableEntry, find_preset, presets
from gradgate.papers.published import Paper, Published, Setting, papers, read_table, stated_settings

__all__ = [
    "Paper",
    "Preset",
    "Published",
    "Setting",
    "TableEntry",
    "find_preset",
    "papers",
    "presets",
    "read_table",
    "stated_settings",
]
