"""Buffers of large frames are used again, but never while other code has a view of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.requests.frame_reader import FIRST_BYTES, FrameReader, SharedBuffer
from oncelog_server.requests.spare_buffers import KEPT_BYTES, SMALLEST_BYTES, SpareBuffers
from tests.server.requests.test_frame_reader import LIMIT, feed, framed

MIB = 1 << 20


def test_a_buffer_of_the_wanted_size_is_taken_once() -> None:
    spares, buffer = SpareBuffers(), bytearray(MIB)
    spares.give(buffer)
    assert spares.take(MIB + 1, 2 * MIB) is None
    assert spares.take(1, MIB - 1) is None
    assert spares.take(MIB, MIB) is buffer
    assert len(buffer) == MIB
    assert spares.take(MIB, MIB) is None


def test_the_largest_buffer_that_fits_is_taken() -> None:
    spares = SpareBuffers()
    sizes = (MIB // 2, MIB, MIB // 4)
    for size in sizes:
        spares.give(bytearray(size))
    taken = [spares.take(1, MIB) for _ in range(4)]
    assert [None if of is None else len(of) for of in taken] == [*sorted(sizes)[::-1], None]


def test_a_buffer_in_use_is_not_taken_before_its_last_view_has_ended() -> None:
    spares = SpareBuffers()
    taken = bytearray(b"x") * MIB
    view = memoryview(taken)[10:20]
    spares.give(taken)
    assert spares.take(1, MIB) is None
    other = bytearray(MIB // 2)
    spares.give(other)
    assert spares.take(1, MIB) is other
    assert bytes(view) == b"x" * 10
    view.release()
    assert spares.take(1, MIB) is taken


@pytest.mark.parametrize("size", [SMALLEST_BYTES - 1, KEPT_BYTES + 1])
def test_a_small_or_huge_buffer_is_not_kept_in_place_of_others(size: int) -> None:
    spares, kept = SpareBuffers(), bytearray(KEPT_BYTES)
    spares.give(kept)
    spares.give(bytearray(size))
    assert spares.take(1, 2 * KEPT_BYTES) is kept


@given(st.lists(st.integers(SMALLEST_BYTES, KEPT_BYTES), min_size=1, max_size=12))
def test_the_newest_buffers_are_kept_up_to_a_limit(sizes: list[int]) -> None:
    spares = SpareBuffers()
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        spares.give(buffer)
    kept = []
    while (found := spares.take(1, KEPT_BYTES)) is not None:
        kept.append(found)
    assert {id(buffer) for buffer in kept} == {id(buffer) for buffer in buffers[-len(kept) :]}
    assert sum(map(len, kept)) <= KEPT_BYTES
    dropped = buffers[: -len(kept)]
    assert not dropped or sum(map(len, kept)) + len(dropped[-1]) > KEPT_BYTES


@pytest.mark.parametrize("arrived", [0, 1, 1_000, 30_000, 100_000])
def test_h3_a_frame_with_few_bytes_takes_no_large_buffer(arrived: int) -> None:
    """Clients that send only a length must not hold the buffers of all earlier frames."""
    shared = SharedBuffer()
    feed(FrameReader(shared, LIMIT), framed(b"1" * MIB), [])
    reader = FrameReader(shared, LIMIT)
    feed(reader, (MIB - 100).to_bytes(4, "big") + b"x" * arrived, [])
    assert reader.is_within_frame
    assert reader.held_bytes <= max(FIRST_BYTES, 4 * arrived)


def test_large_frames_of_a_connection_use_one_buffer() -> None:
    shared = SharedBuffer()
    reader = FrameReader(shared, LIMIT)
    feed(reader, framed(b"1" * MIB), [])
    first = shared.spares.take(MIB, MIB)
    assert first is not None
    shared.spares.give(first)
    assert feed(reader, framed(b"2" * (MIB - 7)), []) == [b"2" * (MIB - 7)]
    assert shared.spares.take(MIB, MIB) is first


def test_a_frame_in_a_larger_buffer_ends_before_the_next_frame() -> None:
    reader = FrameReader(SharedBuffer(), LIMIT)
    feed(reader, framed(b"1" * MIB), [])
    half, next_one = b"2" * (MIB // 2), b"3" * 100
    assert feed(reader, framed(half, next_one), []) == [half, next_one]


def test_a_frame_that_is_still_in_use_keeps_its_bytes() -> None:
    """A request may refer to its frame after the next frame arrives, for example until its records
    were read by another thread."""
    reader = FrameReader(SharedBuffer(), LIMIT)
    views: list[memoryview] = []
    for number in range(5):
        data = framed(bytes([number]) * (300 << 10))
        position = 0
        while position < len(data):
            buffer = reader.buffer()
            size = min(len(buffer), len(data) - position)
            buffer[:size] = data[position : position + size]
            position += size
            views.extend(reader.received(size))
    assert [bytes(view) for view in views] == [bytes([n]) * (300 << 10) for n in range(5)]


@pytest.mark.parametrize("is_interleaved", [True, False])
@given(
    bodies=st.lists(st.integers(1, 300 << 10), min_size=1, max_size=4),
    pieces=st.lists(st.integers(1, 90 << 10), min_size=1, max_size=30),
)
def test_frames_are_whole_with_spare_buffers(
    is_interleaved: bool, bodies: list[int], pieces: list[int]
) -> None:
    shared = SharedBuffer(64 << 10)
    readers = [FrameReader(shared, LIMIT) for _ in range(2)]
    data = [framed(*(bytes([65 + which]) * size for size in bodies)) for which in range(2)]
    found: list[list[bytes]] = [[], []]
    step = pieces[0] if is_interleaved else max(map(len, data))
    for start in range(0, max(map(len, data)), step):
        for which, reader in enumerate(readers):
            found[which] += feed(reader, data[which][start : start + step], list(pieces))
    for which in range(2):
        assert found[which] == [bytes([65 + which]) * size for size in bodies]
