"""Offsets [start, end) of one partition as Arrow batches, in the Python worker of a Spark executor.

The next Fetch is in flight while the previous response is decoded. Connections outlive a range,
because the next micro-batch comes to the same process.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from oncelog_client.connect_failures import Address
from oncelog_client.core.backoff import Backoff
from oncelog_client.core.client_config import client_config
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.core.isolation import AbortedRange, marked_batches
from oncelog_client.errors import (
    AuthenticationError,
    IncompleteResponseError,
    KafkaError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    RetriableError,
    TimedOutError,
    UnsupportedVersionError,
    check,
)
from oncelog_client.io.client_security import client_security
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.log_offsets import EARLIEST, list_offsets
from oncelog_client.io.randomness import fraction
from oncelog_client.spark.background import background
from oncelog_client.spark.host_files import naming_host
from oncelog_client.spark.records.arrow_decode import decode
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from oncelog_protocol.records.batch import BatchHeader
from oncelog_protocol.records.errors import CorruptRecords, DecompressedTooLarge
from oncelog_protocol.records.record import Bytes

from .fetch_socket import FetchSocket, FetchVersions, SocketSecurity

if TYPE_CHECKING:
    from oncelog_client.io.authentication import Login
    from oncelog_client.io.connection import Connection
    from oncelog_protocol.security.sasl_client import SaslClient

_FULL_FETCH_EPOCH: Final = -1
# The topic id of a broker that reports none.
NO_TOPIC_ID: Final = bytes(16)
# The versions of Fetch with topic ids (KIP-516). Later versions have no more than a reader needs.
_FETCH_BY_TOPIC_ID: Final = range(13, 14)
# The number of looks at the metadata that must all find another topic id, because the metadata of a
# broker may be stale.
_CHECKS_OF_TOPIC_ID: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """The settings of a read; picklable. `consumer` has the cluster, the fetch sizes and the
    isolation level; `poll_timeout_ms` (`kafkaConsumer.pollTimeoutMs`) limits the time without
    progress."""

    consumer: ConsumerConfig
    poll_timeout_ms: int = 120_000


class DataLost(OffsetOutOfRangeError):
    """The log begins after the offset `wanted`, or ends before it. `log_start_offset`: the first
    offset of the log."""

    def __init__(self, partition: TopicPartition, wanted: int, log_start_offset: int) -> None:
        self.topic, self.partition = partition
        self.wanted = wanted
        self.log_start_offset = log_start_offset
        super().__init__(
            f"{self.topic}-{self.partition}: offset {wanted} is not there,"
            f" the log begins at {log_start_offset}"
        )


class TopicRecreated(KafkaError):
    """The topic was deleted and created again since the range was planned."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            f"{partition}: the topic was deleted and created again", ErrorCode.UNKNOWN_TOPIC_ID
        )


def read_range(
    settings: ReadSettings,
    partition: TopicPartition,
    start: int,
    end: int,
    columns: Sequence[str],
    topic_id: bytes = NO_TOPIC_ID,
) -> Iterator[pa.RecordBatch]:
    """Yield the records at offsets in [start, end), with these columns in this order.

    Offsets may be missing (markers, aborted transactions, compaction). `topic_id` names the log,
    with Fetch from version 13 on (KIP-516); before, it is only compared when the leader is looked
    up. NO_TOPIC_ID stands for any log of this name.

    Raises DataLost if the log begins after the next offset or ends before it; TopicRecreated if the
    topic has another id; KafkaError (CORRUPT_MESSAGE) at a corrupt batch; RecordTooLargeError at a
    batch that decompresses to more than `ConsumerConfig.max_batch_bytes`; TimedOutError, with the
    last error, after `poll_timeout_ms` without progress; any other error of the broker that is not
    retriable.
    """
    reader = _Reader(settings, partition, end, topic_id)
    try:
        while start < end:
            data = reader.fetched(start)
            buffer: Bytes = data.records or b""
            try:
                found = list(_marked(data, buffer, start, settings.consumer))
                if not found:
                    raise CorruptRecords(f"{len(buffer)} bytes are not a whole batch")
                next_start = found[-1][1].next_offset
                reader.note(len(buffer), next_start - found[0][1].base_offset)
                if next_start < end:
                    reader.prefetch(next_start)
                yield from decode(
                    buffer,
                    [(at, header) for at, header, visible in found if visible],
                    partition,
                    columns,
                    start=start,
                    end=end,
                    check_crcs=settings.consumer.check_crcs,
                    max_batch_bytes=settings.consumer.max_batch_bytes,
                )
            except DecompressedTooLarge as error:
                raise RecordTooLargeError(
                    f"{partition}: a batch at offset {start} or after it holds more than "
                    f"{error.limit} bytes when decompressed. If it is no attack, raise "
                    "kafka.fetch.max.decompressed.factor (or kafka.fetch.max.bytes)"
                ) from error
            except CorruptRecords as error:
                message = f"{partition} at {start}: {error}"
                raise KafkaError(message, ErrorCode.CORRUPT_MESSAGE) from error
            start = next_start
    finally:
        reader.close()


