"""W6: topics are created, changed and deleted during transactions that write to them. Records in
other partitions stay atomic, and the transaction still ends after a partition is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from oncelog_client import (
    Admin,
    AlterConfigOp,
    ConfigResource,
    KafkaError,
    NewTopic,
    Producer,
    ResourceType,
)
from oncelog_protocol.errors import ErrorCode
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.transactional import TransactionalClient

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld

# Codes that a retry gets if the first attempt, without a response, has done the work.
DONE_BEFORE: Final = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PARTITIONS,
    }
)


class Churn(TransactionalClient):
    kind = "churn"

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.transactional_id = name
        self._admin: Admin | None = None

    async def work(self) -> None:
        producer = await self.open_producer()
        self._admin = Admin(self.world.bootstrap, **self.settings(default_api_timeout_ms=2_500))
        try:
            await self._admin.start()
            await producer.init_transactions()
            while not self.is_done:
                await self.make()
                usable = await self.transaction(producer)
                await self.remove()
                if not usable:
                    return
                await self.idle(20)
        finally:
            await self._admin.close()
            await self.close(producer)

    @property
    def topic(self) -> str:
        """Return one of two names. After a deletion, the name stands for a new topic."""
        return f"{self.name}-{self.done % 2}"

    @property
    def admin(self) -> Admin:
        assert self._admin is not None
        return self._admin

    async def make(self) -> None:
        self.world.recreated.add(self.topic)
        with done_before():
            await self.admin.create_topics([NewTopic(self.topic, 1, 1)])
        if self.rng.random() < 0.3:
            with done_before():
                await self.admin.create_partitions({self.topic: 2})
        if self.rng.random() < 0.3:
            resource = ConfigResource(ResourceType.TOPIC, self.topic)
            size = str(self.rng.choice((1_000, 4_000)))
            with done_before():
                await self.admin.alter_configs(
                    {resource: [AlterConfigOp("internal.segment.bytes", size)]}
                )

    async def remove(self) -> None:
        with done_before():
            await self.admin.delete_topics([self.topic])

    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        """Write to this client's topic and to shared partitions. Record only the values in shared
        partitions, because no reader reads this client's topic."""
        ticket = await producer.send(self.topic, b"gone", partition=0)
        ticket.add_done_callback(lambda done: done.cancelled() or done.exception())
        for _ in range(self.rng.randint(1, 2)):
            topic, partition = self.rng.choice(self.world.shared_partitions)
            await self.send(producer, attempt, topic, partition, self.world.recorder.next_value())
        if self.rng.random() < 0.5:
            with suppress(KafkaError):
                await producer.flush()
            await self.remove()
            self.world.sometimes.met("topic deleted under a transaction")


@contextmanager
def done_before() -> Iterator[None]:
    """Ignore the error if an earlier attempt without a response has done the work."""
    try:
        yield
    except KafkaError as error:
        if error.code not in DONE_BEFORE:
            raise
