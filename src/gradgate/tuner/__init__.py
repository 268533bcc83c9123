"""Apply a method's plan to a model and its optimizer at every training step, through hooks."""

from gradgate.tuner.attached import detach
from gradgate.tuner.tuner import Tuner

__all__ = ["Tuner", "detach"]