def _marked(
    data: PartitionData, buffer: Bytes, start: int, config: ConsumerConfig
) -> Iterator[tuple[int, BatchHeader, bool]]:
    aborted = [
        AbortedRange(row.first_offset, row.producer_id) for row in data.aborted_transactions or ()
    ]
    return marked_batches(
        buffer,
        start,
        read_committed=config.read_committed,
        aborted=aborted,
        check_crcs=config.check_crcs,
    )


@dataclass(frozen=True, slots=True)
class _Replica:
    """The replica to fetch from: the leader, or a follower in the rack of the client that the
    leader has named (KIP-392). `epoch`: the leader epoch. `until_ms`: when the leader is asked
    again, for a follower `metadata.max.age.ms` after the leader has named it."""

    address: Address
    epoch: int
    versions: FetchVersions
    until_ms: float = math.inf

    @property
    def is_follower(self) -> bool:
        return self.until_ms < math.inf


# Idle connections, by process (a fork must not share them), settings and broker.
_idle: dict[tuple[int, ConsumerConfig, Address, FetchVersions], FetchSocket] = {}
# The security of the sockets, by process and settings. It is made again after an authentication
# failure, because files of certificates may have been replaced.
_securities: dict[tuple[int, ConsumerConfig], SocketSecurity] = {}
# Replicas that an earlier range has found. A replica is forgotten at the first error.
_replicas: dict[tuple[int, ConsumerConfig, TopicPartition, bytes], _Replica] = {}
# The bytes per offset in the last response.
_bytes_per_offset: dict[TopicPartition, float] = {}
# Factor between the requested bytes and the estimate, because the next records may be larger.
_ROOM: Final = 1.25
_LEAST_BYTES: Final = 1 << 16


def _security(config: ConsumerConfig) -> SocketSecurity:
    """Return the security of the sockets. Raises ConfigError for a file that cannot be used."""
    key = os.getpid(), config
    found = _securities.get(key)
    if found is None:
        with naming_host():
            tls, login = client_security(config)
        sasl = None
        if login is not None:
            timeout_s = config.request_timeout_ms / 1000
            # The function that returns a token may need an event loop.
            sasl = partial(_sasl_client, login, timeout_s)
        found = _securities[key] = SocketSecurity(tls, sasl)
    return found


def _sasl_client(login: Login, timeout_s: float) -> SaslClient:
    return background().run(login.client(), timeout_s)


