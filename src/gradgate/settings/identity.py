"""Compute the fingerprint of a run from the settings that decide its results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

NOT_IN_IDENTITY = (
    "audit",
    "keep_model",
    "store",
    "activation_cache",
    "activation_cache_size",
    "track",
    "test_each_epoch",
    "keep_checkpoints",
    "report_to",
)
"""Settings that may differ between two starts of one run or study: proofs, extras, shortcuts and logs, not results."""
ABSENT_EQUALS_DEFAULT = (
    "split", "frozen_dropout", "lr_scale", "open_new_tokens", "weights", "master", "release_gradients", "packing",
    "max_new_tokens", "optim", "checkpointing", "forgetting", "tapt_batch", "dev_size", "language_adapters",
    "head", "class_weights",
)  # fmt: skip
"""Settings that older run folders lack. They count only if they are given."""


def fingerprint_of(record: Mapping[str, Any]) -> str:
    """Return the fingerprint of a configuration from its record, which an earlier version may have written."""
    absent = {name for name in ABSENT_EQUALS_DEFAULT if record.get(name) is None}
    computed = {name: value for name, value in record.items() if name not in NOT_IN_IDENTITY and name not in absent}
    return sha256(json.dumps(computed, sort_keys=True).encode()).hexdigest()[:16]
