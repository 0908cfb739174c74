"""The access rights that a sink needs. READ and WRITE imply DESCRIBE (KIP-11), so DESCRIBE is
listed only where neither READ nor WRITE is needed. `tests/spark/rights` runs sinks without each of
the rights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncelog_client.core.acl_bindings import (
    CLUSTER_NAME,
    AclOperation,
    AclResourceType,
    PatternType,
)
from oncelog_client.spark.settings.rights import Right

from .messages import CommitKind
from .state import SINK_PARTITION
from .state_topic import STATE_TOPIC

_TOPIC: Final = AclResourceType.TOPIC
_ID: Final = AclResourceType.TRANSACTIONAL_ID

# The sink's state. A sink that was written with the other sinkProtocol is refused, so each way to
# commit also reads the group's offset that the other way commits.
_STATE: Final = {
    CommitKind.GROUP: (
        Right(AclOperation.READ, _TOPIC, SINK_PARTITION.topic),
        Right(AclOperation.DESCRIBE, _TOPIC, STATE_TOPIC),
    ),
    CommitKind.RECORD: (
        Right(AclOperation.READ, _TOPIC, STATE_TOPIC),
        Right(AclOperation.WRITE, _TOPIC, STATE_TOPIC),
        Right(AclOperation.DESCRIBE_CONFIGS, _TOPIC, STATE_TOPIC),
        Right(
            AclOperation.CREATE,
            _TOPIC,
            STATE_TOPIC,
            purpose="the sink creates its state topic if that is missing",
        ),
        Right(AclOperation.DESCRIBE, _TOPIC, SINK_PARTITION.topic),
    ),
}
_TIMEOUT: Final = Right(
    AclOperation.DESCRIBE_CONFIGS,
    AclResourceType.CLUSTER,
    CLUSTER_NAME,
    purpose="the sink refuses a too long kafka.transaction.timeout.ms before the work begins",
)


def sink_rights(
    sink_id: str, topics: Iterable[str], kind: CommitKind, *, is_prefix: bool = False
) -> tuple[Right, ...]:
    """Return the rights of a sink that writes to `topics`. With `is_prefix`, `sink_id` and `topics`
    are the beginnings of names: of several sinks, or of batch writes without txnAppId."""
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    ids = Right(AclOperation.WRITE, _ID, sink_id, pattern)
    if not is_prefix:
        # The driver's own producer has the sink's id, and the ids of the tasks' producers begin
        # with it.
        members = Right(AclOperation.WRITE, _ID, f"{sink_id}/", PatternType.PREFIXED)
    else:
        members = ids
    two_phase = members._replace(
        operation=AclOperation.TWO_PHASE_COMMIT,
        purpose="decided transactions have no timeout (KIP-939), if the broker allows this",
    )
    return (
        *(Right(AclOperation.WRITE, _TOPIC, topic, pattern) for topic in topics),
        *dict.fromkeys((ids, members)),
        Right(AclOperation.READ, AclResourceType.GROUP, sink_id, pattern),
        *_STATE[kind],
        *((two_phase,) if kind is CommitKind.RECORD else ()),
        _TIMEOUT,
    )
