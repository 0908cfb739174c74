"""The state of a broker, seen by a client that does not use the proxy: transactions, producers,
offsets, and the logged events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from examples.purchases.billing import GROUP, PARTITIONS, PURCHASES
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog_protocol.messages.list_groups import ListGroupsRequest
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.deep_dive.on_disk import OUTPUTS, Place
from tests.harness.broker import Oncelog
from tests.harness.writing import find_coordinator

# Error codes of a listing after a restart: none, or a retriable error while the coordinator loads
# or is not elected yet.
_WHILE_LOADING = {
    ErrorCode.NONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class Described(NamedTuple):
    """A transactional id as its coordinator describes it. The state has Kafka's name."""

    state: str
    producer_id: int
    producer_epoch: int
    started_ms: int
    places: frozenset[Place]


def loaded(wire: Wire) -> bool:
    """Return True if the coordinators of all transactions and groups have loaded. A broker listens
    before that."""
    responses = (wire.call(ListTransactionsRequest(), 0), wire.call(ListGroupsRequest()))
    codes = {response.error_code for response in responses}
    assert codes <= _WHILE_LOADING, codes
    return codes == {ErrorCode.NONE}


def transactions(wire: Wire) -> dict[str, Described]:
    """Return the description of every transactional id."""
    listed = wire.call(ListTransactionsRequest(), 0).transaction_states
    names = [transaction.transactional_id for transaction in listed]
    response = wire.call(DescribeTransactionsRequest(names))
    found: dict[str, Described] = {}
    for transaction_state in response.transaction_states:
        assert transaction_state.error_code == ErrorCode.NONE, (
            transaction_state.transactional_id,
            ErrorCode(transaction_state.error_code),
        )
        places = frozenset(
            Place(topic.topic, partition)
            for topic in transaction_state.topics
            for partition in topic.partitions
        )
        started_ms = transaction_state.transaction_start_time_ms
        found[transaction_state.transactional_id] = Described(
            transaction_state.transaction_state,
            transaction_state.producer_id,
            transaction_state.producer_epoch,
            started_ms,
            places,
        )
    return found


def tails(wire: Wire) -> dict[tuple[int, Place], tuple[int, int]]:
    """Return the epoch and last sequence number of every producer in every partition of the output
    topics, by producer id and partition."""
    wanted = [TopicRequest(topic, [*range(PARTITIONS)]) for topic in OUTPUTS]
    found: dict[tuple[int, Place], tuple[int, int]] = {}
    for topic in wire.call(DescribeProducersRequest(wanted)).topics:
        for partition in topic.partitions:
            assert partition.error_code == ErrorCode.NONE, ErrorCode(partition.error_code)
            for producer in partition.active_producers:
                key = (producer.producer_id, Place(topic.name, partition.partition_index))
                found[key] = (producer.producer_epoch, producer.last_sequence)
    return found


def offsets(wire: Wire, *, stable: bool) -> dict[Place, tuple[int, ErrorCode]]:
    """Return the offset that the group has committed in each partition of the purchases (-1 for
    none), and the partition's error code."""
    find_coordinator(wire, GROUP, key_type=0)
    wanted = OffsetFetchRequestTopics(name=PURCHASES, partition_indexes=[*range(PARTITIONS)])
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])
    response = wire.call(OffsetFetchRequest(groups=[group], require_stable=stable), 8).groups[0]
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
    return {
        Place(PURCHASES, partition.partition_index): (
            partition.committed_offset,
            ErrorCode(partition.error_code),
        )
        for partition in response.topics[0].partitions
    }


class Events:
    """The events that a broker logs from now on, including those after restarts."""

    def __init__(self, broker: Oncelog) -> None:
        self._broker = broker
        self._start = len(broker.log.read_bytes())

    def of(self, event: str) -> list[Mapping[str, Any]]:
        """Return the events of one kind, oldest first."""
        return [row for row in self._all() if row.get("event") == event]

    def _all(self) -> Iterable[Mapping[str, Any]]:
        # The last line may be incomplete.
        for line in self._broker.log.read_bytes()[self._start :].split(b"\n")[:-1]:
            if line.startswith(b"{"):
                yield json.loads(line)
