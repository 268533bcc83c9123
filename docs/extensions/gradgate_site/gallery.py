"""What the scripts of the gallery share while the documentation is built."""

from __future__ import annotations

from typing import Any


def quiet(config: dict[str, Any], script: str) -> None:
    """Leave out progress bars and reports of loading, which say nothing about the script."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
