"""``python -m gradgate`` is the command ``gradgate``."""

from gradgate.cli import main

if __name__ == "__main__":
    main()
