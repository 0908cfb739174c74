"""The int16 in front of every key and value of an internal topic.

In a key the int16 is the type of the record (Kafka's CoordinatorRecordType), in a value the
version.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

from oncelog_protocol.codecs import decoder, encoder
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.types import Buffer

T = TypeVar("T")

_PREFIX: Final = Struct(">h")


class UnknownRecordVersion(ValueError):
    """A record has a type or version that this release does not know. The caller skips the record
    with a warning, as Kafka's loaders do. `part` is the name of the expected key or value.
    """

    def __init__(self, part: str, version: int) -> None:
        super().__init__(f"unknown version {version} of a {part}")
        self.part = part
        self.version = version


def read_version(part: str, data: Buffer) -> int:
    """Return the int16 at the beginning. Raises ProtocolError if fewer than 2 bytes are there."""
    if len(data) < _PREFIX.size:
        raise ProtocolError(f"a {part} has at least 2 bytes, not {len(data)}")
    version: int = _PREFIX.unpack_from(data)[0]
    return version


def encode_versioned(message: object, version: int, prefix: int | None = None) -> bytes:
    """Return the bytes of `message` after an int16: the version, or `prefix` (the record type of a
    key) if it is given."""
    parts = [_PREFIX.pack(version if prefix is None else prefix)]
    encoder(type(message), version)(message, parts.append)
    return b"".join(parts)


def decode_body(cls: type[T], version: int, data: Buffer, *, exact: bool = True) -> T:
    """Return the message after the int16. Raises ProtocolError. If `exact` is true, bytes
    after the message are an error too."""
    message, position = decoder(cls, version)(data, _PREFIX.size)
    if exact and position != len(data):
        raise ProtocolError(f"{len(data) - position} extra bytes after a {cls.__name__} v{version}")
    return message
