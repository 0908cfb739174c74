"""Zigzag varints of the record format (KIP-98; the same as Protocol Buffers' sint32 and sint64).

Hot loops read varints of one and two bytes inline and call this module for longer ones.
"""

from __future__ import annotations

from typing import Final

from .errors import CorruptRecords


def encode_varint(number: int) -> bytes:
    """Return `number` (int64) as a zigzag varint of 1 to 10 bytes. Raises ValueError outside
    int64."""
    zigzag = (number << 1) ^ (number >> 63)
    if not 0 <= zigzag < 1 << 64:
        raise ValueError(f"{number} does not fit an int64")
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


SMALL_LIMIT: Final = 2048
# A batch is mostly small numbers; indexing this list is five times as fast as the loop above.
SMALL: Final = [encode_varint(number) for number in range(SMALL_LIMIT)]
NULL: Final = encode_varint(-1)


def read_zigzag(data: bytes | bytearray | memoryview, position: int, bits: int) -> tuple[int, int]:
    """Return the number at `position`, not yet converted from zigzag, and the position after it.
    `bits` is 32 or 64. Raises CorruptRecords for a longer number, IndexError at the end of `data`.
    """
    if (low := data[position]) < 0x80:
        return low, position + 1
    if (high := data[position + 1]) < 0x80:
        return low - 0x80 + (high << 7), position + 2
    zigzag = 0
    for shift in range(0, bits + 6, 7):
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> bits:
                break
            return zigzag, position
    raise CorruptRecords(f"a varint is longer than {bits} bits")


def read_varint(data: bytes, position: int, bits: int = 32) -> tuple[int, int]:
    """Return the signed number at `position`, and the position after it. Raises as
    `read_zigzag`."""
    zigzag, position = read_zigzag(data, position, bits)
    return (zigzag >> 1) ^ -(zigzag & 1), position
