"""Make the logs of all partitions durable, after a recovery and at a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import structlog

from oncelog_server.deferred import Deferred
from oncelog_server.partition.registry import Partitions
from oncelog_server.slices import Slices, Steps
from oncelog_server.storage.files import File, Files, StorageError

log = structlog.get_logger("oncelog.broker")

T = TypeVar("T")


async def sync_recovered(files: Files, partitions: Partitions) -> None:
    """Sync the logs that recovery has read from the page cache. Readers see these records once the
    broker serves, so a power failure must not lose them. Raises StorageError.
    """
    flushes = [(partition, partition.begin_flush()) for partition in partitions]
    failure = await _synced(files, [file for _, flush in flushes for file in flush.files])
    for partition, flush in flushes:
        partition.finish_flush(flush, failure)
    if failure is not None:
        raise failure


async def close_logs(files: Files, partitions: Partitions, slices: Slices) -> bool:
    """Close and sync every log, in slices. Return False if the next start must recover some of
    them. The failure of one log is logged, and the others are still closed.
    """
    open_files: list[File] = []
    clean = await end_of(slices.queue(_closing(partitions, open_files)), otherwise=False)
    failure = await _synced(files, open_files)
    if failure is not None:
        log.error("logs not synced", reason=str(failure))
        return False
    # A flush of before, such as that of a roll, may be the only sync that gets an error.
    for partition in list(partitions):
        clean = await end_of(partition.flushed(), otherwise=False) and clean
    if clean:
        partitions.synced()
    return clean


def _closing(partitions: Partitions, open_files: list[File]) -> Steps[bool]:
    """Close every log; add the files to sync to `open_files`. Return whether all were closed."""
    clean = True
    all_partitions = list(partitions)
    # When the first log is closed, this broker leads no partition any more. So no record is
    # appended to a closed log.
    for partition in all_partitions:
        partition.resign()
        yield
    for partition in all_partitions:
        try:
            open_files += partition.close()
        except StorageError as error:
            log.error("log not closed", partition=str(partition.topic_partition), reason=str(error))
            clean = False
        clean = clean and partition.offline is None and partition.failure is None
        yield
    return clean and not partitions.offline()


async def _synced(files: Files, unsynced: Sequence[File]) -> StorageError | None:
    """Sync the files. Return the error, None without one."""
    synced: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    files.sync(unsynced, synced.set_result)
    return await synced


async def end_of(result: Deferred[T], *, otherwise: T) -> T:
    """Return the value of `result` when it is complete, `otherwise` if it is abandoned."""
    ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def end(value: T) -> None:
        if not ended.done():
            ended.set_result(value)

    result.on_complete(end)
    result.on_abandon(lambda: end(otherwise))
    return await ended
