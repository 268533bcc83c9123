"""The papers, presets and claims as plain records, for scripts."""

from __future__ import annotations

from typing import Any

from gradgate.errors import UsageError, nearest
from gradgate.papers.catalog import presets
from gradgate.papers.claims import claims
from gradgate.papers.published import papers


def paper_key(name: str) -> str:
    """The key of a paper by its key or its name, in any case.

    Raises:
        UsageError: naming the nearest.
    """
    known = {paper.name.lower(): key for key, paper in papers().items()}
    if name.lower() not in known:
        raise UsageError(f"There is no paper {name!r}.{nearest(name, known)} Known: {', '.join(known)}.")
    return known[name.lower()]


def paper_records(only: str | None = None) -> list[dict[str, Any]]:
    """One record a paper."""
    return [
        {
            "paper": key,
            "title": paper.title,
            "authors": paper.authors,
            "link": paper.link,
            "presets": [
                {"name": preset.name, "table": preset.table, "title": preset.title, "runs": len(preset.cells())}
                for preset in presets().values()
                if preset.paper == key
            ],
            "claims": [
                {"claim": claim.id, "wording": claim.wording, "checked": claim.check is not None}
                for claim in claims(key)
            ],
        }
        for key, paper in papers().items()
        if only in (None, key)
    ]
