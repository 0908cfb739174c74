"""A disk with slow fsyncs. Only requests that need an fsync wait for an fsync."""

from __future__ import annotations

import select
import time
from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.heartbeat import HeartbeatRequest
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, merged, values
from tests.harness.writing import batch, find_coordinator, new_identity

SYNC_MS = 3_000
BEATS = 20
FLUSHED = {"oncelog.flush.on.ack": "true"}


def test_d8_a_slow_fsync_delays_only_requests_that_need_it(tmp_path: Path) -> None:
    """The responses to a batch and to its retry come after the fsync. Heartbeats get their
    responses before it."""
    environment = {"ONCELOG_SYNC_DELAY_MS": str(SYNC_MS)}
    broker = Oncelog(tmp_path, merged(QUICK, FLUSHED), environment, ["--allow-faults"])
    broker.start()
    with Wire(broker.address) as wire, Wire(broker.address) as again, Wire(broker.address) as group:
        create(wire, "t")
        producer = new_identity(wire)
        beat = join(group)
        began = time.monotonic()
        place = TopicProduceData(
            name="t", partition_data=[PartitionProduceData(0, batch(producer, 0, value=b"once"))]
        )
        for connection in (wire, again):
            connection.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[place]), 12)
        for _ in range(BEATS):
            assert group.call(beat, 4).error_code == ErrorCode.NONE
        acknowledged, _, _ = select.select([wire.socket, again.socket], [], [], 0)
        assert not acknowledged, "a heartbeat waited for an fsync"
        for connection in (wire, again):
            response = connection.answer().responses[0].partition_responses[0]
            assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 0)
            assert time.monotonic() - began >= SYNC_MS / 1000
        assert values(wire, "t") == [b"once"]
    broker.kill()


def join(wire: Wire) -> HeartbeatRequest:
    """Join a group as its only member. Return a heartbeat of that member."""
    find_coordinator(wire, "g", key_type=0)
    joined = wire.call(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"")],
        ),
        3,
    )
    assert joined.error_code == ErrorCode.NONE
    member, generation = joined.member_id, joined.generation_id
    synced = wire.call(
        SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=member,
            assignments=[SyncGroupRequestAssignment(member, b"")],
        ),
        3,
    )
    assert synced.error_code == ErrorCode.NONE
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
