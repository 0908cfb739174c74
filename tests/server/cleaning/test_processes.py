"""A cleaning pass in its own process has the same result as a pass in steps of the event loop. The
process ends when the cleaner cancels the pass."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cleaning.processes import ProcessWork
from oncelog_server.cleaning.work import pause_ms
from oncelog_server.log.cleaner.aborted_rows import AbortedRows
from oncelog_server.log.cleaner.cleaning import clean
from oncelog_server.log.cleaner.job import (
    Chunk,
    Cleaned,
    CleanerStats,
    CleaningEvent,
    CleaningJob,
    CleaningLimits,
    Progress,
    Source,
)
from oncelog_server.log.cleaner.last_batches import LastBatches
from oncelog_server.log.config import COMPACT, LogConfig
from oncelog_server.log.errors import CorruptLog
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.storage.files import StorageError

DEADLINE_S = 60.0
CONFIG = LogConfig(cleanup_policy=frozenset({COMPACT}), segment_bytes=1)
# A process of low priority would get no CPU time on a busy machine.
LIMITS = CleaningLimits(io_buffer_bytes=1_000, gives_way=False)


class Heard:
    """A listener that records its events. After each cleaned segment, it pauses the pass for a turn
    of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.events: list[CleaningEvent] = []
        self.ended: asyncio.Future[Exception | None] = loop.create_future()
        self.work: ProcessWork | None = None
        self.first: asyncio.Future[None] = loop.create_future()

    def on_event(self, event: CleaningEvent) -> None:
        if not self.first.done():
            self.first.set_result(None)
        if isinstance(event, Progress):
            return
        self.events.append(event)
        if isinstance(event, Cleaned):
            assert self.work is not None
            self.work.pause()
            self.loop.call_soon(self.work.resume)
        elif isinstance(event, CleanerStats):
            self.ended.set_result(None)

    def on_failure(self, error: Exception) -> None:
        self.ended.set_result(error)

    def on_starved(self) -> None:
        raise AssertionError("the pass got too little CPU time")


def job_in(folder: Path, *, segments: int = 3, limits: CleaningLimits | None = None) -> CleaningJob:
    """Return a job with closed segments of 50 batches. Keys repeat."""
    sources = []
    offset = 0
    for _ in range(segments):
        base = offset
        path = f"{base:020}.log"
        with (folder / path).open("wb") as file:
            for _ in range(50):
                records = [NewRecord(1, b"k%d" % (offset + n & 63), b"v" * 50) for n in range(2)]
                file.write(build_batch(records, base_offset=offset))
                offset += 2
        sources.append(Source(base, offset, path, (folder / path).stat().st_size))
    return CleaningJob(tuple(sources), 0, AbortedRows(), LastBatches(), CONFIG, limits or LIMITS, 5)


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    listener = Heard(asyncio.get_running_loop())
    yield listener
    if listener.work is not None:
        async with asyncio.timeout(DEADLINE_S):
            await listener.work.gone()


def begin(heard: Heard, folder: Path, job: CleaningJob) -> ProcessWork:
    heard.work = ProcessWork(heard.loop, str(folder), job, heard)
    return heard.work


async def ended(heard: Heard) -> Exception | None:
    return await asyncio.wait_for(heard.ended, DEADLINE_S)


async def test_a_process_has_the_same_results_as_the_steps(heard: Heard, tmp_path: Path) -> None:
    job = job_in(tmp_path)
    begin(heard, tmp_path, job)
    assert await ended(heard) is None
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=lambda call: call())
        steps = [event for event in clean(job, files) if not isinstance(event, Progress)]
        files.close()
    assert heard.events == steps
    assert any(isinstance(event, Chunk) for event in steps)


async def test_the_error_for_a_corrupt_segment_has_its_path(heard: Heard, tmp_path: Path) -> None:
    job = job_in(tmp_path)
    with (tmp_path / job.sources[1].path).open("r+b") as file:
        file.seek(1_000)
        file.write(b"\xff")
    begin(heard, tmp_path, job)
    error = await ended(heard)
    assert isinstance(error, CorruptLog)
    assert error.path == job.sources[1].path


async def test_a_missing_segment_is_reported_as_a_storage_error(
    heard: Heard, tmp_path: Path
) -> None:
    job = job_in(tmp_path)
    (tmp_path / job.sources[1].path).unlink()
    begin(heard, tmp_path, job)
    assert isinstance(await ended(heard), StorageError)


def slow(folder: Path) -> CleaningJob:
    """Return a job for a pass that does not end during a test."""
    return job_in(folder, limits=LIMITS._replace(max_bytes_per_second=1_000, step_bytes=500))


def oom_score(process: int) -> str:
    return Path(f"/proc/{process}/oom_score_adj").read_text().strip()


def children() -> set[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return set(map(int, text.split()))


@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="Linux only")
async def test_the_kernel_ends_the_process_before_the_broker_if_the_memory_is_full(
    heard: Heard, tmp_path: Path
) -> None:
    """A batch may be very large when decompressed."""
    before = children()
    begin(heard, tmp_path, slow(tmp_path))
    await asyncio.wait_for(heard.first, DEADLINE_S)
    (child,) = children() - before
    assert oom_score(child) == "1000"
    assert heard.work is not None
    heard.work.cancel()


async def test_a_killed_process_is_reported_as_a_storage_error(
    heard: Heard, tmp_path: Path
) -> None:
    before = children()
    begin(heard, tmp_path, slow(tmp_path))
    await asyncio.wait_for(heard.first, DEADLINE_S)
    (child,) = children() - before
    os.kill(child, signal.SIGKILL)
    assert isinstance(await ended(heard), StorageError)


async def test_a_cancelled_process_ends_and_reports_no_event(heard: Heard, tmp_path: Path) -> None:
    before = children()
    work = begin(heard, tmp_path, slow(tmp_path))
    await asyncio.wait_for(heard.first, DEADLINE_S)
    work.cancel()
    await asyncio.wait_for(work.gone(), DEADLINE_S)
    assert not children() - before
    assert not heard.ended.done()


async def test_a_process_cancelled_before_it_runs_never_runs(heard: Heard, tmp_path: Path) -> None:
    before = children()
    work = begin(heard, tmp_path, slow(tmp_path))
    work.cancel()
    await asyncio.wait_for(work.gone(), DEADLINE_S)
    assert not children() - before
    assert not heard.first.done()


def test_the_rate_limit_is_a_pause_after_each_step() -> None:
    assert pause_ms(1_000, 10_000) == 100
    assert pause_ms(1_000, 1.7976931348623157e308) == 0
    assert pause_ms(1_000, float("inf")) == 0
