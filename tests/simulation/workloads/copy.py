"""W2: members of one group copy a topic, with offsets and outputs in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog_client import (
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.reading import by_key
from tests.simulation.workloads.transactional import TransactionalClient

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld

GROUP = "copiers"


class _Moved(RebalanceListener):
    """A listener that notes the partitions that the member has lost or got."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    async def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition], generation_id: int
    ) -> None:
        self.keys.update(map(str, partitions))

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.keys.update(map(str, partitions))


class Copy(TransactionalClient):
    kind = "copy"

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.transactional_id = name
        self._records: list[ConsumerRecord] = []
        self._consumer: Consumer | None = None
        self._moved = _Moved()

    @property
    def is_done(self) -> bool:
        return self.world.is_copied or self.world.is_late

    async def work(self) -> None:
        producer = await self.open_producer()
        consumer = self._consumer = Consumer(
            self.world.bootstrap,
            **self.settings(
                group_id=GROUP,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=1_500,
                heartbeat_interval_ms=300,
                max_poll_interval_ms=6_000,
                default_api_timeout_ms=2_000,
            ),
        )
        self._moved = _Moved()
        try:
            await producer.init_transactions()
            await consumer.start()
            await consumer.subscribe("in", self._moved)
            inputs = map(str, self.world.input_partitions)
            self.world.recorder.assigned(self.me, inputs, subscribed=True)
            while not self.is_done:
                self._records = await consumer.poll(timeout_ms=100, max_records=5)
                if not self._records:
                    await self.look_for_end(consumer)
                elif not await self.transaction(producer):
                    return
        finally:
            await consumer.close(timeout_ms=1_000)
            await self.close(producer)

    async def look_for_end(self, consumer: Consumer) -> None:
        if not self.world.is_fed:
            return
        partitions = self.world.input_partitions
        committed = await consumer.committed(*partitions)
        ends = await consumer.end_offsets(partitions)
        self.world.is_copied = all(
            (offset.offset if (offset := committed[partition]) is not None else 0)
            >= ends[partition]
            for partition in partitions
        )

    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        assert self._consumer is not None
        attempt.poll(by_key(self._records))
        attempt.rebalanced = frozenset(self._moved.keys)
        self._moved.keys.clear()
        offsets: dict[TopicPartition, int] = {}
        for record in self._records:
            # Each attempt has a different value, so that histories can distinguish attempts.
            value = self.world.recorder.next_value()
            self.world.copied_from[value] = (record.partition, record.offset)
            await self.send(producer, attempt, "out", record.partition, value)
            offsets[record.topic_partition] = record.offset + 1
        attempt.group_offsets = {(GROUP, str(place)): offset for place, offset in offsets.items()}
        await producer.send_offsets_to_transaction(
            {place: OffsetAndMetadata(offset) for place, offset in offsets.items()},
            self._consumer.group_metadata(),
        )

    async def after_abort(self) -> None:
        assert self._consumer is not None
        await self._consumer.reset_to_last_committed()
