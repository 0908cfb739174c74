"""Bytes of responses that are only on the disk are read outside of the event loop, and no byte is
lost, doubled or reordered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn, cast

import pytest

from oncelog_server.log.results import AHEAD_BYTES, FileRange
from oncelog_server.network.disk_wait import STEP_BYTES
from oncelog_server.network.outbox import SENDFILE_BYTES, SLICE_BYTES
from oncelog_server.storage.files import File
from tests.server.network.outboxes import DEADLINE_S, connected, file_of

# By sendfile, as over TLS, and the small responses of most Fetches.
SIZES = {"sendfile": 3 * STEP_BYTES + 5, "slices": 3 * STEP_BYTES + 5, "small": SENDFILE_BYTES // 2}


class Cold:
    """A file. The bytes below `warm` are in the page cache. A prefetch ends when the test calls
    `arrive`. With `is_evicting`, its bytes have left the page cache by then."""

    def __init__(self, file: File, *, is_evicting: bool = False) -> None:
        self._file = file
        self._is_evicting = is_evicting
        self.path = file.path
        self.warm = 0
        # The prefetches: position and size.
        self.prefetched: list[tuple[int, int]] = []
        self._arrived: list[Callable[[], None]] = []
        self._begun = asyncio.Event()
        # The positions of reads of bytes that were only on the disk.
        self.slow_reads: list[int] = []

    def is_cached(self, position: int, size: int) -> bool:
        return position + size <= self.warm

    def prefetch(self, position: int, size: int, done: Callable[[], None]) -> None:
        self.prefetched.append((position, size))
        self._arrived.append(done)
        self._begun.set()

    def arrive(self) -> None:
        if not self._is_evicting:
            self.warm = sum(self.prefetched[-1])
        self._arrived.pop()()

    async def arrive_soon(self) -> NoReturn:
        """End each prefetch after its begin."""
        while True:
            await self._begun.wait()
            self._begun.clear()
            self.arrive()

    def read(self, position: int, size: int) -> bytes:
        if not self.is_cached(position, size):
            self.slow_reads.append(position)
        return self._file.read(position, size)

    def fileno(self) -> int:
        return self._file.fileno()


@asynccontextmanager
async def disk_of(cold: Cold) -> AsyncIterator[None]:
    """Let the prefetches of a file end within the block, which must end in time."""
    task = asyncio.ensure_future(cold.arrive_soon())
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield
    finally:
        task.cancel()


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    if request.param == "slices":
        monkeypatch.setattr("oncelog_server.network.outbox.HAS_SENDFILE", False)
    return SIZES[request.param]


async def test_a_cold_range_waits_and_other_connections_do_not(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    async with (
        file_of(tmp_path, data) as file,
        connected() as (outbox, reader),
        connected() as (other, other_reader),
    ):
        cold = Cold(file)
        outbox.send([b"head", FileRange(cast(File, cold), 0, size), b"tail"])
        outbox.send([b"next"])
        assert cold.prefetched == [(0, min(size, STEP_BYTES) + AHEAD_BYTES)]
        other.send([b"other"])
        async with asyncio.timeout(DEADLINE_S):
            assert await other_reader.readexactly(5) == b"other"
        outbox.send([b"last"])
        async with disk_of(cold):
            received = await reader.readexactly(size + 16)
        assert received == b"head" + data + b"tailnextlast"
        assert cold.slow_reads == []


async def test_the_steps_of_a_range_are_prefetched_once_and_in_order(
    tmp_path: Path, size: int
) -> None:
    async with file_of(tmp_path, bytes(size)) as file, connected() as (outbox, reader):
        cold = Cold(file)
        outbox.send([b"head", FileRange(cast(File, cold), 0, size)])
        async with disk_of(cold):
            await reader.readexactly(size + 4)
        positions = [position for position, _ in cold.prefetched]
        assert positions == sorted(set(positions))
        assert len(positions) <= -(-size // STEP_BYTES)


async def test_a_connection_may_end_during_a_prefetch(tmp_path: Path, size: int) -> None:
    async with file_of(tmp_path, bytes(size)) as file:
        async with connected() as (outbox, _):
            cold = Cold(file)
            outbox.send([b"head", FileRange(cast(File, cold), 0, size)])
        cold.arrive()
    assert cold.slow_reads == []


async def test_a_stopping_connection_sends_what_comes_from_the_disk(
    tmp_path: Path, size: int
) -> None:
    data = os.urandom(size)
    async with file_of(tmp_path, data) as file, connected() as (outbox, reader):
        cold = Cold(file)
        outbox.send([b"head", FileRange(cast(File, cold), 0, size)])
        outbox.finish()
        async with disk_of(cold):
            assert await reader.read(-1) == b"head" + data


async def test_bytes_that_leave_the_page_cache_again_are_sent_nevertheless(
    tmp_path: Path, size: int
) -> None:
    data = os.urandom(size)
    async with file_of(tmp_path, data) as file, connected() as (outbox, reader):
        cold = Cold(file, is_evicting=True)
        outbox.send([b"head", FileRange(cast(File, cold), 0, size)])
        async with disk_of(cold):
            assert await reader.readexactly(size + 4) == b"head" + data


def test_a_step_has_whole_slices() -> None:
    """Another size would leave a small TLS record at the end of each step."""
    assert STEP_BYTES % SLICE_BYTES == 0
    assert STEP_BYTES >= 1 << 20
