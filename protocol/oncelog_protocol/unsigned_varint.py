"""Unsigned varints, the lengths and tags of KIP-482: 7 bits a byte, low bits first."""

from __future__ import annotations

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.types import Buffer

MAX_TAGS = 64
"""Maximum number of tagged fields in one section. No message of Kafka has ten."""


def continue_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Return the value of a varint and the position after it. `first`: its first byte, above 127;
    `position`: the position of the second byte. Raises ProtocolError above 32 bits."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 32:
                break
            return value, position
    raise ProtocolError(f"a varint of more than 32 bits before byte {position}")


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the varint at a position and the position after it. Raises IndexError if it is cut
    off."""
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return continue_uvarint(buffer, position + 1, first)


def _build_uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL = tuple(_build_uvarint(value) for value in range(512))


def write_uvarint(value: int) -> bytes:
    """Return the bytes of an unsigned varint."""
    return SMALL[value] if 0 <= value < 512 else _build_uvarint(value)


def skip_tags(buffer: Buffer, position: int, count: int) -> int:
    """Return the position after a section of `count` tagged fields, all of them unknown. A `count`
    above 127 is only the first byte of the number, a varint that continues at `position`."""
    if count > 127:
        count, position = continue_uvarint(buffer, position, count)
    if count > MAX_TAGS:
        raise ProtocolError(f"{count} tagged fields in one section")
    end = len(buffer)
    last = -1
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        if tag <= last:
            raise ProtocolError(f"tag {tag} after tag {last}")
        last = tag
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise ProtocolError(f"tagged field {tag} ends beyond the message")
    return position
