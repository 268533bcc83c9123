"""``python -m gradgate`` is the command ``gradgate``."""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> None:
    """Entry point. The command line loads inside of it, so that Ctrl-C ends that as it ends everything else."""
    try:
        from gradgate.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("gradgate: interrupted; what was saved before is still there.\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
