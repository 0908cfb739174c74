"""A client's connections to the cluster: brokers, metadata, coordinators, calls with retries."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from oncelog_client.connect_failures import Address, ConnectCause, ConnectFailure
from oncelog_client.core.backoff import Backoff
from oncelog_client.core.client_config import ClientConfig
from oncelog_client.core.leader_hints import LeaderHints
from oncelog_client.core.metadata import HOPELESS_TOPIC_ERRORS, Metadata, TopicInfo, refusal_of
from oncelog_client.core.refusal_texts import refusal_text
from oncelog_client.core.request_versions import ANY_VERSION
from oncelog_client.errors import (
    AuthenticationError,
    ClosedError,
    ConnectError,
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    RetriableError,
    StaleCoordinatorError,
    check,
    error_for,
)
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from .clock import monotonic_ms
from .completion import complete
from .connection import Connection
from .connections import COORDINATOR_LANE, Connections
from .randomness import fraction, shuffled
from .retrying import never, retry

R = TypeVar("R")

log = logging.getLogger(__name__)


class CoordinatorType(IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    # A key type of oncelog: the coordinator of a consumer group's transactions.
    TRANSACTION_GROUP = 2


def lasting() -> Callable[[RetriableError], bool]:
    """Return a function that returns True if no further attempt can succeed. It gets the error of
    each attempt. A broker that stops closes a connection as a listener with SASL does, so
    NEEDS_SASL counts from the second attempt in a row on."""
    was_closed = False

    def is_lasting(error: RetriableError) -> bool:
        nonlocal was_closed
        causes = [failure.cause for failure in error.failures]
        is_closed = ConnectCause.NEEDS_SASL in causes
        is_first, was_closed = is_closed and not was_closed, is_closed
        return bool(causes) and not is_first and all(cause.is_lasting for cause in causes)

    return is_lasting


def _log_failure(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("background work of the client failed: %r", error, exc_info=error)


class Cluster:
    """The connections of one producer, consumer or admin client to the cluster. `auto_create`:
    Metadata requests may create topics."""

    def __init__(self, config: ClientConfig, *, auto_create: bool) -> None:
        self.config = config
        self.metadata = Metadata()
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        # Called after every refresh of the metadata.
        self.on_metadata: list[Callable[[], None]] = []
        self.all_topics = False
        # The topics that every refresh requests and that must become usable: while a refresh finds
        # an error for any of them, the next refresh follows after a backoff. The function gets the
        # known topics.
        self.needed_topics: Callable[[Iterable[str]], Iterable[str]] = lambda known: ()
        # The error of the last attempt of a call that is repeated now (see `retry`).
        self.retried: RetriableError | None = None
        self._auto_create = auto_create
        # Other topics of every refresh, and those of the calls that wait for a usable topic now.
        # The next refresh removes the forgotten topics from the metadata.
        self._topics: set[str] = set()
        self._forgotten: set[str] = set()
        self._waiting: Counter[str] = Counter()
        self._connections = Connections(config, spawn=self.spawn, on_failed=self.refresh_soon)
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._refreshing = asyncio.Lock()
        self._soon = False
        # Failed refreshes in a row, and the time in ms before which `refresh_soon` starts no other.
        self._failed_refreshes = 0
        self._retry_at_ms = -math.inf
        self._incomplete_refreshes = 0
        self._next_refresh: asyncio.TimerHandle | None = None
        self._refreshed_ms = -math.inf
        # A dict keeps the order of the starts, and a set does not. `close` cancels in this order.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._started = False
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None:
        """Reach any broker within `timeout_ms`, by default twice the request timeout.

        Raises RetriableError otherwise. The error's `failures` have the reason for each bootstrap
        server. Raises AuthenticationError at once, and ConfigError for an unusable file of keys or
        certificates. With `fail_fast` the call raises ConnectError as soon as every address has
        refused (connection refused, no such host, another protocol), because a retry would not
        help. Without `fail_fast`, the call waits for a broker that is starting.

        Raises ClosedError after `close`, and after a start that failed, because both end the
        client. Raises IllegalStateError for a second start.
        """
        self.check_loop()
        if self._closed:
            raise ClosedError("the client is closed: make a new one")
        if self._started:
            raise IllegalStateError("the client has started already: call start() once")
        self._started = True
        if timeout_ms is None:
            timeout_ms = 2 * self.config.request_timeout_ms
        self._connections.fail_fast = fail_fast
        try:
            await self.retry(self.refresh, timeout_ms, hopeless=lasting() if fail_fast else never)
        except BaseException:
            await self.close()
            raise
        finally:
            self._connections.fail_fast = False
        self.spawn(self._refresh_regularly())

    def check_loop(self) -> None:
        """Raise IllegalStateError on another event loop than that of the first call. Such a call,
        from another thread or a later `asyncio.run`, would leave the client unusable."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # a method that does not wait, between two runs of the loop
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise IllegalStateError(
                "the client belongs to another event loop: make a client in each asyncio.run, and "
                "use oncelog_client.sync from several threads"
            )

    @property
    def is_closed(self) -> bool:
        """Return True after `close`, and after a start that failed."""
        return self._closed

    async def close(self) -> None:
        """Close every connection and end the background work. If the caller is cancelled meanwhile,
        abort the connections, and raise CancelledError when nothing is left."""
        self.check_loop()
        self._closed = True
        if self._next_refresh is not None:
            self._next_refresh.cancel()
        self._connections.refuse()
        await complete(self._end, self._connections.abort)

    async def _end(self) -> None:
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._connections.close()
        await self._connections.wait_closed()

    def spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        """Start background work that ends with the client."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self.end_with_client(task)
        task.add_done_callback(_log_failure)
        return task

    def end_with_client(self, task: asyncio.Task[Any]) -> None:
        """Let `close` end a task. The error of the task is left to its other callers."""
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    # -- connections

    async def connection(self, address: Address, lane: str = "") -> Connection:
        """Return an open connection, as `Connections.get` does."""
        return await self._connections.get(address, lane)

    def ready_connection(
        self, node_id: int, lane: str, callback: Callable[[], None]
    ) -> Connection | None:
        """Return the connection to a broker if the connection is open. Otherwise return None, open
        the connection in the background, and call `callback` after the success or failure. For a
        broker that the metadata do not have, return None and never call `callback`."""
        node = self.metadata.brokers.get(node_id)
        if node is None:
            return None
        return self._connections.ready((node.host, node.port), lane, callback)

    def is_connected(self, node_id: int, lane: str) -> bool:
        """Return True if `ready_connection` would return a connection. Open no connection."""
        node = self.metadata.brokers.get(node_id)
        return node is not None and self._connections.is_open((node.host, node.port), lane)

    def refusal(self, node_id: int) -> AuthenticationError | None:
        """Return the error of the last connect to a broker if one side refused the identity of the
        other: requests to this broker fail until the cause is removed."""
        node = self.metadata.brokers.get(node_id)
        return None if node is None else self._connections.refusal((node.host, node.port))

    @property
    def features(self) -> Mapping[str, int]:
        """Return the finalized features of the last connected broker, with their levels."""
        return self._connections.features

    @property
    def failures(self) -> tuple[ConnectFailure, ...]:
        """Return, for each address, the failure of the last connect. An address without a failure
        is left out."""
        return self._connections.failures

    @property
    def outage(self) -> tuple[ConnectFailure, ...]:
        """Return `failures` if no connection to a broker is open. Otherwise return an empty
        tuple."""
        return self._connections.outage

    def address(self, node_id: int) -> Address:
        """Return the address of a broker. Raises RetriableError if the broker is not in the
        metadata."""
        node = self.metadata.brokers.get(node_id)
        if node is None:
            raise RetriableError(
                f"broker {node_id} is not in the metadata", ErrorCode.BROKER_NOT_AVAILABLE
            )
        return (node.host, node.port)

    async def call(
        self,
        node_id: int,
        request: object,
        response: type[R],
        *,
        lane: str = "",
        timeout_ms: float | None = None,
        versions: range = ANY_VERSION,
    ) -> R:
        """Call one broker, with one attempt."""
        try:
            connection = await self.connection(self.address(node_id), lane)
        except ConnectError:
            # The broker's address may have changed; any broker has the current metadata.
            self.refresh_soon()
            raise
        return await connection.call(request, response, timeout_ms=timeout_ms, versions=versions)

    async def call_any(self, request: object, response: type[R]) -> R:
        """Call any broker, with one attempt at each. Open connections come first: those to known
        brokers before those to bootstrap servers. Addresses without a connection follow: known
        brokers, then bootstrap servers."""
        failures: list[ConnectFailure] = []
        failure: KafkaError | None = None
        for address in self._candidates():
            try:
                return await (await self.connection(address)).call(request, response)
            except ConnectError as error:
                failures += error.failures
            except RetriableError as error:
                failure = error
        raise failure or ConnectError(*failures)

    async def call_controller(self, request: object, response: type[R]) -> R:
        """Call the broker that accepts changes of the cluster, with one attempt. If the metadata do
        not name this broker, call any broker."""
        if self.metadata.controller_id in self.metadata.brokers:
            return await self.call(self.metadata.controller_id, request, response)
        return await self.call_any(request, response)

    def _candidates(self) -> list[Address]:
        known = shuffled([(node.host, node.port) for node in self.metadata.brokers.values()])
        bootstrap = shuffled(list(self.config.bootstrap_servers))
        opened = sorted(self._connections.addresses(), key=lambda address: address not in known)
        return list(dict.fromkeys((*opened, *known, *bootstrap)))

    # -- metadata

    async def refresh(self) -> None:
        """Request the brokers and the topics of interest. The request is sent after this call, so
        the response is not older than the call."""
        called_ms = monotonic_ms()
        async with self._refreshing:
            if self._refreshed_ms >= called_ms:
                return
            try:
                await self._refresh()
            except KafkaError:
                self._failed_refreshes += 1
                delay_ms = self.backoff.delay_ms(self._failed_refreshes, fraction())
                self._retry_at_ms = monotonic_ms() + delay_ms
                raise
            finally:
                self._repeat_if_incomplete()
            self._failed_refreshes = 0
            self._retry_at_ms = -math.inf
        for callback in self.on_metadata:
            callback()

    async def _refresh(self) -> None:
        started_ms = monotonic_ms()
        names = None if self.all_topics else sorted(self._requested())
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=self._auto_create,
        )
        response = await self.call_any(request, MetadataResponse)
        check(response.error_code)
        if not response.brokers:
            raise DisconnectedError("the cluster has no brokers yet")
        known = self.metadata.without(self._forgotten - self._requested())
        self._forgotten.clear()
        self.metadata = known.merged(response, whole=names is None)
        self._refreshed_ms = started_ms

    def _repeat_if_incomplete(self) -> None:
        """Refresh again after a backoff while a needed topic is missing, or has an error that a
        refresh may resolve. The backoff grows with each such refresh in a row
        (Metadata.handleMetadataResponse and timeToAllowUpdate of the Java client)."""
        if self._next_refresh is not None:
            self._next_refresh.cancel()
            self._next_refresh = None
        needed = self.needed_topics(self.metadata.topics)
        if self._closed or not self.metadata.lacks_any(needed):
            self._incomplete_refreshes = 0
            return
        self._incomplete_refreshes += 1
        delay_ms = self.backoff.delay_ms(self._incomplete_refreshes, fraction())
        loop = asyncio.get_running_loop()
        self._next_refresh = loop.call_later(delay_ms / 1000, self.refresh_soon)

    def learn_leaders(self, hints: LeaderHints) -> frozenset[TopicPartition]:
        """Take over new leaders that a broker has named. Return their partitions: a request to the
        new leader needs no pause (KIP-951)."""
        if not hints.leaders:
            return frozenset()
        old, self.metadata = self.metadata, self.metadata.led_by(hints)
        return frozenset(
            hint.partition
            for hint in hints.leaders
            if self.metadata.partition(hint.partition) != old.partition(hint.partition)
        )

    def refresh_soon(self) -> None:
        """Request fresh metadata in the background, but only once per `retry_backoff_ms`. After
        failures in a row the wait grows to `retry_backoff_max_ms` (Metadata.failedUpdate of the
        Java client)."""
        if not (self._soon or self._refreshing.locked() or self._closed):
            self._soon = True
            self.spawn(self._refresh_when_due())

    async def _refresh_when_due(self) -> None:
        due_ms = max(self._refreshed_ms + self.backoff.initial_ms, self._retry_at_ms)
        await asyncio.sleep(max(due_ms - monotonic_ms(), 0) / 1000)
        self._soon = False
        await self._refresh_quietly()

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except KafkaError as error:
            # Each use of the metadata that needs a refresh calls `refresh_soon` again.
            log.debug("the metadata could not be refreshed: %s", error)

    async def _refresh_regularly(self) -> None:
        while True:
            await asyncio.sleep(self.config.metadata_max_age_ms / 1000)
            await self._refresh_quietly()

    def _requested(self) -> set[str]:
        """Return the topics of a refresh that does not request all topics."""
        return {*self.needed_topics(self.metadata.topics), *self._topics, *self._waiting}

    def watch(self, topics: Iterable[str]) -> None:
        """Add topics to every later refresh, until `forget_topics`."""
        self._topics.update(topics)

    def forget_topics(self) -> None:
        """Request only the needed topics from now on, and the topics of calls that wait. A refresh
        that names a deleted topic may create it (ConsumerMetadata.retainTopic of the Java
        client)."""
        self._topics.clear()
        self._forgotten.update(self.metadata.topics)

    async def topic(self, name: str, timeout_ms: float) -> TopicInfo:
        """Return the metadata of a topic, and retry until the topic is usable. Every later refresh
        has a topic that was usable once.

        Raises the broker's error if a retry cannot succeed. After `timeout_ms`, raises the last
        RetriableError, or TimedOutError during an attempt.
        """
        info = self.metadata.topics.get(name)
        if info is not None and info.usable:
            return info

        async def ask() -> TopicInfo:
            await self.refresh()
            info = self.metadata.topics.get(name)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error
            if error in HOPELESS_TOPIC_ERRORS:
                raise error_for(error, refusal_of(name, error))
            if info is None or not info.usable:
                raise error_for(error or ErrorCode.LEADER_NOT_AVAILABLE, name)
            return info

        self._waiting[name] += 1
        try:
            return await self.retry(ask, timeout_ms)
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]
            info = self.metadata.topics.get(name)
            if info is not None and info.usable:
                self._topics.add(name)

    # -- coordinators

    async def coordinator(self, kind: CoordinatorType, key: str) -> int:
        """Return the node id of the coordinator of a group or a transactional id, with one
        attempt."""
        found = self._coordinators.get((kind, key))
        if found is not None and found in self.metadata.brokers:
            return found
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response = await self.call_any(request, FindCoordinatorResponse)
        if response.coordinators:
            row = next(row for row in response.coordinators if row.key == key)
            check(row.error_code, refusal_text(row.error_code, key, row.error_message))
            node_id = row.node_id
        else:
            check(
                response.error_code, refusal_text(response.error_code, key, response.error_message)
            )
            node_id = response.node_id
        if node_id not in self.metadata.brokers:
            await self.refresh()
        self._coordinators[kind, key] = node_id
        return node_id

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Forget the coordinator, so that the next call looks it up."""
        self._coordinators.pop((kind, key), None)

    async def call_coordinator(
        self,
        kind: CoordinatorType,
        key: str,
        request: object,
        response: type[R],
        *,
        lane: str = COORDINATOR_LANE,
        timeout_ms: float | None = None,
        versions: range = ANY_VERSION,
    ) -> R:
        """Call the coordinator, with one attempt. After a retriable failure, such as a broken
        connection or a timeout, the next call looks the coordinator up again."""
        connection = await self.coordinator_connection(kind, key, lane)
        try:
            return await connection.call(
                request, response, timeout_ms=timeout_ms, versions=versions
            )
        except RetriableError:
            self.forget_coordinator(kind, key)
            raise

    async def coordinator_connection(
        self, kind: CoordinatorType, key: str, lane: str = COORDINATOR_LANE
    ) -> Connection:
        """Return an open connection to the coordinator, with one attempt as in
        `call_coordinator`."""
        node_id = await self.coordinator(kind, key)
        try:
            return await self.connection(self.address(node_id), lane)
        except RetriableError as error:
            self.forget_coordinator(kind, key)
            if isinstance(error, ConnectError):
                # The coordinator may have moved. Any broker or bootstrap server can name it.
                self.refresh_soon()
            raise

    async def ask_coordinator(
        self,
        kind: CoordinatorType,
        key: str,
        attempt: Callable[[], Awaitable[R]],
        timeout_ms: float,
    ) -> R:
        """Repeat `attempt` until it succeeds. After a StaleCoordinatorError, look the coordinator
        up again."""

        async def once() -> R:
            try:
                return await attempt()
            except StaleCoordinatorError:
                self.forget_coordinator(kind, key)
                raise

        return await self.retry(once, timeout_ms)

    # -- retries

    async def retry(
        self,
        attempt: Callable[[], Awaitable[R]],
        timeout_ms: float,
        *,
        hopeless: Callable[[RetriableError], bool] = never,
    ) -> R:
        """Return the result of the first attempt that succeeds, as `retrying.retry` does.

        Raises IllegalStateError on another event loop than that of the first call.

        `hopeless` returns True for an error that ends the retries. The `failures` of an error list
        the addresses with a failed connect. `retried` is the error of the last attempt that failed,
        while such a call continues.
        """
        self.check_loop()

        async def once() -> R:
            try:
                result = await attempt()
            except RetriableError as error:
                self.retried = error
                raise
            self.retried = None
            return result

        try:
            return await retry(
                once,
                timeout_ms,
                self.backoff,
                failures=lambda: self.failures,
                hopeless=hopeless,
            )
        finally:
            self.retried = None
