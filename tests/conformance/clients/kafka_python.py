"""kafka-python behind the interface of the scripts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.net import KafkaNetSocket, KafkaSSLTransport
from kafka.structs import OffsetAndMetadata

from tests.conformance.clients.interface import (
    ANSWER_TIMEOUT_S,
    SESSION_MS,
    Received,
    Record,
    Refused,
)

_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_FENCED = {"ProducerFencedError", "InvalidProducerEpochError", "FencedInstanceIdError"}


# kafka-python 3.0.12 leaves a socket open if the client is closed while it connects, or while the
# transport has unsent requests. The next garbage collection would fail a test with a
# ResourceWarning, so these classes replace the finalizer that warns.
class _ClosedAtLast(socket.socket):
    def __del__(self) -> None:
        self.close()


class _SecuredClosedAtLast(ssl.SSLSocket):
    def __del__(self) -> None:
        self.close()


def _socket(_: Any, family: int, sock_type: int, proto: int) -> socket.socket:
    return _ClosedAtLast(family, sock_type, proto)


def _ssl_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    context: ssl.SSLContext = _build_ssl_context(config)
    context.sslsocket_class = _SecuredClosedAtLast
    return context


_build_ssl_context = KafkaSSLTransport._build_ssl_context
KafkaSSLTransport._build_ssl_context = staticmethod(_ssl_context)
KafkaNetSocket.socket = _socket


def _raising(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return call(*arguments, **named)
    except KafkaError as error:
        kind = type(error).__name__
        raise Refused(kind, str(error), fenced=kind in _FENCED) from error


class KafkaPythonProducer:
    """An idempotent kafka-python producer, transactional if it has an id."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = kafka.KafkaProducer(**settings)

    def send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]:
        sent = [
            _raising(
                self._producer.send,
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        _raising(self._producer.flush, timeout=ANSWER_TIMEOUT_S)
        places = [_raising(future.get, timeout=ANSWER_TIMEOUT_S) for future in sent]
        return sorted((place.partition, place.offset) for place in places)

    def init_transactions(self) -> None:
        _raising(self._producer.init_transactions)

    def begin(self) -> None:
        _raising(self._producer.begin_transaction)

    def commit(self) -> None:
        _raising(self._producer.commit_transaction)

    def abort(self) -> None:
        _raising(self._producer.abort_transaction)

    def send_offsets(self, offsets: Mapping[int, int], consumer: Any) -> None:
        metadata = consumer.consumer.group_metadata()
        _raising(self._producer.send_offsets_to_transaction, consumer.places(offsets), metadata)

    def close(self) -> None:
        self._producer.close(timeout=1)


class KafkaPythonConsumer:
    """A kafka-python consumer of one topic."""

    def __init__(self, settings: Mapping[str, Any], topic: str, partitions: Sequence[int]) -> None:
        self.consumer = kafka.KafkaConsumer(**settings)
        self._topic = topic
        self._joins = not partitions
        self._join: Future[bool] | None = None
        self._thread = ThreadPoolExecutor(1)
        if partitions:
            self.consumer.assign(
                [kafka.TopicPartition(topic, partition) for partition in partitions]
            )
        else:
            # Fetch the metadata again before the first join. At the join, kafka-python 3.0.12
            # compares the metadata with the metadata at `subscribe`, and joins again if they
            # differ.
            self.consumer.subscribe([topic])
            self.consumer.topics()

    def poll(self, timeout_s: float) -> list[Received]:
        if self._joins and not self._has_joined(timeout_s):
            return []
        batches = _raising(self.consumer.poll, timeout_ms=int(timeout_s * 1000))
        return [_received(record) for batch in batches.values() for record in batch]

    def _has_joined(self, timeout_s: float) -> bool:
        """Join the group if necessary. Return False if the join takes longer than the timeout.

        kafka-python 3.0.12 forgets a join that ends between two polls, and joins again
        (`join_group_async` looks only for a join in progress). A leader that joins again causes a
        rebalance each time. So a thread waits for the end of the join, however short the polls are.
        """
        if self._join is None:
            join = self.consumer._coordinator.ensure_active_group
            self._join = self._thread.submit(join, timeout_ms=int(ANSWER_TIMEOUT_S * 1000))
        if not wait([self._join], timeout_s).done:
            return False
        ended, self._join = self._join, None
        return bool(_raising(ended.result))

    def assignment(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self.consumer.assignment())

    def places(self, offsets: Mapping[int, int]) -> dict[Any, Any]:
        """Return the offsets in kafka-python's types."""
        return {
            kafka.TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }

    def commit(self, offsets: Mapping[int, int]) -> None:
        _raising(self.consumer.commit, self.places(offsets))

    def close(self) -> None:
        self.consumer.close(autocommit=False)
        self._thread.shutdown()


class KafkaPython:
    """kafka-python, the pure Python client."""

    name = "kafka-python"
    strategies = frozenset(_ASSIGNORS)

    def __init__(self, security: Mapping[str, Any] | None = None) -> None:
        """`security`: the settings of TLS and SASL."""
        self._security = dict(security or {})

    def producer(
        self, address: str, *, codec: str = "none", transactional_id: str | None = None
    ) -> KafkaPythonProducer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap_servers": address,
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": True,
            "delivery_timeout_ms": int(ANSWER_TIMEOUT_S * 1000),
            "request_timeout_ms": 10_000,
            "max_block_ms": int(ANSWER_TIMEOUT_S * 1000),
        }
        if transactional_id is not None:
            settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": 20_000}
        return KafkaPythonProducer(settings)

    def consumer(
        self,
        address: str,
        topic: str,
        *,
        group: str | None = None,
        partitions: Sequence[int] = (),
        read_committed: bool = False,
        strategy: str = "range",
        instance_id: str | None = None,
    ) -> KafkaPythonConsumer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap_servers": address,
            "group_id": group,
            "group_instance_id": instance_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed" if read_committed else "read_uncommitted",
            "partition_assignment_strategy": (_ASSIGNORS[strategy],),
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 200,
            "fetch_max_wait_ms": 100,
        }
        return KafkaPythonConsumer(settings, topic, partitions)


def _received(record: Any) -> Received:
    return Received(
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple((name, value) for name, value in record.headers),
    )
