"""Kinds of task. A new kind is one module with a class that has the methods of ``Kind``, and one line here."""

from gradgate.tasks.kinds.base import Examples, Kind
from gradgate.tasks.kinds.classification import Classification
from gradgate.tasks.kinds.regression import Regression

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Classification(), Regression())}

__all__ = ["KINDS", "Examples", "Kind"]
