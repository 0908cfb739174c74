"""A refused request names the new leader, and the client goes there at once (KIP-951)."""

from __future__ import annotations

import pytest

from oncelog_client.core.leader_hints import NO_HINTS, LeaderHint, LeaderHints, hints_of
from oncelog_client.core.metadata import Metadata, TopicInfo
from oncelog_client.values import Node, PartitionInfo, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import fetch, produce

TP = TopicPartition("t", 0)
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
NODE = Node(2, "two", 9092, None)


def produced(code: int, leader: int, epoch: int) -> produce.ProduceResponse:
    row = produce.PartitionProduceResponse(
        index=0, error_code=code, current_leader=produce.LeaderIdAndEpoch(leader, epoch)
    )
    topic = produce.TopicProduceResponse(name="t", partition_responses=[row])
    return produce.ProduceResponse([topic], node_endpoints=[produce.NodeEndpoint(2, "two", 9092)])


def fetched(code: int, leader: int, epoch: int) -> fetch.FetchResponse:
    row = fetch.PartitionData(
        partition_index=0, error_code=code, current_leader=fetch.LeaderIdAndEpoch(leader, epoch)
    )
    topic = fetch.FetchableTopicResponse(topic="t", partitions=[row])
    return fetch.FetchResponse(
        responses=[topic], node_endpoints=[fetch.NodeEndpoint(2, "two", 9092)]
    )


@pytest.mark.parametrize("response", [produced(MOVED, 2, 6), fetched(MOVED, 2, 6)])
def test_a_refusal_names_the_leader_and_its_address(
    response: produce.ProduceResponse | fetch.FetchResponse,
) -> None:
    assert hints_of(response) == LeaderHints((LeaderHint(TP, 2, 6),), (NODE,))


@pytest.mark.parametrize(
    "response",
    [
        produced(ErrorCode.NONE, 2, 6),
        produced(MOVED, -1, 6),
        produced(MOVED, 2, -1),
        produce.ProduceResponse(),
        fetch.FetchResponse(),
    ],
)
def test_a_response_without_a_new_leader_has_no_hints(
    response: produce.ProduceResponse | fetch.FetchResponse,
) -> None:
    assert hints_of(response) is NO_HINTS


def known(epoch: int = 5) -> Metadata:
    info = PartitionInfo("t", 0, 1, epoch, (1, 2), (1, 2))
    brokers = {1: Node(1, "one", 9092, None)}
    return Metadata(brokers=brokers, topics={"t": TopicInfo("t", partitions=(info,))})


def test_the_metadata_takes_over_a_newer_leader_and_its_address() -> None:
    metadata = known().led_by(LeaderHints((LeaderHint(TP, 2, 6),), (NODE,)))
    assert metadata.leader(TP) == 2
    assert metadata.brokers[2] == NODE
    info = metadata.partition(TP)
    assert info is not None
    assert (info.leader_epoch, info.replicas) == (6, (1, 2))


@pytest.mark.parametrize(
    ("hint", "nodes"),
    [
        (LeaderHint(TP, 2, 5), (NODE,)),
        (LeaderHint(TP, 2, 4), (NODE,)),
        (LeaderHint(TP, 2, 6), ()),
        (LeaderHint(TopicPartition("t", 1), 2, 6), (NODE,)),
        (LeaderHint(TopicPartition("u", 0), 2, 6), (NODE,)),
    ],
    ids=["same epoch", "older epoch", "no address", "unknown partition", "unknown topic"],
)
def test_any_other_hint_changes_no_leader(hint: LeaderHint, nodes: tuple[Node, ...]) -> None:
    assert known().led_by(LeaderHints((hint,), nodes)).topics == known().topics
