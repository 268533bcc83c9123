"""Which settings of a run count when two runs are compared, and the fingerprint of those that do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

# What may differ between two starts of one run or study: proofs, extras and shortcuts, not results.
FREE = (
    "audit",
    "keep_model",
    "store",
    "activation_cache",
    "activation_cache_size",
    "track",
    "test_each_epoch",
    "keep_checkpoints",
)
# Older run folders lack these, so they count only where they are given.
_ADDED = (
    "split", "frozen_dropout", "lr_scale", "open_new_tokens", "weights", "master", "release_gradients", "packing",
    "max_new_tokens", "optim", "checkpointing", "forgetting", "tapt_batch", "dev_size", "language_adapters",
)  # fmt: skip


def fingerprint_of(record: Mapping[str, Any]) -> str:
    """The fingerprint of a configuration from its record, which an earlier version may have written."""
    absent = {name for name in _ADDED if record.get(name) is None}
    computed = {name: value for name, value in record.items() if name not in FREE and name not in absent}
    return sha256(json.dumps(computed, sort_keys=True).encode()).hexdigest()[:16]
