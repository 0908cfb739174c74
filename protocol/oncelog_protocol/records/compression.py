"""The four codecs of record batches, compatible with Java's client, librdkafka and Python's
clients.

Decompression allocates memory only for the actual output, up to the caller's limit.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

import cramjam

from .errors import CorruptRecords, DecompressedTooLarge

Bytes: TypeAlias = bytes | bytearray | memoryview
DecompressInto: TypeAlias = Callable[[Bytes, memoryview], int]


class Compression(IntEnum):
    """A batch's codec: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        """The name in `compression.type`."""
        return self.name.lower()


# Kafka's defaults, except for lz4: Kafka's default 9 is a slow level that no C client uses.
DEFAULT_LEVELS: Final = {Compression.GZIP: 6, Compression.LZ4: 1, Compression.ZSTD: 3}

# snappy-java's stream format ("xerial"): magic, version, compatible version, then blocks, each
# preceded by its compressed length.
XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
# `compress_in_parts` gives gzip blocks of this size, too.
XERIAL_BLOCK_SIZE: Final = 32 * 1024
_BLOCK_LENGTH: Final = Struct(">i")
# Snappy's maximum ratio: 3 compressed bytes copy 64 bytes. A block that claims more is damaged.
_SNAPPY_MOST: Final = 22

# Growth of the output buffer: the first factor multiplies the input's size, the second the size of
# the previous buffer. Both are large, because untouched zeroed memory costs nothing.
_FIRST_GUESS: Final = 16
_GROWTH: Final = 8
_SMALLEST_BUFFER: Final = 16 * 1024
# The error message of cramjam for a full buffer, in all codecs except snappy.
_FULL: Final = "failed to write whole buffer"


def compress(codec: Compression, data: Bytes, level: int | None = None) -> bytes:
    """Return `data` compressed with `codec`. `level`: the value of `compression.<codec>.level`,
    None for the default."""
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.SNAPPY:
        return b"".join((XERIAL_HEADER, *_snappy_blocks(data)))
    level = DEFAULT_LEVELS[codec] if level is None else level
    if codec == Compression.GZIP:
        return bytes(memoryview(cramjam.gzip.compress(data, level=level)))
    if codec == Compression.ZSTD:
        return bytes(memoryview(cramjam.zstd.compress(data, level=level)))
    # Java's reader supports independent blocks only; cramjam links blocks by default.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(memoryview(compressor.finish()))


def compress_in_parts(
    codec: Compression, data: Bytes, level: int | None = None
) -> Generator[None, None, bytes]:
    """Return the data compressed as by `compress`, though not always the same bytes. Yield after
    each block of gzip and snappy. The other codecs take some milliseconds for 1 MB, except at high
    levels (zstd 19: 0.7 s). In parts, zstd would reserve the memory for the largest input."""
    if len(data) <= XERIAL_BLOCK_SIZE or codec not in (Compression.GZIP, Compression.SNAPPY):
        return compress(codec, data, level)
    if codec == Compression.SNAPPY:
        parts = [XERIAL_HEADER]
        for block in _snappy_blocks(data):
            parts.append(block)
            yield
        return b"".join(parts)
    compressor = cramjam.gzip.Compressor(level=DEFAULT_LEVELS[codec] if level is None else level)
    for plain in _blocks(data):
        compressor.compress(bytes(plain))
        yield
    return bytes(memoryview(compressor.finish()))


def _snappy_blocks(data: Bytes) -> Iterator[bytes]:
    """Yield the compressed blocks of a stream, each after its length."""
    for plain in _blocks(data):
        block = bytes(memoryview(cramjam.snappy.compress_raw(plain)))
        yield _BLOCK_LENGTH.pack(len(block)) + block


def _blocks(data: Bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        yield view[start : start + XERIAL_BLOCK_SIZE]


def decompress(codec: Compression, data: Bytes, limit: int) -> bytes:
    """Return the decompressed data, at most `limit` bytes.

    Raises DecompressedTooLarge for more than `limit` bytes, CorruptRecords if `data` is damaged.
    """
    if codec == Compression.NONE:
        if len(data) > limit:
            raise DecompressedTooLarge(limit)
        return bytes(data)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec == Compression.ZSTD:
        return _decompress_stream(cramjam.zstd.decompress_into, data, limit)
    if codec == Compression.LZ4:
        return _decompress_stream(cramjam.lz4.decompress_into, data, limit)
    return _decompress_stream(cramjam.gzip.decompress_into, data, limit)


def _decompress_stream(decompress_into: DecompressInto, data: Bytes, limit: int) -> bytes:
    # The library raises the same error class for a full buffer and for damaged data. So every
    # failure is retried with a larger buffer, until the buffer has `limit` bytes. Sizes grow
    # geometrically, so that all attempts together cost at most 8/7 of the last one.
    size = min(max(len(data) * _FIRST_GUESS, _SMALLEST_BUFFER), limit)
    while size < limit:
        with suppress(cramjam.DecompressionError):
            return _decompress_to(size, decompress_into, data)
        size = min(size * _GROWTH, limit)
    try:
        return _decompress_to(limit, decompress_into, data)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            raise DecompressedTooLarge(limit) from None
        raise CorruptRecords(f"cannot decompress to at most {limit} bytes: {error}") from None


def _decompress_to(size: int, decompress_into: DecompressInto, data: Bytes) -> bytes:
    # BytesIO returns its content without a copy, so no second buffer of this size is allocated.
    output = io.BytesIO(bytes(size))
    with output.getbuffer() as room:
        written = decompress_into(data, room)
    output.truncate(written)
    return output.getvalue()


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_block(data, limit)
    if len(data) < len(XERIAL_HEADER):
        raise CorruptRecords("a snappy stream's header is cut off")
    output = io.BytesIO()
    position, left = len(XERIAL_HEADER), limit
    while position < len(data):
        if position + _BLOCK_LENGTH.size > len(data):
            raise CorruptRecords("a snappy block's length is cut off")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise CorruptRecords(f"a snappy block claims {length} bytes")
        try:
            block = _decompress_block(data[position : position + length], left)
        except DecompressedTooLarge:
            raise DecompressedTooLarge(limit) from None
        position += length
        left -= output.write(block)
    return output.getvalue()


def _decompress_block(data: memoryview, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > limit:
            raise DecompressedTooLarge(limit)
        if size > len(data) * _SNAPPY_MOST:
            raise CorruptRecords(f"a snappy block of {len(data)} bytes claims {size} bytes")
        return _decompress_to(size, cramjam.snappy.decompress_raw_into, data)
    except cramjam.DecompressionError as error:
        raise CorruptRecords(f"snappy: {error}") from None
