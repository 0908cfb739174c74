"""Random requests of operators that are refused or only checked, and requests about groups that
leave both brokers in the same state."""

from __future__ import annotations

from random import Random
from typing import Any

from oncelog_protocol.messages import alter_configs as replacing
from oncelog_protocol.messages import create_partitions as growing
from oncelog_protocol.messages import create_topics as creating
from oncelog_protocol.messages import delete_groups as deleting_groups
from oncelog_protocol.messages import delete_records as trimming
from oncelog_protocol.messages import delete_topics as deleting
from oncelog_protocol.messages import describe_configs as describing
from oncelog_protocol.messages import incremental_alter_configs as changing
from oncelog_protocol.messages import offset_commit as committing
from oncelog_protocol.messages import offset_fetch as reading
from tests.conformance.beside.requests_about_records import PARTITIONS, Asked
from tests.conformance.beside.side import NO_ID, TIMEOUT_MS, Side

TOPIC, BROKER = 2, 4
ASSIGNMENTS: tuple[list[int], ...] = ([1], [1], [1, 1], [], [7], [-1])
# At most one of them is wrong in each request, because Kafka looks at them in the order of a hash
# map and responds with the first that is wrong.
SETTINGS = (
    ("retention.ms", "5"),
    ("retention.ms", "x"),
    ("retention.ms", None),
    ("nosuch", "1"),
    ("", ""),
    ("cleanup.policy", "compact"),
    ("segment.bytes", "1"),
    ("min.insync.replicas", "0"),
    ("log.retention.ms", "-5"),
)


def create_topics(draw: Random, side: Side) -> Asked:
    names = (side.log, side.missing, side.missing + "2", "", "..", "a/b", "x" * 250)
    topics = [
        creating.CreatableTopic(
            draw.choice(names),
            draw.choice((1, -1, -1, 0, -2, 3)),
            draw.choice((1, -1, -1, 0, -2, 2)),
            [
                creating.CreatableReplicaAssignment(
                    draw.choice((0, 0, 1, -1)), list(draw.choice(ASSIGNMENTS))
                )
                for _ in range(draw.choice((0, 0, 0, 1, 2)))
            ],
            _configs(draw),
        )
        for _ in range(draw.randint(0, 3))
    ]
    # The response of v5 and later lists all settings, one of them with a source of ELR (KIP-966).
    return creating.CreateTopicsRequest(topics, TIMEOUT_MS, True), draw.randint(2, 4)


def _configs(draw: Random) -> list[creating.CreatableTopicConfig]:
    """Return no setting, or a setting once or twice. A repeated setting has a value, because Kafka
    would name it twice in its message."""
    name, value = draw.choice(SETTINGS)
    times = draw.randint(0, 2 if value is not None else 1)
    return [creating.CreatableTopicConfig(name, value)] * times


def create_partitions(draw: Random, side: Side) -> Asked:
    topics = [
        growing.CreatePartitionsTopic(
            draw.choice((side.log, side.wide, side.empty, side.missing, "", "a b")),
            draw.choice((1, 2, 3, 4, 5, 13, 0, -1)),
            draw.choice(
                (
                    None,
                    [],
                    [growing.CreatePartitionsAssignment(list(draw.choice(ASSIGNMENTS)))],
                    [growing.CreatePartitionsAssignment([1])] * 2,
                )
            ),
        )
        for _ in range(draw.randint(0, 3))
    ]
    return growing.CreatePartitionsRequest(topics, TIMEOUT_MS, True), draw.randint(0, 3)


def delete_topics(draw: Random, side: Side) -> Asked:
    version = draw.randint(1, 6)
    unknown = (side.missing, "", ".", "a b")
    if version < 6:
        names = [draw.choice(unknown) for _ in range(draw.randint(0, 3))]
        return deleting.DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS), version
    topics = [
        deleting.DeleteTopicState(
            draw.choice((None, *unknown)), draw.choice((NO_ID, side.id_of(side.missing)))
        )
        for _ in range(draw.randint(0, 3))
    ]
    return deleting.DeleteTopicsRequest(topics, timeout_ms=TIMEOUT_MS), version


