"""Commits with a failed search for the coordinator. The search is no attempt to commit, so the
outcome of the transaction stays known. The tests run in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog_client import (
    AbortableError,
    Admin,
    CommitOutcomeUnknown,
    KafkaError,
    Producer,
    TimedOutError,
    TopicPartition,
    TransactionMember,
)
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import CLOSE, DROP, TOPIC, ScriptedBroker, messages, simulated

SERVER = "broker:9092"
MEMBER = TransactionMember("x", 100, 0)
# The failures of a FindCoordinator request.
UNAVAILABLE, BROKEN, OTHER_BROKER = "unavailable", "broken", "another broker"


class Coordinator(ScriptedBroker):
    """A broker that refuses EndTxn with each of `refusals` in turn, and accepts it afterwards. With
    `search` set, each FindCoordinator request fails in this way after the first EndTxn. The first
    `searches` of them fail."""

    def __init__(
        self, *refusals: object, search: str | None = None, searches: int = 1_000_000
    ) -> None:
        super().__init__(self._respond)
        self._refusals = list(refusals)
        self.search = search
        self._searches = searches

    def _respond(self, api: ApiKey, request: Any) -> Any:
        if api is ApiKey.END_TXN and self._refusals:
            refusal = self._refusals.pop(0)
            return self.respond(api, 5, request, refusal) if isinstance(refusal, int) else refusal
        if api is not ApiKey.FIND_COORDINATOR or not self.counts[ApiKey.END_TXN]:
            return None
        if self.search is None or not self._searches:
            return None
        self._searches -= 1
        if self.search == UNAVAILABLE:
            return self.respond(api, 5, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.search == BROKEN:
            return CLOSE
        # The metadata do not have this broker.
        m = messages(api)
        return m.FindCoordinatorResponse(
            coordinators=[m.Coordinator(request.coordinator_keys[0], 7, "broker-7", 9092, 0)]
        )


async def _commit() -> None:
    async with Producer(SERVER, transactional_id="x", max_block_ms=3_000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(TOPIC, b"v")
        await producer.commit_transaction()


async def _commit_shared() -> None:
    async with Admin(SERVER, default_api_timeout_ms=3_000) as admin:
        await admin.end_transaction(MEMBER, committed=True)


async def _commit_state_log() -> None:
    async with Admin(SERVER, default_api_timeout_ms=3_000) as admin:
        state_log = admin.state_log(TopicPartition(TOPIC, 0))
        await state_log.commit(MEMBER, 0, [(b"k", b"v")])


COMMITS = pytest.mark.parametrize("commit", [_commit, _commit_shared, _commit_state_log])
Commit = Callable[[], Awaitable[None]]


def _error(broker: Coordinator, commit: Commit) -> KafkaError | None:
    """Return the error of the commit, or None after a success."""

    async def scenario() -> KafkaError | None:
        try:
            await commit()
        except KafkaError as error:
            return error
        return None

    return simulated(broker, scenario)


@COMMITS
@pytest.mark.parametrize("search", [None, UNAVAILABLE, BROKEN, OTHER_BROKER])
def test_a_failed_search_is_no_attempt_to_commit(commit: Commit, search: str | None) -> None:
    """A former defect: after the failed search, the fence raised a fatal CommitOutcomeUnknown."""
    broker = Coordinator(
        ErrorCode.NOT_COORDINATOR, ErrorCode.PRODUCER_FENCED, search=search, searches=2
    )
    error = _error(broker, commit)
    assert not isinstance(error, CommitOutcomeUnknown)
    assert error is not None
    assert error.code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [_commit_shared, _commit_state_log])
@pytest.mark.parametrize("search", [UNAVAILABLE, BROKEN, OTHER_BROKER])
def test_searches_until_the_deadline_leave_the_outcome_known(commit: Commit, search: str) -> None:
    error = _error(Coordinator(ErrorCode.NOT_COORDINATOR, search=search), commit)
    assert isinstance(error, TimedOutError)
    assert not isinstance(error, CommitOutcomeUnknown)


@pytest.mark.parametrize("search", [UNAVAILABLE, BROKEN, OTHER_BROKER])
def test_a_commit_that_was_never_sent_may_be_refused_later_without_doubt(search: str) -> None:
    broker = Coordinator(ErrorCode.NOT_COORDINATOR, ErrorCode.PRODUCER_FENCED, search=search)

    async def scenario() -> None:
        async with Producer(SERVER, transactional_id="x", max_block_ms=1_000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"v")
            with pytest.raises(CommitOutcomeUnknown):
                await producer.commit_transaction()
            broker.search = None
            # InitProducerId is not refused, so the coordinator has aborted the transaction.
            with pytest.raises(AbortableError):
                await producer.commit_transaction()

    simulated(broker, scenario)


@COMMITS
@pytest.mark.parametrize("lost", [DROP, CLOSE])
def test_a_lost_response_to_an_attempt_to_commit_leaves_the_outcome_unknown(
    commit: Commit, lost: object
) -> None:
    """The later failures of the search do not change this."""
    error = _error(Coordinator(lost, search=UNAVAILABLE), commit)
    assert isinstance(error, CommitOutcomeUnknown)


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_cancelled_commit_has_an_unknown_outcome_only_if_it_was_sent(is_sent: bool) -> None:
    """A former defect: a commit that was cancelled during the search for the coordinator counted
    as sent, so that a later fence raised a fatal CommitOutcomeUnknown."""
    first = DROP if is_sent else ErrorCode.NOT_COORDINATOR
    # The connection breaks at the first fence if an earlier response is missing.
    fences = [ErrorCode.PRODUCER_FENCED] * 2
    broker = Coordinator(first, *fences, search=UNAVAILABLE)

    async def scenario() -> None:
        async with Producer(SERVER, transactional_id="x", max_block_ms=60_000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"v")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await producer.commit_transaction()
            broker.search = None
            with pytest.raises(CommitOutcomeUnknown if is_sent else AbortableError):
                await producer.commit_transaction()

    simulated(broker, scenario)
