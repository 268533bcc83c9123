"""Run the command ``gradgate`` as ``python -m gradgate``."""

from __future__ import annotations

import sys

from gradgate.import_path import clean_command

_INTERRUPTED = 130


def main() -> None:
    """Run the command line. It is imported here, so that Ctrl-C during the import also ends cleanly."""
    clean_command()  # again, for a starter whose name does not show that it runs the command
    try:
        from gradgate.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("gradgate: interrupted; what was saved before is still there.\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
