"""Remembers the last segment of every log at a clean stop, in one file of the data directory.

A file in each log's folder would mean 20,000 files at a stop with 20,000 logs. The file is valid
only if the mark of a clean stop exists and the file's checksum is correct. If a partition has no
line in the file, a start reads the partition's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from oncelog_protocol.checksum import crc32c
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_lines, encode_lines


class ClosedLog(NamedTuple):
    """The last segment of a log. `aborted` is the number of rows in its txnindex. `rows_crc` is the
    CRC32C of these rows. `producers` is the number of producers in the snapshot at the log's end. A
    log without producers has no snapshot there."""

    base_offset: int
    size: int
    aborted: int
    rows_crc: int
    producers: int


ClosedLogs: TypeAlias = Mapping[tuple[str, int], ClosedLog]


def closed_log_line(name: tuple[str, int], log: ClosedLog) -> str:
    """Return the line of one partition."""
    topic, partition = name
    return f"{topic} {partition} {log[0]} {log[1]} {log[2]} {log[3]} {log[4]}"


def encode_closed_logs(lines: list[str]) -> bytes:
    """Return the bytes of the file, in the form of Kafka's checkpoints. The first line is the
    CRC32C of the other lines."""
    return encode_lines([str(_crc(lines)), *lines])


def decode_closed_logs(data: bytes) -> ClosedLogs:
    """Return the logs of the file. Raises MalformedCheckpoint. A single flipped bit is detected."""
    crc, *lines = decode_lines(data) or ["0"]
    if crc != str(_crc(lines)):
        raise MalformedCheckpoint("its checksum is wrong")
    logs = {}
    for line in lines:
        topic, partition, *numbers = line.split()
        logs[topic, int(partition)] = ClosedLog(*map(int, numbers))
    return logs


def _crc(lines: Iterable[str]) -> int:
    return crc32c("\n".join(lines).encode())
