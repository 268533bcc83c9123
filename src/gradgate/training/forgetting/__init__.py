"""Measure what a training does to the model's loss on other text."""
