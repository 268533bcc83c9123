"""Measure what gradgate costs, as ratios within one process. ``python -m benchmarks`` runs all benchmarks."""
