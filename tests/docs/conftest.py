"""A broker and a free port for each test of a page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.testing import Broker
from oncelog.testing.ports import reserve_port


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def port(request: pytest.FixtureRequest) -> int:
    """A port that no other process gets while the test runs."""
    return reserve_port(request.node)
