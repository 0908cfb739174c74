"""Compares the logs of the replicas of each partition, byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

# Offset, length, leader epoch, magic, CRC, attributes, last offset delta.
_BATCH: Final = struct.Struct(">qiibIhi")
_BEFORE_LENGTH_COUNTS: Final = 12


def committed_bytes(folder: Path, high_watermark: int) -> bytes:
    """Return the batches of a partition below the high watermark, of all segments in their order.

    Raises ValueError if the log does not reach the high watermark.
    """
    log = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    position = end = 0
    while end < high_watermark:
        if position + _BATCH.size > len(log):
            raise ValueError(f"{folder.name} ends at {end}, the high watermark is {high_watermark}")
        first, length, *_, last_delta = _BATCH.unpack_from(log, position)
        position += _BEFORE_LENGTH_COUNTS + length
        end = first + last_delta + 1
    return log[:position]


def differences(
    folders: Sequence[Path], high_watermarks: Mapping[tuple[str, int], int]
) -> list[str]:
    """Return a sentence for each partition with replicas that differ below the high watermark.
    `folders`: the data directories of stopped brokers."""
    found = []
    for (topic, partition), high_watermark in sorted(high_watermarks.items()):
        name = f"{topic}-{partition}"
        try:
            logs = [committed_bytes(folder / name, high_watermark) for folder in folders]
        except ValueError as error:
            found.append(f"a replica lacks committed records: {error}")
            continue
        if len(set(logs)) > 1:
            found.append(f"the replicas of {name} differ: {_first_differences(logs)}")
    return found


def _first_differences(logs: Sequence[bytes]) -> str:
    """Return, for each log that differs from the first one, the position at which it begins to
    differ."""
    first = logs[0]
    return ", ".join(
        f"broker {number}: {len(log)} bytes of {len(first)}, from byte {_first(first, log)} on"
        for number, log in enumerate(logs[1:], start=2)
        if log != first
    )


def _first(expected: bytes, found: bytes) -> int:
    pairs = zip(expected, found, strict=False)
    return next(
        (place for place, pair in enumerate(pairs) if pair[0] != pair[1]),
        min(len(expected), len(found)),
    )
