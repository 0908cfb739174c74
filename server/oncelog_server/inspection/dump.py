"""The lines that Kafka's DumpLogSegments (4.3.1) prints for a segment's log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from oncelog_protocol.records.batch import (
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    add_to_sequence,
    read_records,
)
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.errors import CorruptRecords, DecompressedTooLarge
from oncelog_protocol.records.record import Record
from oncelog_server.inspection.batches import RawBatch, RawBatches
from oncelog_server.inspection.outcomes import Outcomes, marker_of
from oncelog_server.inspection.record_json import Decoder, decode_text
from oncelog_server.storage.files import File

# This limit is above the limits that brokers and consumers have by default.
DEFAULT_MAX_BATCH_BYTES: Final = 256 << 20
_CONTROL_TYPES: Final = {2: "LEADER_CHANGE", 3: "SNAPSHOT_HEADER", 4: "SNAPSHOT_FOOTER",
                         5: "KRAFT_VERSION", 6: "KRAFT_VOTERS"}  # fmt: skip


def _ignore(_: str) -> None:
    return None


class DumpOptions(NamedTuple):
    """The options for printing a log.

    `outcomes` gives the outcome of each batch of a transaction. `escape` turns a key or a value
    into one line without control characters. The records of a batch are not printed if they cannot
    be read, or take more than `max_batch_bytes` when decompressed. `unread` is then called with a
    line about the batch.
    """

    deep: bool = False
    contents: bool = False
    skip_record_metadata: bool = False
    max_bytes: int | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    unread: Callable[[str], None] = _ignore
    decoder: Decoder = decode_text
    outcomes: Outcomes | None = None
    escape: Callable[[str], str] = str


def dump_log(file: File, base_offset: int, options: DumpOptions) -> Iterator[str]:
    """Yield a line for each batch, and with `deep` a line for each record."""
    yield f"Log starting offset: {base_offset}"
    batches = RawBatches(file, options.max_bytes)
    for batch in batches:
        yield _batch_line(batch, options.outcomes)
        if options.deep:
            yield from _records(file.path, batch, options)
    left = file.size - batches.position
    if left and options.max_bytes is None:
        yield f"Found {left} invalid bytes at the end of {file.path.rpartition('/')[2]}"


def _batch_line(batch: RawBatch, outcomes: Outcomes | None) -> str:
    header = batch.header
    horizon = header.delete_horizon_ms
    delete_horizon = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    codec = header.attributes & 0x07
    name = Compression(codec).kafka_name if codec < len(Compression) else f"unknown({codec})"
    line = (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"
        f" count: {header.records_count} baseSequence: {header.base_sequence}"
        f" lastSequence: {header.last_sequence} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)}"
        f" deleteHorizonMs: {delete_horizon}"
        f" position: {batch.position} {_time_type(batch)}: {header.max_timestamp}"
        f" size: {header.size} magic: {header.magic} compresscodec: {name}"
        f" crc: {header.crc} isvalid: {_java(batch.is_valid)}"
    )
    outcome = None if outcomes is None else outcomes.outcome(header)
    return line if outcome is None else f"{line} transaction: {outcome}"


def _time_type(batch: RawBatch) -> str:
    is_append = batch.header.timestamp_type == LOG_APPEND_TIME
    return "LogAppendTime" if is_append else "CreateTime"


def _records(path: str, batch: RawBatch, options: DumpOptions) -> Iterator[str]:
    try:
        records = read_records(batch.data, max_bytes=options.max_batch_bytes, check_crc=False)
    except (CorruptRecords, ValueError) as error:
        yield f"| records cannot be read: {error}"
        place = f"{path}, byte {batch.position}, offset {batch.header.base_offset}"
        is_large = isinstance(error, DecompressedTooLarge)
        more = "; a larger --max-batch-bytes reads it" if is_large else ""
        options.unread(f"{place}: the records of the batch cannot be read: {error}{more}")
        return
    for record in records:
        line = "" if options.skip_record_metadata else _metadata(batch, record)
        if options.contents and not batch.header.is_control:
            prefix = "| " if options.skip_record_metadata else " "
            line += _contents(record, prefix, options)
        yield line


def _metadata(batch: RawBatch, record: Record) -> str:
    header = batch.header
    sequence = header.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = add_to_sequence(sequence, record.offset - header.base_offset)
    names = ",".join(name for name, _ in record.headers)
    line = (
        f"| offset: {record.offset} {_time_type(batch)}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        f" sequence: {sequence} headerKeys: [{names}]"
    )
    return line + _control(batch, record) if header.is_control else line


def _control(batch: RawBatch, record: Record) -> str:
    marker = marker_of(batch)
    if marker is not None:
        kind = "COMMIT" if marker.committed else "ABORT"
        return f" endTxnMarker: {kind} coordinatorEpoch: {marker.coordinator_epoch}"
    number = int.from_bytes((record.key or b"")[2:4], signed=True)
    return f" controlType: {_CONTROL_TYPES.get(number, 'UNKNOWN')}({number})"


def _contents(record: Record, prefix: str, options: DumpOptions) -> str:
    decoded = options.decoder(record)
    line = ""
    if decoded.key is not None:
        line, prefix = f"{prefix}key: {options.escape(decoded.key)}", " "
    if decoded.value is not None:
        line += f"{prefix}payload: {options.escape(decoded.value)}"
    return line


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _java(value: bool) -> str:
    return "true" if value else "false"
