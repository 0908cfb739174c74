"""Commits that the coordinator refuses while a rebalance is in progress. Source:
`OffsetCommitResponseHandler` and `UnjoinedGroupException` of the Java client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from oncelog_client import (
    CommitFailedError,
    Consumer,
    KafkaError,
    RebalanceInProgressError,
    RebalanceListener,
    TopicPartition,
)
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import DROP, ScriptedBroker, simulated

PARTITION: Final = TopicPartition("t", 0)


class Broker(ScriptedBroker):
    """The coordinator of a group. `codes` has the error code of each API in it."""

    def __init__(self) -> None:
        super().__init__(self._script)
        self.codes: dict[ApiKey, ErrorCode] = {}
        self.slow: ApiKey | None = None
        self.dropped: set[ApiKey] = set()
        # With True, the leader's assignments reach no member.
        self.unassigned = False

    def _script(self, api: ApiKey, request: Any) -> Any:
        if api in self.dropped:
            return DROP
        if api is ApiKey.SYNC_GROUP and self.unassigned:
            request.assignments = []
        return self.respond(api, 4, request, self.codes[api]) if api in self.codes else None

    def _response_time(self, transport: Any, time_s: float) -> float:
        """Delay the responses of the slow API. It has a connection of its own."""
        _, api, _ = self.requests[-1]
        return time_s + 5 if api is self.slow else time_s

    def joining_ids(self) -> list[str]:
        """Return the member id of each JoinGroup request."""
        return [request.member_id for _, api, request in self.requests if api is ApiKey.JOIN_GROUP]

    async def rebalance(self, consumer: Consumer[bytes, bytes]) -> None:
        """Let the next heartbeat begin a rebalance, and the consumer join it."""
        self.codes[ApiKey.HEARTBEAT] = ErrorCode.REBALANCE_IN_PROGRESS
        joins = self.counts[ApiKey.JOIN_GROUP]
        while self.counts[ApiKey.JOIN_GROUP] == joins:
            await consumer.poll(1000)
        del self.codes[ApiKey.HEARTBEAT]


class Listener(RebalanceListener):
    """Notes the partitions that were revoked and lost. Commits them first, with `consumer`."""

    def __init__(self, consumer: Consumer[bytes, bytes] | None = None) -> None:
        self.consumer = consumer
        self.errors: list[KafkaError] = []
        self.revoked: list[TopicPartition] = []
        self.lost: list[TopicPartition] = []
        self.generations: list[int] = []

    async def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition], generation_id: int
    ) -> None:
        self.generations.append(generation_id)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.revoked += partitions
        if self.consumer is not None:
            try:
                await self.consumer.commit()
            except KafkaError as error:
                self.errors.append(error)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.lost += partitions


def group_consumer(strategy: str = "cooperative-sticky", **settings: Any) -> Consumer[bytes, bytes]:
    """Return a consumer. With cooperative-sticky it keeps its partitions in a rebalance."""
    settings["partition_assignment_strategy"] = [strategy]
    return Consumer("broker:9092", group_id="g", enable_auto_commit=False, **settings)


@pytest.mark.parametrize(
    ("code", "error", "joining_ids", "lost"),
    [
        # The coordinator has begun the next generation, so only the commit fails.
        (ErrorCode.ILLEGAL_GENERATION, RebalanceInProgressError, ["", "member-1"], []),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError, ["", "member-1", ""], [PARTITION]),
    ],
)
def test_a_commit_that_is_refused_before_the_join_response_does_not_break_the_join(
    code: ErrorCode, error: type[KafkaError], joining_ids: list[str], lost: list[TopicPartition]
) -> None:
    broker, listener = Broker(), Listener()

    async def scenario() -> None:
        async with group_consumer() as consumer:
            await consumer.subscribe("t", listener)
            await consumer.poll(1000)
            broker.slow = ApiKey.JOIN_GROUP
            await broker.rebalance(consumer)
            broker.codes[ApiKey.OFFSET_COMMIT] = code
            with pytest.raises(error):
                await consumer.commit({PARTITION: 0})
            await consumer.poll(60_000)
            assert consumer.assignment() == {PARTITION}
            assert broker.joining_ids() == joining_ids
            assert listener.lost == lost
            del broker.codes[ApiKey.OFFSET_COMMIT]
            await consumer.commit({PARTITION: 0})

    simulated(broker, scenario)


def test_a_member_that_is_unknown_joins_after_a_join_without_a_response() -> None:
    """The host of the coordinator has died, and the new coordinator does not know the member."""
    broker = Broker()

    async def scenario() -> None:
        async with group_consumer(
            max_poll_interval_ms=10_000, session_timeout_ms=6_000
        ) as consumer:
            await consumer.subscribe("t")
            await consumer.poll(1000)
            broker.dropped = {ApiKey.JOIN_GROUP}
            await broker.rebalance(consumer)
            broker.dropped = set()
            broker.codes[ApiKey.OFFSET_COMMIT] = ErrorCode.UNKNOWN_MEMBER_ID
            with pytest.raises(CommitFailedError):
                await consumer.commit({PARTITION: 0})
            await consumer.poll(60_000)
            assert consumer.assignment() == {PARTITION}
            assert broker.joining_ids() == ["", "member-1", ""]

    simulated(broker, scenario)


def test_no_commit_is_sent_between_the_join_response_and_the_sync_response() -> None:
    """A former defect: the request had the next generation, with offsets of the last assignment. A
    coordinator that has the leader's assignment already accepts it."""
    broker = Broker()

    async def scenario() -> None:
        async with group_consumer() as consumer:
            await consumer.subscribe("t")
            await consumer.poll(1000)
            broker.slow = ApiKey.SYNC_GROUP
            await broker.rebalance(consumer)
            await consumer.poll(1000)
            with pytest.raises(RebalanceInProgressError, match="poll"):
                await consumer.commit({PARTITION: 0})
            assert not broker.counts[ApiKey.OFFSET_COMMIT]
            await consumer.poll(60_000)
            assert broker.counts[ApiKey.JOIN_GROUP] == 2
            await consumer.commit({PARTITION: 0})
            assert broker.counts[ApiKey.OFFSET_COMMIT] == 1

    simulated(broker, scenario)


