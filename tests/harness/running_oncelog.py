"""The fixture of one oncelog for all tests of a pytest process. The tests share one Apache Kafka in
the same way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.testing.broker import QUICK
from tests.harness.broker import Oncelog


@pytest.fixture(scope="session")
def running_oncelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    """One oncelog for the whole session. Do not stop it in a test.

    A fixture with both brokers (oncelog and Apache Kafka) as parameters uses this broker and does
    not start its own. Otherwise pytest would stop and start a broker for every file, because the
    tests of a file run on both brokers.
    """
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield broker
