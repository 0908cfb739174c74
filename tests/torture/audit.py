"""The checks at the end of a torture run. No record is duplicated or lost, the committed offsets
are the ends of the input, and no reader is stuck."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.torture.access import Access, Role
from tests.torture.copier import GROUP, INPUT, OUTPUT
from tests.torture.workload import PARTITIONS

TIMEOUT_S = 30.0


@dataclass(slots=True)
class Verdict:
    """The counts of a run, and a sentence for every violation."""

    records: int = 0
    duplicates: int = 0
    losses: int = 0
    violations: list[str] = field(default_factory=list)
    # The number of faults of each kind.
    kinds: Counter[str] = field(default_factory=Counter)
    # The number of times that SIGKILL ended the broker.
    kills: int = 0
    # For each kind of fault, a line with the times until all transactions were decided.
    figures: list[str] = field(default_factory=list)
    # The number of bytes and name changes that power losses removed.
    dropped: int = 0
    forgotten: int = 0

    @property
    def faults(self) -> int:
        return self.kinds.total()

    @property
    def is_clean(self) -> bool:
        """Return True if every record was copied exactly once and nothing else was violated."""
        return not (self.duplicates or self.losses or self.violations)


def end_offsets(admin: Any, topic: str, *, committed: bool) -> dict[int, int]:
    """Return the last stable offsets if `committed`, else the high watermarks, by partition."""
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    wanted = {
        TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)
    }
    answers = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=TIMEOUT_S)
    return {place.partition: answer.result().offset for place, answer in answers.items()}


def committed_offsets(consumer: Consumer) -> dict[int, int]:
    """Return the committed offsets of the copiers' group, by partition."""
    places = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
    return {offset.partition: offset.offset for offset in consumer.committed(places, TIMEOUT_S)}


def audit(
    access: Access, written: Counter[str], read: Mapping[int, list[str]], verdict: Verdict
) -> None:
    """Compare the fed records with those that the live reader and new readers got. Compare the end
    offsets and the group's committed offsets."""
    settings = access.settings(Role.AUDITOR)
    admin = AdminClient({**settings, "log_level": 0})
    consumer = Consumer({**settings, "group.id": GROUP, "log_level": 0})
    try:
        committed = committed_offsets(consumer)
    finally:
        consumer.close()
    for topic in (INPUT, OUTPUT):
        stable = end_offsets(admin, topic, committed=True)
        ends = end_offsets(admin, topic, committed=False)
        if stable != ends:
            verdict.violations.append(f"{topic}: LSO {stable} is not HW {ends}")
        if topic == INPUT and committed != ends:
            verdict.violations.append(f"committed {committed} is not the end {ends}")
    source = read_all(settings, INPUT)
    sink = read_all(settings, OUTPUT)
    verdict.records = sum(map(len, sink.values()))
    compare("input", written, source, verdict)
    compare("output", written, sink, verdict)
    for partition, values in sink.items():
        if values != source[partition]:
            verdict.violations.append(f"partition {partition}: a different order from the input's")
        if values != read[partition]:
            verdict.violations.append(
                f"partition {partition}: the live reader got other records: "
                f"{difference(values, read[partition])}"
            )


def difference(right: list[str], seen: list[str]) -> str:
    """Return a text with the number of values, the first difference, and a few extra and missing
    values. `right`: the expected values."""
    first = next(
        (at for at, pair in enumerate(zip(right, seen, strict=False)) if pair[0] != pair[1]),
        min(len(right), len(seen)),
    )
    more = list((Counter(seen) - Counter(right)).elements())
    less = list((Counter(right) - Counter(seen)).elements())
    return (
        f"{len(seen)} values, expected {len(right)}; from value {first} on: "
        f"{seen[first : first + 3]}, expected {right[first : first + 3]}; "
        f"extra values: {more[:5]}, missing values: {less[:5]}"
    )


def compare(
    name: str, written: Counter[str], found: Mapping[int, list[str]], verdict: Verdict
) -> None:
    """Add the duplicates, losses and unknown values of a topic to the verdict."""
    counted = Counter(value for values in found.values() for value in values)
    doubled = [value for value, times in counted.items() if times > 1]
    missing = written.keys() - counted.keys()
    unknown = counted.keys() - written.keys()
    verdict.duplicates += len(doubled)
    verdict.losses += len(missing)
    for what, values in (("doubled", doubled), ("lost", missing), ("never fed", unknown)):
        if values:
            verdict.violations.append(f"{name}: {len(values)} {what}: {some(values)}")


def some(values: Iterable[str]) -> str:
    """Return the first few values as text."""
    return ", ".join(sorted(values)[:5])


def read_all(settings: Mapping[str, Any], topic: str) -> dict[int, list[str]]:
    """Return all committed records of a topic by partition, up to the last stable offset.

    Raises TimeoutError if the reader gets stuck before that offset.
    """
    consumer = Consumer(
        {
            **settings,
            "group.id": "torture-audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
            "fetch.wait.max.ms": 50,
        }
    )
    found: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
    at_end: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        while len(at_end) < PARTITIONS:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"a reader of {topic} is stuck; partitions read to the end: {at_end}"
                )
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found[message.partition()].append(message.value().decode())
                else:
                    at_end.add(message.partition())
    finally:
        consumer.close()
    return found
