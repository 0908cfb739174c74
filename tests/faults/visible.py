"""All that clients see of a broker, oncelog or Apache Kafka: topics, batches, offsets, producers
and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.records.batch import BatchHeader, split_batches
from tests.faults.recoveries import group_offsets, transaction_states
from tests.harness.driving import EARLIEST, end_offset, fetch, last_stable_offset, list_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import find_coordinator

_TOPIC = 2
# The source of a setting that the topic sets itself.
_OWN_SETTING = 1


class Producer(NamedTuple):
    """A producer of a partition, as DescribeProducers shows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    current_txn_start_offset: int


class PartitionView(NamedTuple):
    """A partition. The header of a batch has its CRC, its leader epoch and its producer."""

    start: int
    end: int
    last_stable: int
    batches: tuple[BatchHeader, ...]
    producers: tuple[Producer, ...]


@dataclass
class Visible:
    topics: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionView] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    transactions: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    # Leader epochs are no part of a comparison, because each start raises them.
    epochs: dict[tuple[str, int], int] = field(default_factory=dict, compare=False)


def visible(address: str, groups: Sequence[str]) -> Visible:
    """Return what a broker shows. Waits until its coordinators are loaded, decided transactions
    have their markers and partitions have a leader."""
    found = Visible()
    with Wire(address) as wire:
        wait_until(partial(_are_complete, wire), "the markers of all decided transactions")
        for group in groups:
            find_coordinator(wire, group, 0)
            found.offsets |= group_offsets(wire, group)
        found.transactions = transaction_states(wire)
        for topic in wire.call(MetadataRequest(topics=None), 12).topics:
            found.topics[topic.name] = topic.topic_id, len(topic.partitions)
            found.settings[topic.name] = _settings(wire, topic.name)
            for partition in topic.partitions:
                place = topic.name, partition.partition_index
                found.epochs[place] = partition.leader_epoch
            if not topic.name.startswith("__"):
                for number in range(len(topic.partitions)):
                    found.partitions[topic.name, number] = _partition(wire, topic.name, number)
    return found


def _are_complete(wire: Wire) -> bool:
    """Return True if no decided transaction lacks markers. Kafka responds to EndTxn before it
    writes them."""
    states = {state for state, _, _ in transaction_states(wire).values()}
    return not states & {"PrepareCommit", "PrepareAbort"}


def _settings(wire: Wire, topic: str) -> dict[str, str | None]:
    request = DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, topic, None)])
    (result,) = wire.call(request, 4).results
    assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
    return {
        config.name: config.value
        for config in result.configs
        if config.config_source == _OWN_SETTING
    }


def _partition(wire: Wire, topic: str, partition: int) -> PartitionView:
    wait_until(
        lambda: list_offset(wire, topic, EARLIEST, partition)[0] == ErrorCode.NONE,
        f"a leader of {topic}-{partition}",
    )
    _, _, start = list_offset(wire, topic, EARLIEST, partition)
    end = end_offset(wire, topic, partition)
    batches: list[BatchHeader] = []
    position = start
    while position < end:
        data = fetch(wire, topic, position, partition=partition)
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
        headers = [header for _, header in split_batches(data.records or b"", allow_partial=True)]
        batches += headers
        position = headers[-1].next_offset
    request = DescribeProducersRequest([TopicRequest(topic, [partition])])
    (response,) = wire.call(request, 0).topics[0].partitions
    producers = sorted(
        Producer(
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.current_txn_start_offset,
        )
        for state in response.active_producers
    )
    last_stable = last_stable_offset(wire, topic, partition)
    return PartitionView(start, end, last_stable, tuple(batches), tuple(producers))
