"""Measure what a training does to the model on other text."""
