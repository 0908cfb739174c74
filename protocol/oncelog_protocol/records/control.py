"""Control batches: the COMMIT and ABORT markers that end a transaction (KIP-98)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from .batch import (
    CONTROL_FLAG,
    LENGTH_OVERHEAD,
    TRANSACTIONAL_FLAG,
    build_single_record_batch,
    patch_place,
)
from .errors import CorruptRecords
from .record import Record

# These are the numbers in Kafka's code. The text of KIP-98 has them swapped.
ABORT: Final = 0
COMMIT: Final = 1

_VERSION: Final = 0
_KEY: Final = Struct(">hh")  # version, type
_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_COMMIT_KEY: Final = _KEY.pack(_VERSION, COMMIT)
_ABORT_KEY: Final = _KEY.pack(_VERSION, ABORT)


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The outcome of a transaction, and the coordinator's epoch."""

    committed: bool
    coordinator_epoch: int


def build_marker_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return the marker as a control batch of 78 bytes."""
    batch = build_single_record_batch(
        timestamp_ms,
        _COMMIT_KEY if marker.committed else _ABORT_KEY,
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    patch_place(batch, 0, base_offset, len(batch) - LENGTH_OVERHEAD, leader_epoch)
    return batch


def read_marker(record: Record) -> EndTransactionMarker | None:
    """Return the marker in a control batch's record, None for control records of other types.

    Later versions may append fields, so bytes after the known fields are ignored. Raises
    CorruptRecords.
    """
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        raise CorruptRecords("a control record's key is too short")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecords(f"a control record's key has version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise CorruptRecords("a transaction marker's value is too short")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecords(f"a transaction marker has version {version}")
    return EndTransactionMarker(kind == COMMIT, coordinator_epoch)