def test_a_commit_that_is_refused_in_a_rebalance_causes_no_further_rebalance() -> None:
    broker = Broker()

    async def scenario() -> None:
        async with group_consumer() as consumer:
            await consumer.subscribe("t")
            await consumer.poll(1000)
            broker.slow = ApiKey.JOIN_GROUP
            await broker.rebalance(consumer)
            broker.codes[ApiKey.OFFSET_COMMIT] = ErrorCode.REBALANCE_IN_PROGRESS
            with pytest.raises(RebalanceInProgressError):
                await consumer.commit({PARTITION: 0})
            assert broker.counts[ApiKey.OFFSET_COMMIT] == 1
            await consumer.poll(60_000)
            assert broker.counts[ApiKey.JOIN_GROUP] == 2

    simulated(broker, scenario)


def test_a_failed_commit_of_a_listener_does_not_change_the_generation_of_an_assignment() -> None:
    """A former defect: on_partitions_assigned got the generation -1."""
    broker = Broker()

    async def scenario() -> None:
        async with group_consumer() as consumer:
            listener = Listener(consumer)
            await consumer.subscribe("t", listener)
            await consumer.poll(1000)
            consumer.seek(PARTITION, 7)
            broker.codes[ApiKey.OFFSET_COMMIT] = ErrorCode.UNKNOWN_MEMBER_ID
            broker.unassigned = True
            await broker.rebalance(consumer)
            await consumer.poll(1000)
            assert listener.revoked == [PARTITION]
            assert listener.errors
            assert set(listener.generations) == {1}

    simulated(broker, scenario)


def test_a_failed_commit_of_a_listener_does_not_lose_the_next_generation() -> None:
    """A former defect: the partitions of the next generation were lost, not revoked, at its end."""
    broker = Broker()

    async def scenario() -> None:
        async with group_consumer("range") as consumer:
            listener = Listener(consumer)
            await consumer.subscribe("t", listener)
            await consumer.poll(1000)
            broker.codes[ApiKey.OFFSET_COMMIT] = ErrorCode.UNKNOWN_MEMBER_ID
            consumer.seek(PARTITION, 7)
            await broker.rebalance(consumer)
            del broker.codes[ApiKey.OFFSET_COMMIT]
            await consumer.poll(5_000)
            listener.revoked.clear()
            listener.lost.clear()
            await broker.rebalance(consumer)
            assert listener.errors
            assert (listener.revoked, listener.lost) == ([PARTITION], [])

    simulated(broker, scenario)
