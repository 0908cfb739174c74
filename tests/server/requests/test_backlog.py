"""Stored bytes are returned in order, once, and without another copy."""

from __future__ import annotations

import random
from itertools import islice

from oncelog_server.requests.backlog import Backlog


def test_frames_come_in_order_whenever_they_are_added_and_taken() -> None:
    draw = random.Random(11)
    backlog = Backlog()
    added: list[bytes] = []
    taken: list[memoryview] = []
    for _ in range(2000):
        for _ in range(draw.randrange(6)):
            frame = draw.randbytes(draw.randrange(1, 40))
            backlog.add(memoryview(frame))
            added.append(frame)
        taken += islice(backlog.frames(), draw.randrange(5))
        waiting = added[len(taken) :]
        assert backlog.waiting_bytes == sum(map(len, waiting)) + 4 * len(waiting)
    taken += backlog.frames()
    # Views that are still held do not change.
    assert [bytes(frame) for frame in taken] == added
    assert backlog.waiting_bytes == 0


def test_waiting_bytes_are_not_copied_again_when_frames_are_taken() -> None:
    backlog = Backlog()
    for _ in range(18_000):
        backlog.add(memoryview(b"0123456789"))
    first = next(backlog.frames())
    rest = list(backlog.frames())
    assert {id(frame.obj) for frame in rest} == {id(first.obj)}
