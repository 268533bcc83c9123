"""The sections on what `gradgate analyze` and `--track` have measured."""
