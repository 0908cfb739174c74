"""The facts that the folder of a partition of Apache Kafka shows: topic id, newest leader epoch and
producer id, and batches of an old message format. Only the headers of batches are read."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from oncelog_protocol.records.batch import MAGIC, MAGIC_POSITION
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_partition_metadata
from oncelog_server.log.scan import WALK_CHUNK, Scan
from oncelog_server.log.whole_files import read_whole
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    parse_partition_directory,
    parse_segment_file,
)

NONE: Final = -1
# An entry of message format v0 or v1 (Kafka's LegacyRecord): offset, size, CRC-32, magic. The size
# counts the bytes from the CRC on, at least those of an empty v0 record. The CRC covers the bytes
# from the magic on.
_OLD_HEADER: Final = struct.Struct(">qiIb")
_OLD_OVERHEAD: Final = 14
_CRC_BYTES: Final = 4


class KafkaFolder(msgspec.Struct, frozen=True):
    """A partition's folder. `topic_id` is None if partition.metadata is missing or damaged.

    `leader_epoch` and `producer_id` are the highest of all batches, or NONE. `old_format` names the
    first batch of message format v0 or v1, None without one.
    """

    folder: str
    topic: str
    partition: int
    topic_id: bytes | None
    log_bytes: int
    leader_epoch: int = NONE
    producer_id: int = NONE
    old_format: str | None = None


def look_at_all(files: Files, root: str, names: Iterable[str]) -> Iterator[KafkaFolder]:
    """Yield the facts about each partition folder among `names`. Raises StorageError."""
    for name in names:
        partition = parse_partition_directory(name)
        if partition is not None:
            yield _look_at(files, f"{root}/{name}", name, partition.topic, partition.partition)


def _look_at(files: Files, path: str, folder: str, topic: str, partition: int) -> KafkaFolder:
    log_bytes, epoch, producer_id = 0, NONE, NONE
    old_format = None
    for name in files.list(path):
        parsed = parse_segment_file(name)
        if parsed is None or parsed.state or parsed.suffix != LOG_SUFFIX:
            continue
        file = files.open(f"{path}/{name}")
        try:
            log_bytes += file.size
            scan = Scan(file, chunk_size=WALK_CHUNK)
            for _, header in scan:
                epoch = max(epoch, header.partition_leader_epoch)
                producer_id = max(producer_id, header.producer_id)
            old_format = old_format or _old_format(scan, f"{folder}/{name}")
        finally:
            file.close()
    topic_id = _topic_id(read_whole(files, f"{path}/{PARTITION_METADATA}"))
    return KafkaFolder(
        folder, topic, partition, topic_id, log_bytes, epoch, producer_id, old_format
    )


def _old_format(scan: Scan, name: str) -> str | None:
    """Return the description of the batch at which the scan ended, None if it is not a batch of an
    old format. Other bytes, such as the zeros of a preallocated segment, are a torn end."""
    if scan.problem is None:
        return None
    entry = scan.file.read(scan.position, _OLD_HEADER.size)
    if len(entry) < _OLD_HEADER.size:
        return None
    _, size, crc, magic = _OLD_HEADER.unpack(entry)
    if magic >= MAGIC or not _OLD_OVERHEAD <= size <= scan.file.size - scan.position:
        return None
    checked = scan.file.read(scan.position + MAGIC_POSITION, size - _CRC_BYTES)
    if len(checked) < size - _CRC_BYTES or zlib.crc32(checked) != crc:
        return None
    return f"{name} has records of message format v{magic} at byte {scan.position}"


def _topic_id(data: bytes | None) -> bytes | None:
    try:
        return None if data is None else decode_partition_metadata(data)
    except MalformedCheckpoint:
        return None