class _Reader:
    """Fetches of one partition, one at a time."""

    def __init__(
        self, settings: ReadSettings, partition: TopicPartition, end: int, topic_id: bytes
    ) -> None:
        self._config = settings.consumer
        self._topic_id = topic_id
        self._end = end
        self._poll_timeout_ms = settings.poll_timeout_ms
        self._partition = partition
        self._backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        self._replica: _Replica | None = None
        # The node id of the follower to look up, None for the leader.
        self._follower: int | None = None
        # Empty once this read has followed the leader's response to a follower. If the follower
        # fails, the leader then serves the rest of the read itself.
        self._rack_id = self._config.client_rack
        self._socket: FetchSocket | None = None
        self._asked: int | None = None
        # True if the connection is from an earlier range.
        self._is_old = False
        # True if the known leader may be stale.
        self._is_stale = False

    def note(self, size_bytes: int, offsets: int) -> None:
        """Note the size of a response."""
        _bytes_per_offset[self._partition] = size_bytes / offsets

    def prefetch(self, offset: int) -> None:
        """Send the Fetch that begins at `offset`. If the Fetch fails, `fetched` retries it."""
        try:
            self._ask(offset, 0)
        except RetriableError:
            self._drop()

    def fetched(self, offset: int) -> PartitionData:
        """Return batches from `offset` on. Raises as `read_range` does."""
        deadline_ms = monotonic_ms() + self._poll_timeout_ms
        failures = 0
        error: KafkaError
        while True:
            try:
                data = self._fetched_once(offset, deadline_ms)
                if data.records:
                    return data
                if self._rack_id and data.preferred_read_replica >= 0:
                    self._follow(data.preferred_read_replica, deadline_ms)
                    continue
                # The broker may have responded at once, so the next request waits.
                failures += 1
                if self._is_at_follower:
                    self._drop()
                error = RetriableError("the broker has nothing there that may be read")
            except AuthenticationError:
                self._drop()
                _securities.pop((os.getpid(), self._config), None)
                raise
            except OffsetOutOfRangeError as failure:
                # The log of a follower may end earlier. Only the leader knows what is lost.
                was_at_follower = self._is_at_follower
                self._drop()
                if not was_at_follower:
                    raise DataLost(self._partition, offset, self._log_start_offset()) from None
                failures += 1
                error = failure
            except RetriableError as failure:
                # A connection from an earlier range may be broken although the broker runs. Its
                # error does not count as a failure.
                failures += not self._is_old
                self._drop()
                error = failure
            delay_ms = self._backoff.delay_ms(failures, fraction())
            if monotonic_ms() + delay_ms >= deadline_ms:
                raise TimedOutError(
                    f"{self._partition}: no record at or after offset {offset} came within"
                    f" {self._poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs): {error}"
                ) from error
            time.sleep(delay_ms / 1000)

    def _fetched_once(self, offset: int, deadline_ms: float) -> PartitionData:
        if self._asked != offset:
            self._ask(offset, deadline_ms)
        assert self._socket is not None
        self._asked = None
        response = self._socket.receive()
        self._is_old = False
        check(response.error_code)
        for topic in response.responses:
            # From version 13 on, a response has the topic's id instead of its name.
            if topic.topic != self._partition.topic and topic.topic_id != self._topic_id:
                continue
            for data in topic.partitions:
                if data.partition_index == self._partition.partition:
                    check(data.error_code, f"{self._partition} at {offset}")
                    return data
        raise IncompleteResponseError(f"the response to FETCH lacks {self._partition}")

    def _ask(self, offset: int, deadline_ms: float) -> None:
        if self._replica is None:
            known = _replicas.pop(self._range_key, None)
            if known is not None and monotonic_ms() < known.until_ms:
                self._replica = known
        if self._replica is None:
            self._replica = self._find_replica(max(deadline_ms - monotonic_ms(), 0))
        if self._socket is None:
            self._socket = _idle.pop(self._key(self._replica), None)
            self._is_old = self._socket is not None
        if self._socket is None:
            self._socket = FetchSocket(
                self._replica.address, self._replica.versions, self._config, _security(self._config)
            )
        self._socket.send(self._request(offset, self._replica))
        self._asked = offset

    @property
    def _is_at_follower(self) -> bool:
        return self._replica is not None and self._replica.is_follower

    def _follow(self, node: int, deadline_ms: float) -> None:
        """Fetch from the follower `node`, which the leader has named instead of a response with
        records (KIP-392). Raises RetriableError if its address is unknown or does not respond."""
        self.close()
        self._rack_id = ""
        self._follower = node
        self._replica = self._find_replica(max(deadline_ms - monotonic_ms(), 0))

    def _request(self, offset: int, replica: _Replica) -> FetchRequest:
        config = self._config
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.read_committed),
            session_epoch=_FULL_FETCH_EPOCH,
            topics=[
                FetchTopic(
                    topic=self._partition.topic,
                    topic_id=self._topic_id,
                    partitions=[
                        FetchPartition(
                            partition=self._partition.partition,
                            current_leader_epoch=replica.epoch,
                            fetch_offset=offset,
                            partition_max_bytes=self._most_bytes(offset),
                        )
                    ],
                )
            ],
            rack_id=self._rack_id,
        )

    def _most_bytes(self, offset: int) -> int:
        """Return the number of bytes to request, not much more than the rest of the range needs."""
        most = self._config.max_partition_fetch_bytes
        each = _bytes_per_offset.get(self._partition)
        if each is None:
            return most
        return min(most, max(_LEAST_BYTES, int((self._end - offset) * each * _ROOM)))

    # -- the cluster, by the async client

    def _find_replica(self, timeout_ms: float) -> _Replica:
        return background().run(self._look_up_replica(timeout_ms), _outer_timeout_s(timeout_ms))

    async def _cluster(self, timeout_ms: float) -> Cluster:
        config = client_config(self._config)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await background().client(config, lambda: Cluster(config, auto_create=False))
        except TimeoutError:
            servers = ", ".join(f"{host}:{port}" for host, port in config.bootstrap_servers)
            raise TimedOutError(f"no broker responds at {servers}") from None

    async def _look_up_replica(self, timeout_ms: float) -> _Replica:
        cluster = await self._cluster(timeout_ms)
        follower, mismatches = self._follower, 0

        async def attempt() -> _Replica:
            nonlocal mismatches
            if self._is_stale:
                await cluster.refresh()
                self._is_stale = False
            await cluster.topic(self._partition.topic, timeout_ms)
            if self._is_other_log(cluster):
                mismatches += 1
                self._is_stale = True
                if mismatches == _CHECKS_OF_TOPIC_ID:
                    raise TopicRecreated(self._partition)
                raise RetriableError(f"{self._partition}: the topic has another id")
            info = cluster.metadata.partition(self._partition)
            if info is None or info.leader is None:
                await cluster.refresh()
                raise cluster.metadata.no_leader(self._partition)
            address = cluster.address(info.leader if follower is None else follower)
            try:
                connection = await cluster.connection(address)
            except RetriableError:
                # The broker may be down, and the metadata may name it until the next leader is
                # elected.
                self._is_stale = True
                raise
            versions = FetchVersions(self._fetch_version(connection), connection.sasl_versions)
            until_ms = math.inf
            if follower is not None:
                until_ms = monotonic_ms() + self._config.metadata_max_age_ms
            return _Replica(address, info.leader_epoch, versions, until_ms)

        # A follower gets a single attempt, because the leader can serve the read.
        return await (attempt() if follower is not None else cluster.retry(attempt, timeout_ms))

    def _is_other_log(self, cluster: Cluster) -> bool:
        """Return True if the metadata have the topic with another id than the range."""
        topic = cluster.metadata.topics.get(self._partition.topic)
        ids = {NO_TOPIC_ID if topic is None else topic.topic_id, self._topic_id}
        return len(ids) > 1 and NO_TOPIC_ID not in ids

    def _fetch_version(self, connection: Connection) -> int:
        """Return the version of Fetch: with topic ids, if the broker has it."""
        if self._topic_id != NO_TOPIC_ID:
            with suppress(UnsupportedVersionError):
                return connection.version(FetchRequest(), _FETCH_BY_TOPIC_ID)
        return connection.version(FetchRequest())

    def _log_start_offset(self) -> int:
        timeout_ms = self._poll_timeout_ms
        return background().run(self._look_up_log_start(timeout_ms), _outer_timeout_s(timeout_ms))

    async def _look_up_log_start(self, timeout_ms: float) -> int:
        cluster = await self._cluster(timeout_ms)
        found = await list_offsets(
            cluster, {self._partition: EARLIEST}, timeout_ms, read_committed=False
        )
        return found[self._partition].offset

    # -- connections

    @property
    def _range_key(self) -> tuple[int, ConsumerConfig, TopicPartition, bytes]:
        return os.getpid(), self._config, self._partition, self._topic_id

    def _key(self, replica: _Replica) -> tuple[int, ConsumerConfig, Address, FetchVersions]:
        return os.getpid(), self._config, replica.address, replica.versions

    def _drop(self) -> None:
        """Close the connection and forget the replica, so that the next request looks the leader up
        in fresh metadata. After a follower, the leader serves the rest of the read itself."""
        if self._is_at_follower:
            self._rack_id = ""
        self._asked = self._replica = self._follower = None
        self._is_old, self._is_stale = False, True
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Leave the connection to the next range. Close it if a response is outstanding, or if
        another connection to this broker is already idle."""
        if self._socket is None or self._replica is None:
            return
        _replicas[self._range_key] = self._replica
        if self._socket.busy or _idle.setdefault(self._key(self._replica), self._socket) is not (
            self._socket
        ):
            self._socket.close()
        self._socket = None


def _outer_timeout_s(timeout_ms: float) -> float:
    """Return a timeout in seconds above the coroutine's own, in case the event loop is blocked."""
    return timeout_ms / 1000 + 10
