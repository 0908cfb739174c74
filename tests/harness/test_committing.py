"""Commits of offsets by the tests."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from oncelog.testing import Broker
from oncelog.testing.wire import Wire
from tests.harness.committing import commit_offsets
from tests.harness.driving import create
from tests.harness.transacting import committed_offset


@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"])
def test_offsets_are_committed_after_a_slow_load_of_the_coordinator(code: str) -> None:
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        create(wire, "t")
        broker.faults.fail("OffsetCommit", code, times=10)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "t"})
        commit_offsets(consumer, [TopicPartition("t", 0, 5)])
        consumer.close()
        assert committed_offset(wire, "t", stable=True) == (5, 0)
