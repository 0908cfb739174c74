"""The last committed state of a sink, for a source that starts there."""

from __future__ import annotations

import asyncio
from typing import Final

from oncelog_client.errors import TimedOutError, error_for
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.group_offsets import fetch_offsets
from oncelog_client.io.state_log import StateLog
from oncelog_client.spark.offsets.source_end import too_long
from oncelog_client.spark.sink.protocol import record_log, state
from oncelog_client.spark.sink.protocol.state import SINK_PARTITION, SinkState
from oncelog_protocol.errors import ErrorCode

_ASK_AGAIN_S: Final = 0.01


async def sink_state(cluster: Cluster, sink_id: str, timeout_ms: float) -> SinkState | None:
    """Return the state from the group's offset (commit by group) or the state topic (commit by
    record).

    A decision counts even if it is not carried out yet. Return None for a sink without a state.
    Raises NoSourceEnd if the source end was too long to keep, StateUnreadable, TimedOutError if a
    transaction of the sink is still open after `timeout_ms`, or another KafkaError.
    """
    offsets = await fetch_offsets(
        cluster, sink_id, [SINK_PARTITION], timeout_ms, require_stable=True
    )
    found = offsets.get(SINK_PARTITION)
    if found is not None:
        decoded = state.decode(found, sink_id)
        if decoded.is_end_too_long:
            raise too_long(sink_id, state.MAX_METADATA_BYTES)
        return decoded
    place = record_log.STATE_PARTITION
    cluster.watch([place.topic])
    await cluster.refresh()
    info = cluster.metadata.topics.get(place.topic)
    if info is not None and info.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        # A sink that commits by record would seem to have no state.
        raise error_for(info.error, place.topic)
    if info is None or not info.usable:
        return None
    entry = (await _whole(StateLog(cluster, place, timeout_ms), sink_id, timeout_ms)).entry
    if entry is None:
        return None
    return entry.state if entry.unfinished is None else entry.unfinished.state


async def _whole(log: StateLog, sink_id: str, timeout_ms: float) -> record_log.RecordLog:
    """Return the log, read until it holds no open transaction of the sink."""
    deadline_ms = monotonic_ms() + timeout_ms
    read = record_log.RecordLog()
    while True:
        read = record_log.read_on(read, sink_id, await log.read(read.next_offset))
        if not read.pending:
            return read
        if monotonic_ms() > deadline_ms:
            raise TimedOutError(f"a transaction of sink {sink_id} is still open")
        await asyncio.sleep(_ASK_AGAIN_S)
