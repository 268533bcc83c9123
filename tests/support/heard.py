"""Progress that keeps what a user is told."""

from __future__ import annotations

from gradgate.runs.progress import Silent


class Heard(Silent):
    """Shows nothing.

    Attributes:
        notes: in their order.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)
