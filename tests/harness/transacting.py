"""The steps of a transaction as raw requests: partitions, offsets, and the view of a reader."""

from __future__ import annotations

from typing import Any

from oncelog.testing.wire import Wire
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import BUSY, Identity


def add_partitions(
    wire: Wire, producer: Identity, *places: tuple[str, int], version: int = 3
) -> list[int]:
    """Return the error codes of AddPartitionsToTxn, in the order of `places`, which have different
    topics."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id or "",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name, [at]) for name, at in places],
    )
    codes: list[dict[str, int]] = []

    def answered() -> bool:
        response = wire.call(request, version)
        codes.append(
            {
                topic.name: topic.results_by_partition[0].partition_error_code
                for topic in response.results_by_topic_v3_and_below
            }
        )
        return not BUSY & set(codes[-1].values())

    wait_until(answered, "the partitions are in the transaction")
    return [codes[-1][name] for name, _ in places]


def commit_offset(
    wire: Wire,
    producer: Identity,
    topic: str,
    offset: int,
    *,
    version: int = 5,
    group: str | None = None,
    **member: Any,
) -> int:
    """Return the error code of TxnOffsetCommit for partition 0 in the group. By default the group
    has the topic's name."""
    place = TxnOffsetCommitRequestTopic(
        name=topic, partitions=[TxnOffsetCommitRequestPartition(0, offset)]
    )
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id or "",
        group_id=topic if group is None else group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[place],
        **member,
    )
    codes: list[int] = []

    def answered() -> bool:
        codes.append(wire.call(request, version).topics[0].partitions[0].error_code)
        return codes[-1] not in BUSY

    wait_until(answered, "a response of the group's coordinator")
    return codes[-1]


def committed_offset(wire: Wire, topic: str, *, stable: bool) -> tuple[int, int]:
    """Return the committed offset of partition 0, and the error code of the group or partition.

    The group has the topic's name. The offset is -1 if the group has an error.
    """
    group = OffsetFetchRequestGroup(
        group_id=topic, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    response = wire.call(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
    if response.groups[0].error_code:
        return -1, response.groups[0].error_code
    found = response.groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


def last_stable_offset(wire: Wire, topic: str) -> tuple[int, int]:
    """Return the last stable offset and the high watermark of partition 0."""
    place = FetchTopic(topic=topic, partitions=[FetchPartition(0, partition_max_bytes=1)])
    response = wire.call(FetchRequest(isolation_level=1, topics=[place]), 12)
    found = response.responses[0].partitions[0]
    return found.last_stable_offset, found.high_watermark


def add_offsets(wire: Wire, producer: Identity, group: str, *, version: int = 3) -> int:
    """Return the error code of AddOffsetsToTxn."""
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=group,
    )
    codes: list[int] = []

    def answered() -> bool:
        codes.append(wire.call(request, version).error_code)
        return codes[-1] not in BUSY

    wait_until(answered, "the group is in the transaction")
    return codes[-1]
