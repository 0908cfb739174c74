"""W8: batches that several producers write together, with one commit decision for all of them, as
in Spark's sink. The same decision commits the number of the next batch as a group offset. After a
crash the next driver reads the last batch's outcome from this offset."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncelog_client import (
    Admin,
    CommitOutcomeUnknown,
    FencedInGroupError,
    GroupCommitError,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    RetriableError,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
)
from tests.simulation.checking.history import Outcome
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.operator import abort_hanging
from tests.simulation.workloads.transactional import TransactionalClient

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld

# The group offset of this partition counts batches. No reader reads the partition.
COUNTED: Final = TopicPartition("in", 0)
OFFSETS: Final = "__consumer_offsets"
MEMBERS: Final = 3
RIVAL_PROBABILITY: Final = 0.1
ASKED_AGAIN: Final = 4


@dataclass(slots=True)
class Batch:
    """A batch with an unknown outcome. `attempt`: its operation in the recorded history."""

    number: int
    attempt: Attempt


class GroupCommit(TransactionalClient):
    """A driver. `decided`: the number of decided batches. `generation`, `decided` and `pending`
    survive its crashes."""

    kind = "group-commit"

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.generation = 0
        self.decided = 0
        self.pending: Batch | None = None

    @property
    def is_done(self) -> bool:
        return self.has_done_enough and self.pending is None

    async def work(self) -> None:
        admin = Admin(self.world.bootstrap, **self.settings(default_api_timeout_ms=2_500))
        try:
            await admin.start()
            parent = await self.take_over(admin)
            await self.look(admin)
            while not self.is_done:
                await self.batch(admin, parent)
                await self.idle(20)
        finally:
            await admin.close()

    async def take_over(self, admin: Admin) -> TransactionMember:
        """Begin a new generation. It aborts the undecided transactions of older generations."""
        self.generation += 1
        return await self.initialize(admin, f"{self.name}-parent")

    async def initialize(self, admin: Admin, name: str) -> TransactionMember:
        timeout_ms = self.world.options.transaction_timeout_ms
        return await admin.init_producer(name, self.group, transaction_timeout_ms=timeout_ms)

    @property
    def group(self) -> TransactionGroup:
        return TransactionGroup(self.name, self.generation)

    async def look(self, admin: Admin) -> None:
        """Find the outcome of the last batch. Call this after `take_over`, because an older
        generation could still decide the batch before that."""
        try:
            offsets = await admin.list_group_offsets(self.name, [COUNTED], require_stable=True)
        except RetriableError:
            if self.world.options.is_lossy:
                # After a loss of data, the transaction coordinator may have forgotten a
                # transaction, and the group may still have its pending offsets.
                numbers = range(self.world.options.offsets_partitions)
                await abort_hanging(admin, [TopicPartition(OFFSETS, number) for number in numbers])
            raise
        found = offsets[COUNTED].offset if COUNTED in offsets else 0
        if self.pending is not None:
            committed = found > self.pending.number
            self.world.sometimes.met(
                f"group commit found {'done' if committed else 'not done'} after a crash"
            )
            self.pending.attempt.end(Outcome.OK if committed else Outcome.FAIL)
            self.pending = None
        if found < self.decided and not self.world.options.is_lossy:
            self.world.violate(
                f"{self.name}: {self.decided} batches were decided, but the group offset is {found}"
            )
        self.decided = found

    async def batch(self, admin: Admin, parent: TransactionMember) -> None:
        """Write and decide one batch. Raises KafkaError if a new generation must find the
        outcome."""
        attempt = self.world.recorder.begin(self.me, is_transaction=True)
        self.done += 1
        try:
            members = [await self.member(admin, number, attempt) for number in range(MEMBERS)]
        except BaseException:
            attempt.failed()
            raise
        attempt.outlive()
        self.pending = Batch(self.decided, attempt)
        fenced = self.rng.random() < RIVAL_PROBABILITY
        if fenced:
            await self.take_over(admin)
        try:
            await self.decide(admin, parent, [member for member in members if member is not None])
        except (FencedInGroupError, GroupCommitError) as error:
            self.world.sometimes.met(f"group commit refused: {type(error).__name__}")
            raise
        if fenced:
            self.world.violate(f"{self.name}: an older generation has committed")
        self.decided += 1
        self.world.sometimes.met("group committed")
        attempt.end(Outcome.OK)
        self.pending = None

    async def decide(
        self, admin: Admin, parent: TransactionMember, members: list[TransactionMember]
    ) -> None:
        offsets = {COUNTED: OffsetAndMetadata(self.decided + 1)}
        for _ in range(ASKED_AGAIN):
            try:
                await admin.commit_group(self.name, parent, members, offsets)
            except CommitOutcomeUnknown as unknown:
                self.world.sometimes.met("group commit outcome unknown")
                if unknown.fatal:
                    raise
                offsets = {}
                continue
            return
        raise KafkaError("the outcome of the group commit stays unknown")

    async def member(self, admin: Admin, number: int, attempt: Attempt) -> TransactionMember | None:
        """Run one task. It adopts the producer that the driver has initialized, writes, and leaves
        the transaction open."""
        name = f"{self.name}-{number}"
        given = await self.initialize(admin, name)
        producer = Producer(self.world.bootstrap, **self.producer_settings(transactional_id=name))
        try:
            await producer.start()
            await producer.adopt_transactions(given, self.group)
            await producer.begin_transaction()
            await self.fill(producer, attempt)
            return await producer.hand_over_transaction()
        finally:
            with suppress(KafkaError):
                await producer.close(timeout_ms=500)

    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        for _ in range(self.rng.randint(0, 3)):
            topic, partition = self.rng.choice(self.world.shared_partitions)
            await self.send(producer, attempt, topic, partition, self.world.recorder.next_value())
