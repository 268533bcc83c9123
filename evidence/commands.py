"""Commands of gradgate, run as a user would, and the paths of this machine in their settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SHARED = "$GRADGATE_SHARED"


def gradgate(*words: str, quiet: bool = False) -> None:
    """Run a command of gradgate.

    Raises:
        subprocess.CalledProcessError: if it fails; it has said why.
    """
    shown = subprocess.DEVNULL if quiet else None
    subprocess.run([sys.executable, "-m", "gradgate", *words], check=True, stdout=shown)


def here(value: Any) -> Any:
    """A path below ``$GRADGATE_SHARED``, which is ``../shared`` by default, as it is on this machine."""
    if isinstance(value, str) and value.startswith(SHARED):
        shared = Path(os.environ.get("GRADGATE_SHARED", "../shared")).resolve()
        return str(shared / value.removeprefix(f"{SHARED}/"))
    return value
