"""Random requests that read partitions and topics, and change nothing."""

from __future__ import annotations

from random import Random
from typing import Any

from oncelog_protocol.messages import describe_producers as producers
from oncelog_protocol.messages import describe_topic_partitions as pages
from oncelog_protocol.messages import fetch as fetching
from oncelog_protocol.messages import find_coordinator as coordinators
from oncelog_protocol.messages import list_offsets as offsets
from oncelog_protocol.messages import list_transactions as transactions
from oncelog_protocol.messages import metadata
from oncelog_protocol.messages import offset_for_leader_epoch as epochs
from tests.conformance.beside.side import NO_ID, Side

# The request and its version.
Asked = tuple[Any, int]

PARTITIONS = (0, 1, 2, 9, -1)
INVALID_NAMES = (".", "a b")


def _topics(draw: Random, side: Side, least: int = 0) -> list[str]:
    """Return some names, each once, of topics that may not exist."""
    names = (side.log, side.compact, side.empty, side.wide, side.missing, *INVALID_NAMES)
    return draw.sample(names, draw.randint(least, 4))


def list_offsets(draw: Random, side: Side) -> Asked:
    stamps = (*range(-7, 1), *(side.base_ms + late for late in (10, 61, 71)), 1 << 62, -(1 << 63))
    topics = [
        offsets.ListOffsetsTopic(
            draw.choice((side.log, side.compact, side.empty, side.missing)),
            [
                offsets.ListOffsetsPartition(
                    draw.choice(PARTITIONS), draw.choice((-1, -1, 0, 1, -2)), draw.choice(stamps)
                )
                for _ in range(draw.randint(0, 3))
            ],
        )
        for _ in range(draw.randint(0, 3))
    ]
    version = draw.randint(1, 11)
    return offsets.ListOffsetsRequest(-1, draw.randint(0, 1), topics, 1_000), version


def offset_for_leader_epoch(draw: Random, side: Side) -> Asked:
    topics = [
        epochs.OffsetForLeaderTopic(
            name,
            [
                epochs.OffsetForLeaderPartition(
                    index, draw.choice((-1, -1, 0, 1, -2)), draw.choice((0, 1, 5, -1))
                )
                for index in draw.sample(PARTITIONS, draw.randint(1, 3))
            ],
        )
        for name in _topics(draw, side)
    ]
    return epochs.OffsetForLeaderEpochRequest(-1, topics), draw.randint(2, 4)


def fetch(draw: Random, side: Side) -> Asked:
    topics = [
        fetching.FetchTopic(
            name,
            side.id_of(name),
            [
                fetching.FetchPartition(
                    index,
                    draw.choice((-1, -1, 0, 1, -2)),
                    draw.choice((0, 1, 3, 7, 8, 9, -1, 1 << 40)),
                    draw.choice((-1, -1, 0, 5)),
                    draw.choice((-1, 0, 3)),
                    draw.choice((1 << 20, 0, 1, 200)),
                )
                for index in draw.sample(PARTITIONS, draw.randint(1, 3))
            ],
        )
        for name in draw.sample((side.log, side.compact, side.empty, side.missing), 2)
    ]
    session, epoch = draw.choice(((0, -1), (0, 0), (0, 5), (12345, 1), (12345, -1), (-5, 3)))
    request = fetching.FetchRequest(
        max_wait_ms=0,
        min_bytes=draw.choice((0, 1, -1)),
        max_bytes=draw.choice((1 << 20, 0, 1, 300)),
        isolation_level=draw.randint(0, 1),
        session_id=session,
        session_epoch=epoch,
        topics=topics,
        rack_id=draw.choice(("", "r")),
    )
    return request, draw.randint(4, 17)


def metadata_of_topics(draw: Random, side: Side) -> Asked:
    version = draw.randint(4, 13)
    wanted = [
        metadata.MetadataRequestTopic(NO_ID, draw.choice(_topics(draw, side, 1)))
        for _ in range(draw.randint(1, 4))
    ]
    if version >= 10 and draw.random() < 0.5:
        # From v12 on, the names count only if there is no id. Before that an id is an error.
        for name in draw.sample((side.log, side.wide, side.missing), 2):
            wanted.append(metadata.MetadataRequestTopic(side.id_of(name), None))
    draw.shuffle(wanted)
    request = metadata.MetadataRequest(wanted, False, draw.random() < 0.3, draw.random() < 0.3)
    return request, version


def describe_topic_partitions(draw: Random, side: Side) -> Asked:
    topics = [pages.TopicRequest(name) for name in _topics(draw, side, 1)]
    names = (side.log, side.wide, side.missing, "", side.wide + "0")
    cursor = pages.RequestCursor(draw.choice(names), draw.choice((0, 1, 5, -1, 100)))
    limit = draw.choice((2_000, 1, 2, 3, 7, 0, -1, 5_000))
    request = pages.DescribeTopicPartitionsRequest(topics, limit)
    if draw.random() < 0.4:
        request.cursor = cursor
    return request, 0


def describe_producers(draw: Random, side: Side) -> Asked:
    topics = [
        producers.TopicRequest(name, draw.sample(PARTITIONS, draw.randint(1, 3)))
        for name in _topics(draw, side)
    ]
    return producers.DescribeProducersRequest(topics), 0


def list_transactions(draw: Random, side: Side) -> Asked:
    names = ("Empty", "Ongoing", "ongoing", "Dead", "PrepareEpochFence", "x", "")
    states = [draw.choice(names) for _ in range(draw.randint(0, 3))]
    pattern = draw.choice((side.pattern, side.pattern, "(", "[", "*"))
    duration_ms = draw.choice((-1, 0, -2, 1 << 40))
    return transactions.ListTransactionsRequest(states, [], duration_ms, pattern), 2


def find_coordinator(draw: Random, side: Side) -> Asked:
    keys = [draw.choice((side.group, "", "a:b")) for _ in range(draw.randint(0, 3))]
    kind = draw.choice((0, 0, 1, -1, 3))
    version = draw.randint(0, 6)
    return coordinators.FindCoordinatorRequest(side.group, kind, keys), version


REQUESTS = (
    list_offsets,
    offset_for_leader_epoch,
    fetch,
    metadata_of_topics,
    describe_topic_partitions,
    describe_producers,
    list_transactions,
    find_coordinator,
)
