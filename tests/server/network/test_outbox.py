"""The outbox sends buffers and file ranges completely and in order, however slow the peer is."""

from __future__ import annotations

import asyncio
import os
import random
import tracemalloc
from pathlib import Path
from typing import cast

import pytest

from oncelog_server.clock import SystemClock
from oncelog_server.log.results import FileRange
from oncelog_server.network.outbox import SENDFILE_BYTES, SLICE_BYTES, Outbox
from oncelog_server.network.spin import Spin
from oncelog_server.network.turn import Turn
from oncelog_server.network.writables import Writables
from oncelog_server.requests.response import Part
from oncelog_server.storage.files import File
from tests.server.network.outboxes import DEADLINE_S, Sender, connected, file_of

FILE_BYTES = 4 << 20


async def test_parts_of_both_kinds_arrive_in_order(tmp_path: Path) -> None:
    """The outbox writes buffers and small ranges to the transport, and large ranges by sendfile.
    Buffers and ranges come in random order, and the reader starts late. The test compares every
    byte."""
    data = os.urandom(FILE_BYTES)
    draw = random.Random(7)
    expected = []
    async with file_of(tmp_path, data) as file, connected() as (outbox, reader):
        for _ in range(150):
            parts: list[Part] = []
            for _ in range(draw.randrange(1, 5)):
                size = draw.choice((1, 500, SENDFILE_BYTES - 1, SENDFILE_BYTES, 900_000))
                start = draw.randrange(FILE_BYTES - size)
                expected.append(data[start : start + size])
                ranged = draw.random() < 0.6
                parts.append(FileRange(file, start, size) if ranged else expected[-1])
            outbox.send(parts)
            if draw.random() < 0.3:
                await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE_S):
            for piece in expected:
                assert await reader.readexactly(len(piece)) == piece


@pytest.mark.parametrize("behind_a_range", [False, True])
async def test_a_response_of_many_parts_is_not_copied(tmp_path: Path, behind_a_range: bool) -> None:
    """Joining tens of megabytes on the loop would delay all other clients. The outbox sends the
    response after the responses that it held until the end of the turn, and before later ones."""
    parts: list[Part] = [os.urandom(1 << 20) for _ in range(32)]
    async with file_of(tmp_path, bytes(500)) as file, connected() as (outbox, reader):
        first: list[Part] = [FileRange(file, 0, 500)] if behind_a_range else [b"held"]
        sent = [*first, *parts] if behind_a_range else parts
        if not behind_a_range:
            outbox.send([b"may write"])
            outbox.send(first)
        tracemalloc.start()
        try:
            outbox.send(sent)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        outbox.send([b"next"])
        assert most < 2 << 20
        before = bytes(500) if behind_a_range else b"may write" + b"held"
        async with asyncio.timeout(DEADLINE_S):
            for piece in (before, *cast("list[bytes]", parts), b"next"):
                assert await reader.readexactly(len(piece)) == piece


class Unwritable(asyncio.Transport):
    """A transport with a defect: `write` raises an error that is no OSError."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: object) -> None:
        raise RuntimeError("broken")

    def abort(self) -> None:
        self.aborted = True


async def test_responses_that_cannot_be_written_at_the_end_of_a_turn_close_the_connection() -> None:
    """Otherwise the peer would take later responses for the responses that were not written."""
    loop = asyncio.get_running_loop()
    transport, turn = Unwritable(), Turn(loop, Spin(loop, SystemClock(), 0))
    outbox = Outbox(transport, loop, turn, Writables(loop), Sender())
    turn.may_write()
    outbox.send([b"held"])
    with pytest.raises(RuntimeError, match="broken"):
        outbox.flush()
    assert transport.aborted


@pytest.mark.parametrize("size", [SENDFILE_BYTES // 2, SENDFILE_BYTES])
async def test_a_range_that_cannot_be_read_ends_the_connection(tmp_path: Path, size: int) -> None:
    """After half a response the connection must not send another response."""
    async with file_of(tmp_path, b"x" * size) as file, connected() as (outbox, reader):
        outbox.send([b"head", FileRange(file, 0, size + 1_000), b"tail"])
        async with asyncio.timeout(DEADLINE_S):
            try:
                received = await reader.read(-1)
            except ConnectionResetError:
                received = b""
    assert b"tail" not in received


async def test_without_sendfile_a_range_takes_little_memory_while_the_peer_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS there is no sendfile. A client that requests 32 MiB and does not read must not cost
    the broker 32 MiB."""
    monkeypatch.setattr("oncelog_server.network.outbox.HAS_SENDFILE", False)
    data = os.urandom(32 << 20)
    async with file_of(tmp_path, data) as file, connected() as (outbox, reader):
        read: list[int] = []
        counted = Counting(file, read)
        outbox.send([b"head", FileRange(cast(File, counted), 0, len(data)), b"tail"])
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert max(read) <= SLICE_BYTES
        assert sum(read) < 16 << 20  # what both sockets hold
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readexactly(len(data) + 8) == b"head" + data + b"tail"


@pytest.mark.parametrize("has_sendfile", [True, False])
async def test_the_unsent_bytes_fall_while_the_peer_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_sendfile: bool
) -> None:
    """Without such a change, the connection counts as idle."""
    monkeypatch.setattr("oncelog_server.network.outbox.HAS_SENDFILE", has_sendfile)
    data = os.urandom(32 << 20)
    async with file_of(tmp_path, data) as file, connected() as (outbox, reader):
        assert outbox.unsent_bytes == 0
        outbox.send([b"head", FileRange(file, 0, len(data)), b"tail"])
        left = outbox.unsent_bytes
        assert 0 < left <= len(data) + 8
        read = 0
        async with asyncio.timeout(DEADLINE_S):
            while outbox.unsent_bytes:
                read += len(await reader.read(4 << 20))
                assert outbox.unsent_bytes <= left
                left = outbox.unsent_bytes
            read += len(await reader.readexactly(len(data) + 8 - read))
        assert read == len(data) + 8


async def test_while_the_transport_is_full_small_ranges_wait_in_their_file(tmp_path: Path) -> None:
    """The transport keeps all bytes that it gets in memory (scenario N4)."""
    async with file_of(tmp_path, b"range") as file, connected() as (outbox, reader):
        read: list[int] = []
        counted = cast(File, Counting(file, read))
        outbox.block()
        outbox.send([b"head", FileRange(counted, 0, 5)])
        assert read == []
        outbox.unblock()
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readexactly(9) == b"headrange"


class Counting:
    """A file that notes the size of each read."""

    def __init__(self, file: File, sizes: list[int]) -> None:
        self._file = file
        self._sizes = sizes
        self.path = file.path

    def is_cached(self, position: int, length: int) -> bool:
        return self._file.is_cached(position, length)

    def read(self, position: int, length: int) -> bytes:
        self._sizes.append(length)
        return self._file.read(position, length)
