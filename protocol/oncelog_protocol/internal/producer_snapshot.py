"""The `.snapshot` file beside a segment: the state of every producer before the segment's first
record.

Source: Kafka's ProducerSnapshot and ProducerStateManager. A file has a version, the CRC32C of all
bytes after the CRC, and the entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from oncelog_protocol.checksum import crc32c
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.types import Buffer

from .versions import UnknownRecordVersion, read_version

VERSION: Final = 1

_HEADER: Final = Struct(">hIi")  # version, CRC, count
_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_START: Final = 6


class ProducerEntry(NamedTuple):
    """The state of one producer id: the last batch, and the first offset of the open transaction
    (-1 if none is open). `offset_delta` is the last offset delta of the batch. `timestamp` is the
    batch's greatest timestamp in ms since 1970.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


# The fields of a ProducerEntry, in their order.
Row: TypeAlias = tuple[int, int, int, int, int, int, int, int]


def encode_producer_snapshot(entries: Iterable[Row]) -> bytes:
    """Return the content of the file. Raises struct.error for a number that does not fit its
    field."""
    body = b"".join([_ENTRY.pack(*entry) for entry in entries])
    snapshot = bytearray(_HEADER.pack(VERSION, 0, len(body) // _ENTRY.size) + body)
    crc = crc32c(memoryview(snapshot)[_CRC_START:])
    struct.pack_into(">I", snapshot, 2, crc)
    return bytes(snapshot)


def decode_producer_snapshot(data: Buffer) -> list[ProducerEntry]:
    """Return the entries of a file. Raises UnknownRecordVersion for another version, and
    ProtocolError if CRC or length are wrong. In both cases the broker rebuilds the
    producers' state from the log.
    """
    version = read_version("producer snapshot", data)
    if version != VERSION:
        raise UnknownRecordVersion("producer snapshot", version)
    if len(data) < _HEADER.size:
        raise ProtocolError(f"a producer snapshot of {len(data)} bytes")
    _, crc, count = _HEADER.unpack_from(data)
    view = memoryview(data)
    if crc32c(view[_CRC_START:]) != crc:
        raise ProtocolError("the CRC of a producer snapshot is wrong")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise ProtocolError(f"a producer snapshot of {len(data)} bytes claims {count} entries")
    return [ProducerEntry._make(row) for row in _ENTRY.iter_unpack(view[_HEADER.size :])]
