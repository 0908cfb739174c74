"""Any broker takes requests to move partitions. The controller completes the moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import PartitionImage
from oncelog_server.cluster.isr_changes import IsrChange, Leader, isr_writes
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.reassignment_changes import MAX_REASSIGNED_AT_ONCE, PartitionTarget
from oncelog_server.cluster.store import Put
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.refusal import Refused
from tests.server.metadata.brokers import Brokers, until
from tests.server.metadata.test_controller_loop import end, three


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    brokers = Brokers()
    yield brokers
    await brokers.stop()


def of(metadata: ClusterMetadata, topic: str = "t") -> tuple[PartitionImage, ...]:
    return metadata.image.topics[topic].partitions


async def join(brokers: Brokers, metadata: ClusterMetadata, *followers: int) -> None:
    """Add followers to the ISR of all partitions of `t`, as their leaders do."""
    image = metadata.image
    for found in of(metadata):
        epochs = {follower: image.brokers[follower].epoch for follower in followers}
        change = IsrChange(
            found.topic_id,
            found.partition,
            found.leader_epoch,
            found.partition_epoch,
            tuple(dict.fromkeys((*found.isr, *followers))),
            epochs,
        )
        leader = Leader(found.leader, image.brokers[found.leader].epoch)
        for batch in isr_writes(image, ElectionRules(), leader, [change]).batches:
            result = await brokers.store.txn(batch.write.compare, batch.write.operations)
            assert result.succeeded


async def test_the_controller_completes_the_moves_that_another_broker_has_begun(
    brokers: Brokers,
) -> None:
    first, second, third = await three(brokers)
    count = 2 * MAX_REASSIGNED_AT_ONCE + 1
    assignments = tuple((number, (1, 2)) for number in range(count))
    await second.create_topics([NewTopic("t", assignments=assignments)])
    targets = [PartitionTarget("t", number, (2, 3)) for number in range(count)]
    assert await second.reassign_partitions(targets) == [None] * count
    assert {found.adding for found in of(second)} == {(3,)}
    await until(lambda: of(third) == of(second))
    await join(brokers, third, 3)
    await until(lambda: {found.replicas for found in of(first)} == {(2, 3)})
    assert {(found.leader, found.leader_epoch) for found in of(first)} == {(2, 1)}
    assert not any(found.is_reassigning for found in of(first))


async def test_a_new_controller_completes_the_moves_of_the_one_before(brokers: Brokers) -> None:
    first, second, _ = await three(brokers)
    await second.create_topics([NewTopic("t", assignments=((0, (2, 1)),))])
    await second.reassign_partitions([PartitionTarget("t", 0, (3, 2))])
    await until(lambda: of(first) == of(second))
    brokers.kill(first)
    await join(brokers, second, 3)
    await until(lambda: of(second)[0].isr == (2, 1, 3))
    assert of(second)[0].replicas == (3, 2, 1), "no broker completes it without a controller"
    await brokers.store.revoke_lease(first.membership.lease_id)
    await until(lambda: of(second)[0].replicas == (3, 2))
    assert second.image.controller_id in (2, 3)


async def test_a_broker_with_a_stale_image_decides_again(brokers: Brokers) -> None:
    first, second, _ = await three(brokers)
    await first.create_topics([NewTopic("t", assignments=((0, (1, 2)),))])
    await until(lambda: "t" in second.image.topics)
    # The store is ahead of the image when the request comes.
    found = of(second)[0]
    key = records.partition_key(second.image.topics["t"].id_text, 0)
    newer = records.PartitionRecord((1, 2), (1, 2), 1, 7, isr_epochs=found.isr_epochs)
    brokers.store.apply([Put(key, records.encode(newer))])
    assert of(second)[0].leader_epoch == 0
    assert await second.reassign_partitions([PartitionTarget("t", 0, (1, 3))]) == [None]
    assert (of(second)[0].replicas, of(second)[0].leader_epoch) == ((1, 3, 2), 7)


async def test_a_failure_of_the_store_is_the_result_of_the_partitions_that_are_not_refused(
    brokers: Brokers,
) -> None:
    first, _, _ = await three(brokers)
    await first.create_topics([NewTopic("t", assignments=((0, (1, 2)), (1, (1, 2))))])
    brokers.store.fail_next = [OSError("the disk is full")]
    targets = [PartitionTarget("t", 0, None), PartitionTarget("t", 1, (2, 3))]
    results = await first.reassign_partitions(targets)
    codes = [refused.code if isinstance(refused, Refused) else None for refused in results]
    assert codes == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.KAFKA_STORAGE_ERROR]
    assert not any(found.is_reassigning for found in of(first))


async def test_a_move_survives_the_end_of_the_broker_that_is_left(brokers: Brokers) -> None:
    first, second, third = await three(brokers)
    await first.create_topics([NewTopic("t", assignments=((0, (3, 2)),))])
    await first.reassign_partitions([PartitionTarget("t", 0, (2, 1))])
    await until(lambda: of(third) == of(first) == of(second))
    await end(brokers, third)
    await until(lambda: of(first)[0].isr == (2,))
    await until(lambda: of(first) == of(second))
    await join(brokers, first, 1)
    await until(lambda: of(first)[0].replicas == (2, 1))
    assert (of(first)[0].leader, of(first)[0].isr) == (2, (2, 1))
