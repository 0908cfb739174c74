"""The reader returns whole frames, however their bytes are split on arrival. Its memory grows with
the bytes that have arrived, not with the announced length (H1-H4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ProtocolError
from oncelog_server.requests.frame_reader import FIRST_BYTES, FrameReader, SharedBuffer

LIMIT = 64 << 20


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(reader: FrameReader, data: bytes, pieces: list[int]) -> list[bytes]:
    """Pass `data` in pieces as a connection would, none larger than the buffer."""
    frames: list[bytes] = []
    position = 0
    sizes = iter(pieces)
    while position < len(data):
        buffer = reader.buffer()
        assert len(buffer) > 0
        size = min(next(sizes, len(data)), len(buffer), len(data) - position)
        buffer[:size] = data[position : position + size]
        position += size
        if not reader.advance(size):
            frames += [bytes(frame) for frame in reader.received(size)]
    return frames


@given(
    st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=8),
    st.lists(st.integers(1, 400)),
)
def test_frames_are_whole_whatever_the_pieces(bodies: list[bytes], pieces: list[int]) -> None:
    reader = FrameReader(SharedBuffer(256), LIMIT)
    assert feed(reader, framed(*bodies), pieces) == bodies
    assert not reader.is_within_frame


def test_frames_byte_by_byte() -> None:
    reader = FrameReader(SharedBuffer(64), LIMIT)
    bodies = [b"a", b"b" * 100, b"c" * 3]
    data = framed(*bodies)
    assert feed(reader, data, [1] * len(data)) == bodies


def test_a_frame_larger_than_the_shared_buffer_has_its_own_buffer() -> None:
    reader = FrameReader(SharedBuffer(1024), LIMIT)
    body = bytes(range(256)) * 100
    assert feed(reader, framed(body, b"next"), []) == [body, b"next"]


@pytest.mark.parametrize("announced", [100_000, 60 << 20])
@pytest.mark.parametrize("arrived", [0, 1, 1_000, 30_000])
def test_h3_a_frame_takes_at_most_four_times_the_memory_of_its_arrived_bytes(
    announced: int, arrived: int
) -> None:
    reader = FrameReader(SharedBuffer(), LIMIT)
    feed(reader, announced.to_bytes(4, "big") + b"x" * arrived, [])
    assert reader.is_within_frame
    assert reader.held_bytes <= max(FIRST_BYTES, 4 * arrived)


def test_only_bytes_within_a_frame_are_counted_in_advance() -> None:
    reader = FrameReader(SharedBuffer(), LIMIT)
    data = framed(b"12345678")
    for start, end, is_within in ((0, 6, False), (6, 9, True), (9, 12, False)):
        buffer = reader.buffer()
        buffer[: end - start] = data[start:end]
        assert reader.advance(end - start) is is_within
        if not is_within:
            frames = [bytes(frame) for frame in reader.received(end - start)]
    assert frames == [b"12345678"]
    assert not reader.is_within_frame


def test_a_huge_frame_arrives() -> None:
    reader = FrameReader(SharedBuffer(), LIMIT)
    body = b"0123456789abcdef" * (FIRST_BYTES // 2)
    assert feed(reader, framed(body), []) == [body]


@pytest.mark.parametrize("length", [-1, -(2**31), 0, LIMIT + 1, 2**31 - 1])
def test_h1_h2_an_invalid_frame_length_is_refused(length: int) -> None:
    reader = FrameReader(SharedBuffer(), LIMIT)
    with pytest.raises(ProtocolError):
        feed(reader, length.to_bytes(4, "big", signed=True), [])


def test_frames_before_a_refused_length_are_served() -> None:
    reader = FrameReader(SharedBuffer(), LIMIT)
    buffer = reader.buffer()
    data = framed(b"good") + b"\xff\xff\xff\xff"
    buffer[: len(data)] = data
    frames = reader.received(len(data))
    assert bytes(next(frames)) == b"good"
    with pytest.raises(ProtocolError):
        next(frames)


def test_connections_share_one_buffer_without_mixing() -> None:
    """Bytes of one connection do not change the part of a frame that another connection has
    received."""
    shared = SharedBuffer(256)
    first, second = FrameReader(shared, LIMIT), FrameReader(shared, LIMIT)
    frame, two = framed(b"1" * 50), framed(b"2" * 50)
    found: list[bytes] = []
    for position in range(0, len(frame), 7):
        found += feed(first, frame[position : position + 7], [])
        found += feed(second, two[position : position + 7], [])
    assert found == [b"1" * 50, b"2" * 50]


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"GET /metrics HTTP/1.1", "an HTTP request"),
        (b"PRI * HTTP/2.0", "an HTTP request"),
        (b"SSH-2.0-OpenSSH_9.2", "an SSH client"),
        (b"\x16\x03\x01\x02\x00\x01", "a TLS handshake"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
    ],
)
def test_bytes_of_another_protocol_are_named(first: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        feed(FrameReader(SharedBuffer(256), LIMIT), first, [])
