"""The logs of a broker, decoded from its files by test code: batches of invoices and shipments, the
coordinator's records, markers and pending offsets. The broker gets no request for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from examples.purchases.billing import INVOICES, SHIPMENTS
from oncelog_protocol.internal.group_metadata import (
    OffsetCommitKey,
    decode_key,
    decode_offset_commit_value,
)
from oncelog_protocol.internal.transaction_log import (
    TransactionLogValue,
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_protocol.records.batch import BatchHeader, read_records, split_batches
from oncelog_protocol.records.control import read_marker

OUTPUTS: Final = (INVOICES, SHIPMENTS)
TRANSACTIONS: Final = "__transaction_state"
OFFSETS: Final = "__consumer_offsets"
OPEN: Final = TransactionState.ONGOING
DECIDED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
ENDED: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_LARGE: Final = 1 << 30


class Place(NamedTuple):
    topic: str
    partition: int


class Batch(NamedTuple):
    """The identity of an idempotent producer's batch."""

    place: Place
    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True)
class Step:
    """One record of a transaction coordinator's log. `started_ms`: the start of its transaction."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    started_ms: int
    places: frozenset[Place]

    @property
    def name(self) -> str:
        """Return the state's name as admin tools show it."""
        return self.state.kafka_name


@dataclass(slots=True)
class Logs:
    """The logs at one moment. `steps`: for each transactional id, oldest first. `data`: the offsets
    of each batch, more than one for a duplicate. `tails`: the epoch and last sequence number (-1
    after a marker) by producer id and partition. `markers`: the number of markers by producer id
    and partition. `pending`: offsets without a marker, by producer id and partition. `committed`:
    the committed offsets."""

    steps: dict[str, list[Step]] = field(default_factory=dict)
    data: dict[Batch, list[int]] = field(default_factory=dict)
    tails: dict[tuple[int, Place], tuple[int, int]] = field(default_factory=dict)
    markers: Counter[tuple[int, Place]] = field(default_factory=Counter)
    pending: dict[int, dict[Place, int]] = field(default_factory=dict)
    committed: dict[Place, int] = field(default_factory=dict)

    def last(self) -> dict[str, Step]:
        """Return the newest step of every transactional id."""
        return {name: steps[-1] for name, steps in self.steps.items()}

    def since(self, earlier: Logs) -> Logs:
        """Return the additions since `earlier`. Tails and offsets are the current ones."""
        return Logs(
            {
                name: new
                for name, steps in self.steps.items()
                if (new := steps[len(earlier.steps.get(name, ())) :])
            },
            {batch: at for batch, at in self.data.items() if batch not in earlier.data},
            self.tails,
            self.markers - earlier.markers,
            self.pending,
            self.committed,
        )

    def count(self, *states: TransactionState) -> int:
        """Return the number of steps into one of these states."""
        return sum(step.state in states for steps in self.steps.values() for step in steps)

    def ends(self, *states: TransactionState) -> dict[str, Step]:
        """Return the transactional ids with a newest step in one of these states, each with that
        step."""
        return {name: step for name, step in self.last().items() if step.state in states}

    def markers_in(self, topic: str) -> int:
        return sum(count for (_, place), count in self.markers.items() if place.topic == topic)


def read_logs(data: Path, group: str) -> Logs:
    """Read all logs below `data`, with the offsets of `group`. Skip an incomplete batch at the end
    of a log."""
    logs = Logs()
    for directory in sorted(path for path in data.iterdir() if path.is_dir()):
        topic, dash, number = directory.name.rpartition("-")
        if not dash or not number.isdecimal():
            continue
        place = Place(topic, int(number))
        for content, position, header in _batches(directory):
            if topic == TRANSACTIONS:
                _note_steps(logs, content, position)
            elif header.is_control:
                logs.markers[header.producer_id, place] += 1
                logs.tails[header.producer_id, place] = (header.producer_epoch, -1)
                if topic == OFFSETS:
                    _decide_offsets(logs, content, position, header.producer_id)
            elif topic in OUTPUTS:
                _note_batch(logs, place, header)
            elif topic == OFFSETS and header.is_transactional:
                _note_offsets(logs, content, position, header.producer_id, group)
    return logs


def _batches(directory: Path) -> Iterator[tuple[bytes, int, BatchHeader]]:
    for path in sorted(directory.glob("*.log")):
        content = path.read_bytes()
        for position, header in split_batches(content, allow_partial=True):
            yield content, position, header


def _note_steps(logs: Logs, content: bytes, position: int) -> None:
    for record in read_records(content, position, max_bytes=_LARGE):
        if record.key is None or record.value is None:
            continue
        try:
            name = decode_transaction_log_key(record.key).transactional_id
        except UnknownRecordVersion:
            continue
        value = decode_transaction_log_value(record.value)
        logs.steps.setdefault(name, []).append(_step(name, value))


def _step(name: str, value: TransactionLogValue) -> Step:
    return Step(
        name,
        TransactionState(value.transaction_status),
        value.producer_id,
        value.producer_epoch,
        value.transaction_start_timestamp_ms,
        frozenset(
            Place(row.topic, partition)
            for row in value.transaction_partitions or ()
            for partition in row.partition_ids
        ),
    )


def _note_batch(logs: Logs, place: Place, header: BatchHeader) -> None:
    batch = Batch(place, header.producer_id, header.producer_epoch, header.base_sequence)
    logs.data.setdefault(batch, []).append(header.base_offset)
    logs.tails[header.producer_id, place] = (header.producer_epoch, header.last_sequence)


def _note_offsets(logs: Logs, content: bytes, position: int, producer_id: int, group: str) -> None:
    for record in read_records(content, position, max_bytes=_LARGE):
        if record.key is None or record.value is None:
            continue
        key = decode_key(record.key)
        if isinstance(key, OffsetCommitKey) and key.group == group:
            offset = decode_offset_commit_value(record.value).offset
            logs.pending.setdefault(producer_id, {})[Place(key.topic, key.partition)] = offset


def _decide_offsets(logs: Logs, content: bytes, position: int, producer_id: int) -> None:
    decided = logs.pending.pop(producer_id, {})
    (record,) = read_records(content, position, max_bytes=_LARGE)
    marker = read_marker(record)
    if marker is not None and marker.committed:
        logs.committed |= decided
