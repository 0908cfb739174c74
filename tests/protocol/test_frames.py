"""A reader gets the same frames, however their bytes are split on arrival."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.frames import FrameReader, frame
from tests.examples import examples

bodies = st.lists(st.binary(max_size=50), max_size=6)


def wire(contents: list[bytes]) -> bytes:
    return b"".join(part for content in contents for part in frame([content]))


@settings(max_examples=examples(200), deadline=None, database=None)
@given(bodies)
def test_whole(contents: list[bytes]) -> None:
    reader = FrameReader()
    assert list(reader.receive_data(wire(contents))) == contents
    assert reader.pending == 0


@settings(max_examples=examples(100), deadline=None, database=None)
@given(bodies)
def test_byte_by_byte(contents: list[bytes]) -> None:
    reader = FrameReader()
    arrived = [f for byte in wire(contents) for f in reader.receive_data(bytes([byte]))]
    assert arrived == contents


@settings(max_examples=examples(100), deadline=None, database=None)
@given(bodies, st.lists(st.integers(0, 400), max_size=8))
def test_in_any_pieces(contents: list[bytes], cuts: list[int]) -> None:
    raw, reader = wire(contents), FrameReader()
    edges = [0, *sorted(cuts), len(raw)]
    pieces = [raw[start:stop] for start, stop in pairwise(edges)]
    if edges[-2] > len(raw):
        pieces[-1] = b""
    arrived = [f for piece in pieces for f in reader.receive_data(memoryview(piece))]
    assert arrived == contents


def test_with_a_remainder() -> None:
    reader = FrameReader()
    assert list(reader.receive_data(wire([b"one"]) + b"\0\0\0\5two")) == [b"one"]
    assert reader.pending == 7
    assert list(reader.receive_data(b"!!\0")) == [b"two!!"]
    assert reader.pending == 1


def test_frames_not_taken_yet_are_kept() -> None:
    reader = FrameReader()
    assert next(reader.receive_data(wire([b"one", b"two"]))) == b"one"
    assert list(reader.receive_data(b"")) == [b"two"]


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\x0b"])
def test_a_size_beyond_the_limit_is_refused_after_the_frames_before_it(size: bytes) -> None:
    reader = FrameReader(limit=10)
    frames = reader.receive_data(wire([b"x" * 10]) + size)
    assert next(frames) == b"x" * 10
    with pytest.raises(ProtocolError, match="a frame of"):
        next(frames)
    with pytest.raises(ProtocolError, match="a frame of"):
        list(reader.receive_data(b"more"))


class Range:
    """A part of a frame that is not bytes but has a length, like a range of a file."""

    def __len__(self) -> int:
        return 300


def test_a_part_need_not_be_bytes() -> None:
    part = Range()
    parts = frame([b"head", part])
    assert parts == [b"\0\0\1\x30", b"head", part]
