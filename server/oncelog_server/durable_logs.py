"""Bring the logs of all partitions to the disk: after a recovery, and at a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from oncelog_server.partition.registry import Partitions
from oncelog_server.storage.files import File, Files, StorageError

log = structlog.get_logger("oncelog.broker")


async def sync_recovered(files: Files, partitions: Partitions) -> None:
    """Sync what recovery has read from the page cache: it counts as acknowledged from now on, so a
    power failure must not take it. Raises StorageError."""
    flushes = [(partition, partition.log.begin_flush()) for partition in partitions]
    failure = await _synced(files, [file for _, flush in flushes for file in flush.files])
    if failure is not None:
        raise failure
    for partition, flush in flushes:
        partition.log.finish_flush(flush, None)


async def close_logs(files: Files, partitions: Partitions) -> bool:
    """Close and sync every log. Return False if the next start has to recover some of them; a log
    that fails is logged and does not keep the others from closing."""
    open_files: list[File] = []
    clean = True
    for partition in partitions:
        partition.resign()
        try:
            open_files += partition.log.close(clean=partition.offline is None)
        except StorageError as error:
            log.error("log not closed", partition=str(partition.topic_partition), reason=str(error))
            clean = False
        clean = clean and partition.offline is None and partition.log.failure is None
    clean = clean and not partitions.offline()
    failure = await _synced(files, open_files)
    if failure is not None:
        log.error("logs not synced", reason=str(failure))
        return False
    if clean:
        partitions.synced()
    return clean


async def _synced(files: Files, unsynced: Sequence[File]) -> StorageError | None:
    """Return why `unsynced` could not be synced; None if they are."""
    synced: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    files.sync(unsynced, synced.set_result)
    return await synced
