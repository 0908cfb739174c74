"""What a clean stop remembers of every log's last segment, in a file of the data directory.

A file in each log's own folder would say the same, but a stop after which 20,000 logs have their
first records would make 20,000 of them. It is believed only with the mark of a clean stop, and as a
whole: a log of which nothing is remembered is read instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from oncelog_protocol.checksum import crc32c
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_lines, encode_lines


class ClosedLog(NamedTuple):
    """The last segment: `aborted` rows in its txnindex, with the CRC32C `rows_crc`. Of `producers`
    there is a snapshot at the log's end; where there are none, there is no snapshot."""

    base_offset: int
    size: int
    aborted: int
    rows_crc: int
    producers: int


ClosedLogs: TypeAlias = Mapping[tuple[str, int], ClosedLog]


def closed_log_line(name: tuple[str, int], log: ClosedLog) -> str:
    """The line of one partition."""
    topic, partition = name
    return f"{topic} {partition} {log[0]} {log[1]} {log[2]} {log[3]} {log[4]}"


def encode_closed_logs(lines: list[str]) -> bytes:
    """Kafka's form of a checkpoint; its first line is the CRC32C of the others."""
    return encode_lines([str(_crc(lines)), *lines])


def decode_closed_logs(data: bytes) -> ClosedLogs:
    """Raises MalformedCheckpoint, also where a single bit has changed."""
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
