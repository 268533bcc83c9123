"""End the processes that tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist

from support.gloo_group import close_groups


@pytest.fixture(scope="package", autouse=True)
def _groups() -> Iterator[None]:
    if not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    yield
    close_groups()
