"""Logs with known positions of their batches, and the responses of a partition with an unusable
log."""

from __future__ import annotations

from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from tests.harness.broker import Oncelog
from tests.harness.driving import fetch, list_offset, offsets_of
from tests.harness.waiting import wait_until
from tests.harness.writing import produce, records


def write(wire: Wire, topic: str, count: int, size: int = 400) -> list[int]:
    """Write `count` batches of one record with Produce. Return the position of each batch in a log
    of one segment."""
    positions, position = [], 0
    for number in range(count):
        data = build_batch(records(1, b"%d" % number * size))
        assert produce(wire, topic, data).error_code == ErrorCode.NONE
        positions.append(position)
        position += len(data)
    return positions


def log_of(broker: Oncelog, topic: str) -> Path:
    return broker.data / f"{topic}-0" / f"{0:020}.log"


def wait_for_recovery_point(broker: Oncelog, topic: str, offset: int) -> None:
    path = broker.data / "recovery-point-offset-checkpoint"
    wait_until(lambda: offsets_of(path).get((topic, 0)) == offset, f"a recovery point of {offset}")


def assert_offline(broker: Oncelog, topic: str) -> None:
    """Check that Produce, Fetch and ListOffsets of the topic get KAFKA_STORAGE_ERROR, while Produce
    to the topic `sound` succeeds."""
    with Wire(broker.address) as wire:
        storage_error = ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(wire, topic, build_batch(records())).error_code == storage_error
        assert fetch(wire, topic).error_code == storage_error
        assert list_offset(wire, topic, -1)[0] == storage_error
        assert produce(wire, "sound", build_batch(records())).error_code == ErrorCode.NONE
