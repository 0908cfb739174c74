"""The access rights that a source needs. READ implies DESCRIBE (KIP-11), which a source needs too.
`tests/spark/rights` runs sources without each of the rights."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_client.core.acl_bindings import AclOperation, AclResourceType, PatternType
from oncelog_client.spark.settings.rights import Right
from oncelog_client.spark.sink.protocol.state import SINK_PARTITION
from oncelog_client.spark.sink.protocol.state_topic import STATE_TOPIC


def source_rights(
    topics: Iterable[str],
    *,
    group: str | None = None,
    sink_id: str | None = None,
    is_prefix: bool = False,
) -> tuple[Right, ...]:
    """Return the rights of a source that reads `topics`. With `is_prefix`, the topics are the
    beginnings of names. `group`: the group of the option commitOffsetsToGroup. `sink_id`: the sink
    of `startingOffsets=sink:…`. Only a sink that commits by record needs READ on the state topic.
    For a sink that commits by group DESCRIBE is enough there, because the topic has no record of
    the sink."""
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    topic, of_group = AclResourceType.TOPIC, AclResourceType.GROUP
    found = [Right(AclOperation.READ, topic, name, pattern) for name in topics]
    if group is not None:
        lag = "the group shows the lag; without it the source warns and continues"
        found.append(Right(AclOperation.READ, of_group, group, pattern, lag))
    if sink_id is not None:
        found += [
            Right(AclOperation.DESCRIBE, of_group, sink_id),
            Right(AclOperation.DESCRIBE, topic, SINK_PARTITION.topic),
            Right(AclOperation.READ, topic, STATE_TOPIC),
        ]
    return tuple(found)
