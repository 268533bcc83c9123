"""Measure everything that gradgate promises on a GPU with one command: ``make gpu``, ``python -m benchmarks gpu``."""
