"""Bytes to messages and back. Each message and version has a decoder and an encoder, which are made
at their first use. Bytes that cannot be decoded raise ProtocolError, never another error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.types import Buffer

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decoder(Protocol[T_co]):
    """Decode (buffer, position) to (message, position after it). `left`: the maximum number of
    array elements."""

    def __call__(self, buffer: Buffer, position: int, left: int = ..., /) -> tuple[T_co, int]: ...


Encoder: TypeAlias = Callable[[T, Callable[[Any], object]], None]


class SlicedDecoder(Protocol[T_co]):
    """Decode as a Decoder does. The generator yields after each element of an array of structs."""

    def __call__(
        self, buffer: Buffer, position: int, left: int = ..., /
    ) -> Generator[None, None, tuple[T_co, int]]: ...


# Encodes as an Encoder does. The generator yields after each element of an array of structs.
SlicedEncoder: TypeAlias = Callable[[T, Callable[[Any], object]], Generator[None, None, None]]

_decoders: dict[tuple[type, int], Decoder[Any]] = {}
_encoders: dict[tuple[type, int], Encoder[Any]] = {}
_row_encoders: dict[tuple[type, int], Callable[..., Any]] = {}
_sliced_decoders: dict[tuple[type, int], SlicedDecoder[Any]] = {}
_sliced_encoders: dict[tuple[type, int], SlicedEncoder[Any]] = {}


def decoder(cls: type[T], version: int) -> Decoder[T]:
    """Return the function (buffer, position) -> (message, position after it) for one version. The
    function's third argument is the maximum number of array elements in the message."""
    found = _decoders.get((cls, version))
    if found is None:
        from oncelog_protocol.codegen_decode import generate_decoder

        found = _decoders[cls, version] = generate_decoder(cls, version)
    return found


def encoder(cls: type[T], version: int) -> Encoder[T]:
    """Return the function (message, append) that passes the parts of the message to `append`, in
    order. A part is bytes, or the unchanged object of a `records` field.
    """
    found = _encoders.get((cls, version))
    if found is None:
        from oncelog_protocol.codegen_encode import generate_encoder

        found = _encoders[cls, version] = generate_encoder(cls, version)
    return found


def row_encoder(row: type, version: int) -> Callable[..., Any]:
    """Return the function that packs one `row` of a message, in one call and without an object.

    Its arguments are the leading fields of fixed size, in the order of the table. Fields that the
    version does not have are arguments too. The result is an element for an array that is declared
    with `takes_rows`. The encoder of the message adds the other fields, which get their defaults.
    """
    found = _row_encoders.get((row, version))
    if found is None:
        from oncelog_protocol.codegen_encode import generate_row_encoder

        found = _row_encoders[row, version] = generate_row_encoder(row, version)
    return found


def sliced_decoder(cls: type[T], version: int) -> SlicedDecoder[T]:
    """Return a decoder for large messages, which is slightly slower and yields between elements.
    The buffer must stay unchanged until the decoder has ended."""
    found = _sliced_decoders.get((cls, version))
    if found is None:
        from oncelog_protocol.codegen_decode import generate_decoder

        found = _sliced_decoders[cls, version] = generate_decoder(cls, version, sliced=True)
    return found


def sliced_encoder(cls: type[T], version: int) -> SlicedEncoder[T]:
    """Return an encoder for large messages that yields between elements. An array within an array
    is encoded once if it is the same list object as in the previous element."""
    found = _sliced_encoders.get((cls, version))
    if found is None:
        from oncelog_protocol.codegen_encode import generate_encoder

        found = _sliced_encoders[cls, version] = generate_encoder(cls, version, sliced=True)
    return found


def decode(cls: type[T], version: int, buffer: Buffer) -> T:
    """Return the message that fills the whole buffer. Raises ProtocolError, also for bytes after
    the message."""
    decoded, position = decoder(cls, version)(buffer, 0)
    if position != len(buffer):
        raise ProtocolError(
            f"{cls.__name__} v{version}: {len(buffer) - position} bytes after the message"
        )
    return decoded


def encode(message: object, version: int) -> bytes:
    """Return the bytes of a message. Its `records`, if any, must be bytes-like. Raises
    struct.error, AttributeError or TypeError for a value that its field cannot hold.
    """
    parts: list[bytes] = []
    encoder(type(message), version)(message, parts.append)
    return b"".join(parts)
