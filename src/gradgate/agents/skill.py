"""Find SKILL.md, which tells a coding agent when to use gradgate, and how."""

from __future__ import annotations

from pathlib import Path

SKILL = Path(__file__).with_name("SKILL.md")


def skill_text() -> str:
    """Return the skill."""
    return SKILL.read_text(encoding="utf-8")
