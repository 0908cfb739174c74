"""The disk of one broker refuses the replicas of a new topic, and the other brokers serve it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest.mock import patch

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.cluster.image import TopicImage
from oncelog_server.cluster.partition_additions import NewPartitions
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.partition.partition import Partition
from oncelog_server.storage.files import StorageError
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.replication.brokers import TOPIC, Cluster, cluster


@contextmanager
def full(broker: Broker) -> Iterator[None]:
    """The disk of a broker has no space for new logs of the topic."""
    opening = broker._replica_manager._opening
    really_open = opening.open

    def refuse(topic: TopicImage, name: TopicPartition, *, known: bool) -> Partition | None:
        if topic.name == TOPIC:
            raise StorageError("create", str(name), "No space left on device")
        return really_open(topic, name, known=known)

    with patch.object(opening, "open", refuse):
        yield


@asynccontextmanager
async def acknowledged_by(broker: Broker, index: int) -> AsyncIterator[list[ErrorCode]]:
    """Append a record with acks=all as soon as a broker leads the partition. The list gets its
    outcome."""
    outcomes: list[ErrorCode] = []

    async def produce() -> None:
        while True:
            led = broker.partitions.get(TopicPartition(TOPIC, index))
            if led is not None and led.is_leader:
                appended = led.append(batch(), now_ms=NOW_MS)
                led.when_committed(appended.last_offset + 1, outcomes.append)
                return
            await asyncio.sleep(0)

    producing = asyncio.create_task(produce())
    try:
        yield outcomes
        await asyncio.wait_for(producing, 60)
    finally:
        producing.cancel()


async def is_served(found: Cluster, broker_id: int, index: int) -> None:
    """Return when a broker leads the partition."""
    name = TopicPartition(TOPIC, index)

    def leads() -> bool:
        opened = found.brokers[broker_id].partitions.get(name)
        return opened is not None and opened.is_leader

    await found.until(leads)


async def test_a_topic_with_acknowledged_records_is_not_deleted_for_the_full_disk_of_a_broker(
    tmp_path: Path,
) -> None:
    """CreateTopics does not depend on the disk of the broker that gets the request (KIP-112)."""
    async with cluster(tmp_path, 1, 2) as found:
        first, second = found.brokers[1], found.brokers[2]
        with full(first):
            async with acknowledged_by(second, 1) as outcomes:
                new = NewTopic(TOPIC, assignments=((0, (1,)), (1, (2,))))
                (created,) = await first.metadata.create_topics([new])
            assert isinstance(created, CreatedTopic)
            await found.until(lambda: outcomes)
            assert outcomes == [ErrorCode.NONE]
            assert first.partitions.offline_reason(TopicPartition(TOPIC, 0)) is not None
            added = await first.metadata.create_partitions([NewPartitions(TOPIC, 3, ((1,),))])
            assert added == [None]
        # The disk has space again, and the refused work opens the replicas.
        for index in (0, 2):
            await is_served(found, 1, index)
        assert second.metadata.image.topics[TOPIC].id == created.id
        assert found.replica(2, 1).log_end_offset == 1


async def test_another_broker_leads_the_new_partitions_of_a_full_disk(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as found:
        first = found.brokers[1]
        with full(first):
            new = NewTopic(TOPIC, assignments=((0, (1, 2)),))
            (created,) = await first.metadata.create_topics([new])
            assert isinstance(created, CreatedTopic)
            await found.until(lambda: found.image().leader == 2)
            async with acknowledged_by(found.brokers[2], 0) as outcomes:
                pass
            await found.until(lambda: outcomes)
            assert outcomes == [ErrorCode.NONE]
        await found.until(lambda: set(found.image().isr) == {1, 2})
        await found.replicated(2, 1)
