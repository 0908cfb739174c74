"""The only broker of a cluster. It stands for another broker: tests send to its own listener."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncelog_server.broker import Broker
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.environment import OsEnvironment
from oncelog_server.settings.model import Settings


@pytest.fixture
async def other_broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """Yield a broker with a topic of three partitions and one partition for transactions."""
    settings = Settings(
        log_dirs=(str(tmp_path),),
        listeners=("PLAINTEXT://127.0.0.1:0",),
        num_partitions=3,
        transaction_state_log_num_partitions=1,
    )
    broker = Broker(settings, OsEnvironment(settings.data_directory))
    await broker.start()
    await broker.metadata.missing_topics.create_one("topic")
    await broker.metadata.missing_topics.create_one(TRANSACTION_STATE)
    yield broker
    await broker.stop()
