"""Import once, in the fork server, what all runs of a study need."""

from __future__ import annotations

import sklearn.metrics  # noqa: F401  # a second of each run that scores, unless it is there by then

import gradgate.training.run  # noqa: F401

try:
    # transformers compiles a thousand patterns of weight names with the first model that a process loads, and keeps
    # them: runs that are forked then have them. Any name has it build the table.
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
except ImportError:  # of versions that have it elsewhere: each run builds its own, as without this module
    pass
else:
    get_checkpoint_conversion_mapping("")
