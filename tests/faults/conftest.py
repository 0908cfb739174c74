"""A broker for a single test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, merged


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    broker = Oncelog(tmp_path, merged(QUICK, {"log.flush.offset.checkpoint.interval.ms": "100"}))
    broker.start()
    yield broker
    broker.kill()
