"""What the generator of the sample writes, which takes seconds."""

from __future__ import annotations

import pytest

from tools.sample import make_data as generator


@pytest.fixture(scope="session")
def sentences() -> frozenset[str]:
    """Every sentence of the tasks in every language that they have it in."""
    return frozenset(generator.sentences())
