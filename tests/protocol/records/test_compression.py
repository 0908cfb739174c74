"""The compression codecs of records. oncelog reads the batches of real clients, real clients read
those of oncelog, and decompression bombs are refused."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
from contextlib import suppress

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.records.compression import (
    XERIAL_HEADER,
    Compression,
    compress,
    decompress,
)
from oncelog_protocol.records.errors import CorruptRecords, DecompressedTooLarge
from tests.examples import examples

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
MIB = 1 << 20
TEXT = b'{"purchase": 17, "amount": "11.77"}\n' * 4000

DATA = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=50), st.integers(0, 3000)
)


@pytest.mark.parametrize("codec", Compression)
@given(data=DATA)
def test_every_codec_decompresses_what_it_has_compressed(codec: Compression, data: bytes) -> None:
    compressed = compress(codec, data)
    assert decompress(codec, compressed, len(data)) == data
    assert decompress(codec, memoryview(bytearray(compressed)), 10 * MIB) == data
    assert compress(codec, bytearray(data)) == compressed == compress(codec, memoryview(data))


@pytest.mark.parametrize("codec", CODECS)
def test_data_of_exactly_the_maximum_size_is_decompressed(codec: Compression) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    for limit in (0, 1, len(TEXT) // 2, len(TEXT) - 1):
        with pytest.raises(CorruptRecords):
            decompress(codec, compressed, limit)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, (1, 6, 9)),
        (Compression.LZ4, (1, 9, 17)),
        (Compression.ZSTD, (-5, 1, 3, 22)),
    ],
)
def test_the_compression_levels_of_kafka_are_accepted(
    codec: Compression, levels: tuple[int, ...]
) -> None:
    sizes = []
    for level in levels:
        compressed = compress(codec, TEXT[:20_000], level)
        assert decompress(codec, compressed, len(TEXT)) == TEXT[:20_000]
        sizes.append(len(compressed))
    assert sizes[-1] <= sizes[0]


def test_codecs_have_their_names_in_kafkas_settings() -> None:
    names = [codec.kafka_name for codec in Compression]
    assert names == ["none", "gzip", "snappy", "lz4", "zstd"]


# ── Requirements of Java's readers ───────────────────────────────────────────────────────────────


def test_lz4_is_written_in_independent_blocks() -> None:
    """Bit 0x20 of the FLG byte says that blocks are independent. For dependent blocks Java raises
    "Dependent block stream is unsupported"."""
    frame = compress(Compression.LZ4, TEXT)
    assert frame[:4].hex() == "04224d18"
    flags = frame[4]
    assert (flags >> 6, flags & 0x20) == (1, 0x20)
    assert flags & 0x14 == 0x10 & flags, "no content checksum"


def test_snappy_is_written_as_javas_stream_of_32_kib_blocks() -> None:
    stream = compress(Compression.SNAPPY, TEXT)
    assert stream.startswith(XERIAL_HEADER)
    position, blocks = len(XERIAL_HEADER), []
    while position < len(stream):
        (length,) = struct.unpack_from(">i", stream, position)
        position += 4
        block = cramjam.snappy.decompress_raw(stream[position : position + length])
        blocks.append(bytes(memoryview(block)))
        position += length
    assert b"".join(blocks) == TEXT
    assert {len(block) for block in blocks[:-1]} == {32 * 1024}


# ── Frames of other writers ──────────────────────────────────────────────────────────────────────


def test_raw_snappy_of_librdkafka_is_read() -> None:
    raw = bytes(memoryview(cramjam.snappy.compress_raw(TEXT)))
    assert decompress(Compression.SNAPPY, raw, len(TEXT)) == TEXT
    with pytest.raises(CorruptRecords):
        decompress(Compression.SNAPPY, raw, len(TEXT) - 1)


def test_xerial_snappy_with_blocks_of_any_size_is_read() -> None:
    parts = [XERIAL_HEADER]
    for start in range(0, len(TEXT), 50_001):
        block = bytes(memoryview(cramjam.snappy.compress_raw(TEXT[start : start + 50_001])))
        parts += (struct.pack(">i", len(block)), block)
    assert decompress(Compression.SNAPPY, b"".join(parts), len(TEXT)) == TEXT
    assert decompress(Compression.SNAPPY, XERIAL_HEADER, 0) == b""


def test_zstd_without_a_content_size_is_read() -> None:
    """librdkafka and the Java client compress a stream, so their frame headers have no size."""
    writer = zstandard.ZstdCompressor().compressobj()
    frame = writer.compress(TEXT) + writer.flush()
    assert zstandard.get_frame_parameters(frame).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decompress(Compression.ZSTD, frame, len(TEXT)) == TEXT


def test_lz4_with_linked_blocks_is_read() -> None:
    frame = bytes(memoryview(cramjam.lz4.compress(TEXT * 2)))
    assert not frame[4] & 0x20
    assert decompress(Compression.LZ4, frame, 2 * len(TEXT)) == TEXT * 2


def test_gzip_with_several_members_is_read() -> None:
    """A gzip stream may consist of several members (RFC 1952, section 2.2)."""
    members = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"the end")
    assert decompress(Compression.GZIP, members, MIB) == TEXT + b"the end"
    with pytest.raises(CorruptRecords):
        decompress(Compression.GZIP, members, len(TEXT) + 6)


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
def test_consecutive_frames_are_read_up_to_the_limit(codec: Compression) -> None:
    frame = compress(codec, TEXT)
    assert decompress(codec, frame * 3, 3 * len(TEXT)) == TEXT * 3
    with pytest.raises(CorruptRecords):
        decompress(codec, frame * 3, 3 * len(TEXT) - 1)


# ── Bombs ────────────────────────────────────────────────────────────────────────────────────────


def zstd_bomb(size: int, window_log: int) -> bytes:
    """Return a frame of run-length blocks: 4 bytes stand for 128 KiB."""
    block = 128 * 1024
    out = bytearray(b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3]))
    for last in [False] * (size // block - 1) + [True]:
        out += struct.pack("<I", block << 3 | 1 << 1 | last)[:3] + b"a"
    return bytes(out)


def bombs() -> dict[str, tuple[Compression, bytes]]:
    zeros = bytes(64 * MIB)
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as file:
        file.write(zeros)
    raw = bytes(memoryview(cramjam.snappy.compress_raw(zeros[: 8 * MIB])))
    block = struct.pack(">i", len(raw)) + raw
    return {
        "gzip": (Compression.GZIP, stream.getvalue()),
        "lz4": (Compression.LZ4, compress(Compression.LZ4, zeros)),
        "zstd": (Compression.ZSTD, zstd_bomb(1 << 30, 17)),
        "zstd, window 128 MiB": (Compression.ZSTD, zstd_bomb(1 << 30, 27)),
        "zstd, window 2 GiB": (Compression.ZSTD, zstd_bomb(1 << 30, 31)),
        "raw snappy": (Compression.SNAPPY, raw),
        "xerial snappy": (Compression.SNAPPY, XERIAL_HEADER + block * 8),
    }


BOMBS = bombs()


@pytest.mark.parametrize("name", BOMBS)
def test_h44_a_decompression_bomb_is_refused_in_bounded_memory(name: str) -> None:
    """tracemalloc counts our buffers alone. A measurement by hand showed that the compression
    library adds little."""
    codec, bomb = BOMBS[name]
    limit = 4 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords) as caught:
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= limit + MIB
    if isinstance(caught.value, DecompressedTooLarge):
        assert caught.value.limit == limit
    else:
        assert "too much memory" in str(caught.value)


@pytest.mark.parametrize(
    "claim",
    [
        b"\xff\xff\xff\xff\x0f" + b"xx",  # a raw block of 4 GiB
        XERIAL_HEADER + b"\x7f\xff\xff\xff" + bytes(10),
        XERIAL_HEADER + b"\xff\xff\xff\xff" + bytes(10),
        XERIAL_HEADER + struct.pack(">i", 7) + b"\xff\xff\xff\xff\x0f" + b"xx",
        XERIAL_HEADER + b"\0\0",
        XERIAL_HEADER[:10],
        b"",
    ],
)
def test_h45_a_false_snappy_length_is_refused_before_memory_is_allocated(claim: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords):
            decompress(Compression.SNAPPY, claim, 1 << 40)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


# ── Damage ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("codec", CODECS)
def test_every_prefix_is_refused_or_decompresses_to_less_data(codec: Compression) -> None:
    data = TEXT[:2000]
    compressed = compress(codec, data)
    for size in range(len(compressed)):
        with suppress(CorruptRecords):
            assert len(decompress(codec, compressed[:size], 4096)) < len(data)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(300))
@given(data=st.data())
def test_damage_raises_corrupt_records_and_nothing_else(
    codec: Compression, data: st.DataObject
) -> None:
    compressed = bytearray(compress(codec, data.draw(DATA)))
    for _ in range(data.draw(st.integers(1, 3))):
        compressed[data.draw(st.integers(0, len(compressed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptRecords):
        assert len(decompress(codec, compressed, 64 * 1024)) <= 64 * 1024


@pytest.mark.parametrize("codec", CODECS)
@given(noise=st.binary(max_size=100))
def test_noise_raises_corrupt_records_and_nothing_else(codec: Compression, noise: bytes) -> None:
    with suppress(CorruptRecords):
        assert len(decompress(codec, noise, 4096)) <= 4096
