"""Joins a model, its optimizer and a method: what learns in each step of a training, kept through hooks."""

from gradgate.tuner.tuner import Tuner

__all__ = ["Tuner"]