def delete_records(draw: Random, side: Side) -> Asked:
    names = (side.compact, side.empty, side.missing, "a b", "__consumer_offsets")
    topics = [
        trimming.DeleteRecordsTopic(
            name,
            [
                trimming.DeleteRecordsPartition(index, draw.choice((-1, 0, 1, 100, -2, 1 << 50)))
                for index in draw.sample(PARTITIONS, draw.randint(1, 3))
            ],
        )
        for name in draw.sample(names, draw.randint(0, 3))
    ]
    return trimming.DeleteRecordsRequest(topics, TIMEOUT_MS), draw.randint(0, 2)


def _resource(draw: Random, side: Side) -> tuple[int, str]:
    of_topic = [(TOPIC, name) for name in (side.log, side.missing, "", "a b")]
    return draw.choice((*of_topic, (BROKER, "7"), (BROKER, "x"), (99, "x")))


def describe_configs(draw: Random, side: Side) -> Asked:
    keys = draw.choice(
        (["retention.ms", "flush.ms"], ["nosuch"], ["segment.ms"] * 2, ["local.retention.ms"])
    )
    kind, name = _resource(draw, side)
    if kind == 99:  # an intended difference, ONE_RESOURCE_OF_NO_TYPE
        kind, name = BROKER, "1"
    resource = describing.DescribeConfigsResource(kind, name, keys)
    return describing.DescribeConfigsRequest([resource], draw.random() < 0.5), draw.randint(1, 4)


def alter_configs(draw: Random, side: Side) -> Asked:
    changes = [replacing.AlterableConfig(*draw.choice(SETTINGS))] * draw.choice((0, 1, 1))
    resource = replacing.AlterConfigsResource(*_resource(draw, side), changes)
    return replacing.AlterConfigsRequest([resource], True), draw.randint(0, 2)


def incremental_alter_configs(draw: Random, side: Side) -> Asked:
    name, value = draw.choice(SETTINGS)
    change = changing.AlterableConfig(name, draw.choice((0, 0, 1, 2, 3)), value)
    changes = [change] * draw.choice((0, 1, 1, 2))
    resource = changing.AlterConfigsResource(*_resource(draw, side), changes)
    return changing.IncrementalAlterConfigsRequest([resource], True), draw.randint(0, 1)


def offset_commit(draw: Random, side: Side) -> Asked:
    member: tuple[int, str, str | None] = draw.choice(
        ((-1, "", None), (-1, "", None), (0, "", None), (1, "x", None), (-1, "x", None))
    )
    topics = [
        committing.OffsetCommitRequestTopic(
            name,
            side.id_of(name),
            [
                committing.OffsetCommitRequestPartition(
                    index,
                    draw.choice((0, 1, 100, -1, -2, 1 << 40)),
                    draw.choice((-1, 0, 5)),
                    draw.choice((None, "", "m", "x" * 4096, "x" * 4097)),
                )
                for index in draw.sample(PARTITIONS, draw.randint(1, 3))
            ],
        )
        for name in draw.sample((side.log, side.compact, side.missing, "a b"), draw.randint(0, 3))
    ]
    group = draw.choice((side.group, side.group, ""))
    return committing.OffsetCommitRequest(group, *member, -1, topics), draw.randint(2, 10)


def offset_fetch(draw: Random, side: Side) -> Asked:
    version = draw.randint(8, 10)
    topics: list[Any] | None = [
        reading.OffsetFetchRequestTopics(
            name, side.id_of(name), draw.sample(PARTITIONS, draw.randint(1, 3))
        )
        for name in draw.sample((side.log, side.compact, side.missing), draw.randint(0, 3))
    ]
    if draw.random() < 0.3:
        topics = None
    names = draw.sample((side.group, side.group + "-none", ""), draw.randint(0, 2))
    member = draw.choice((None, None, "", "x"))
    epoch = draw.choice((-1, 0, 7, -2))
    groups = [reading.OffsetFetchRequestGroup(name, member, epoch, topics) for name in names]
    return reading.OffsetFetchRequest(groups=groups, require_stable=draw.random() < 0.4), version


def delete_groups(draw: Random, side: Side) -> Asked:
    names = [draw.choice((side.group + "-none", "")) for _ in range(draw.randint(0, 3))]
    return deleting_groups.DeleteGroupsRequest(names), draw.randint(0, 2)


REQUESTS = (
    create_topics,
    create_partitions,
    delete_topics,
    delete_records,
    describe_configs,
    alter_configs,
    incremental_alter_configs,
    offset_commit,
    offset_fetch,
    delete_groups,
)
