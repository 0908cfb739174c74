"""The admin client's descriptions of producers and transactions. The names are those of the Java
client (KIP-664).

Times are milliseconds since 1970. Only oncelog reports `held_records`, `held_bytes`, `client_id`,
`client_address`, `time_left_ms` and `fences`. From any other broker these values are None, and
`fences` is empty.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog_client.core.settings import INT32_MAX
from oncelog_client.values import TopicPartition


class ProducerState(NamedTuple):
    """A producer id in a partition. `held_records` is the number of offsets from the start of the
    producer's open transaction to the high watermark, and `held_bytes` is the size of the log from
    this start on. read_committed readers do not get these records yet."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None = None
    current_transaction_start_offset: int | None = None
    held_records: int | None = None
    held_bytes: int | None = None


class TransactionListing(NamedTuple):
    """A transactional id in a list. `state` has Kafka's name, such as `Ongoing`."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class Fence(NamedTuple):
    """A producer id that is fenced up to `producer_epoch`. `client_id`, `client_address` and
    `principal` belong to the client that caused the fence. They are empty if the coordinator fenced
    the producer by itself; `principal` is also empty for User:ANONYMOUS. `refusals` counts the
    producer's requests that were refused since then."""

    producer_id: int
    producer_epoch: int
    cause: str
    fenced_at_ms: int
    client_id: str
    client_address: str
    refusals: int
    principal: str = ""


class TransactionDescription(NamedTuple):
    """A transactional id, as its coordinator knows it. `client_id`, `client_address` and
    `principal` belong to the client that opened the transaction. `principal` is None for
    User:ANONYMOUS. `time_left_ms` is the time until the coordinator aborts the transaction because
    of its timeout. `fences` begins with the oldest fence."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    topic_partitions: frozenset[TopicPartition]
    client_id: str | None = None
    client_address: str | None = None
    time_left_ms: int | None = None
    fences: tuple[Fence, ...] = ()
    principal: str | None = None

    @property
    def is_two_phase(self) -> bool:
        """Return True if the transaction takes part in a two-phase commit. Such a transaction has
        no timeout, which coordinators record as the largest timeout (KIP-939)."""
        return self.transaction_timeout_ms == INT32_MAX


class AbortTransactionSpec(NamedTuple):
    """The transaction to abort in one partition. A `coordinator_epoch` below 0 is taken as 0."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1
