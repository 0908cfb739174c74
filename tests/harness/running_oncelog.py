"""The oncelog that the tests of a process share, as they share an Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.broker import Oncelog
from tests.harness.quick import QUICK


@pytest.fixture(scope="session")
def running_oncelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    """One oncelog for the whole session. Never stop it in a test.

    A fixture with the two brokers as parameters asks for this one and does not start its own:
    pytest would stop and start that one with every file, because a file's tests run on both.
    """
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield broker
