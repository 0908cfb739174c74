"""Readers skip markers. A marker takes an offset, but no reader gets it."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.conformance.conftest import Target
from tests.harness.transacting import last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, end_transaction, new_identity, produce


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_l15_a_reader_reaches_the_end_of_a_partition_that_ends_with_markers(
    target: Target, wire: Wire, topic: str, commit: bool
) -> None:
    """The reader passes markers, whether a record comes before them or not."""
    producer = new_identity(wire, topic)
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    assert end_transaction(wire, producer, commit=commit).error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the marker")
    settings = {
        "bootstrap.servers": target.address,
        "group.id": topic,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    for start in (0, 1):
        reader = Consumer(settings)
        reader.assign([TopicPartition(topic, 0, start)])
        found: list[int] = []

        def at_the_end(reader: Consumer = reader, found: list[int] = found) -> bool:
            message = reader.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.offset())
            # The message is librdkafka's end-of-partition event, with the offset of that end.
            # librdkafka's position does not show the end: it is the offset after the last record.
            return message is not None and message.error() is not None and message.offset() == 2

        wait_until(at_the_end, "the end of the partition")
        assert found == ([0] if commit and start == 0 else [])
        reader.close()
