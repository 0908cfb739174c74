"""The new leaders that a broker names when it refuses a request for a partition that it no longer
leads (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from oncelog_client.values import Node, TopicPartition

if TYPE_CHECKING:
    # Every client imports this module for its metadata. Few clients need the messages of both APIs.
    from oncelog_protocol.messages.fetch import FetchResponse, PartitionData
    from oncelog_protocol.messages.produce import PartitionProduceResponse, ProduceResponse


class LeaderHint(NamedTuple):
    """A partition's leader, by its node id, and the epoch of the leader."""

    partition: TopicPartition
    leader: int
    leader_epoch: int


class LeaderHints(NamedTuple):
    """The hints of a response, and the addresses of leaders that it names."""

    leaders: tuple[LeaderHint, ...] = ()
    nodes: tuple[Node, ...] = ()


NO_HINTS = LeaderHints()


def hints_of(response: ProduceResponse | FetchResponse) -> LeaderHints:
    """Return the hints of a response, or NO_HINTS if it has none."""
    leaders = tuple(_leaders(response))
    if not leaders:
        return NO_HINTS
    nodes = (Node(row.node_id, row.host, row.port, row.rack) for row in response.node_endpoints)
    return LeaderHints(leaders, tuple(nodes))


def _leaders(response: ProduceResponse | FetchResponse) -> Iterator[LeaderHint]:
    for partition, row in _rows(response):
        hint = row.current_leader
        if row.error_code and hint is not None and hint.leader_id >= 0 and hint.leader_epoch >= 0:
            yield LeaderHint(partition, hint.leader_id, hint.leader_epoch)


def _rows(
    response: ProduceResponse | FetchResponse,
) -> Iterator[tuple[TopicPartition, PartitionProduceResponse | PartitionData]]:
    # Both responses have topics, with different names for their rows.
    topics: Any = response.responses
    for topic in topics:
        if hasattr(topic, "partition_responses"):
            for row in topic.partition_responses:
                yield TopicPartition(topic.name, row.index), row
        else:
            for data in topic.partitions:
                yield TopicPartition(topic.topic, data.partition_index), data
