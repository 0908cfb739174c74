"""The log cleaner: one log at a time, the dirtiest first (Kafka's LogCleaner and its manager)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from oncelog_server.cleaning.cleaner_pass import Pass
from oncelog_server.cleaning.turns import run_in_turns
from oncelog_server.cleaning.work import StartWork
from oncelog_server.clock import Clock
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.config import Settings
from oncelog_server.log.cleaner.cleanable import Cleanable, cleanable
from oncelog_server.log.cleaner.job import CleanerStats, CleaningLimits
from oncelog_server.log.errors import CorruptLog
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RETRY_MS, RefusedWork
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    partition_directory,
    segment_file,
)
from oncelog_server.timers import Timer, Timers
from oncelog_server.topic_partition import TopicPartition

log = structlog.get_logger("oncelog.cleaner")

# Logs examined in one turn of the event loop.
LOGS_AT_ONCE: Final = 100
# Time in ms before a log that could not be read is tried again.
REST_MS: Final = 300_000
# Operations that a full disk refuses. They are retried when a probe of the disk succeeds.
WRITING: Final = frozenset({"append", "create", "rename"})
# Time in ms before the next probe, if a pass failed although a probe had succeeded.
AFTER_PROBE_MS: Final = 3_000


class LogCleaner:
    """Compacts one log at a time, each in a pass, and then looks for the next log.

    If no log is dirty enough, the cleaner searches again after `log.cleaner.backoff.ms`.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        timers: Timers,
        partitions: Partitions,
        files: Files,
        start_work: StartWork,
        refused_work: RefusedWork,
        checkpoint: Callable[[], object],
    ) -> None:
        """`checkpoint` writes the offsets up to which the logs are clean."""
        self._checkpoint = checkpoint
        self._refused_work = refused_work
        # By log: the storage error of its last pass, and the time of the next probe in ms.
        self._refused: dict[TopicPartition, tuple[StorageError, int]] = {}
        # Logs with a successful probe of the disk. The value is True if the log was cleaned, or
        # found clean, after the probe.
        self._probed: dict[TopicPartition, bool] = {}
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._partitions = partitions
        self._files = files
        self._start_work = start_work
        # Logs that are not cleaned before a time (monotonic clock, in ms). The time is infinite for
        # corrupt logs, and for logs that wait for a probe of the disk.
        self._uncleanable: dict[TopicPartition, float] = {}
        # Logs with a starved last pass: it got too little processor time. Their next pass does not
        # have the lowest priority.
        self._starved: set[TopicPartition] = set()
        self._timer: Timer | None = None
        self._pass: Pass | None = None
        self._stopped = False
        # Number of successful passes since the start, and the time of the last search for a log.
        self.passes = 0
        self._looked_ms = clock.monotonic_ms()

    @property
    def limits(self) -> CleaningLimits:
        """Return the limits of the next pass."""
        return _limits(self._settings)

    @property
    def uncleanable_count(self) -> int:
        """Number of logs that are not cleaned because they are corrupt or the disk failed."""
        now_ms = self._clock.monotonic_ms()
        return sum(until_ms > now_ms for until_ms in self._uncleanable.values())

    @property
    def idle_ms(self) -> int:
        """Time in ms since the cleaner last looked for a log."""
        return self._clock.monotonic_ms() - self._looked_ms

    def start(self) -> None:
        if self._settings.log_cleaner_enable:
            self._wait()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._pass is not None:
            self._pass.cancel()

    async def stopped(self) -> None:
        """Wait, after `stop`, until the running pass has ended."""
        if self._pass is not None:
            await self._pass.gone()

    def follow(self, _old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        """Forget the partitions that leave this broker, so that a later log with the same name does
        not get their state. The replica manager must follow the image first."""
        if self._pass is not None and self._pass.partition.clean_part.leaves:
            self._pass.drop()
        deleted = {topic.name for topic in delta.topics_deleted}
        known = (*self._uncleanable, *self._refused, *self._starved)
        for name in [name for name in known if name.topic in deleted]:
            self._forget(name)
        for change in delta.partitions:
            name = TopicPartition(change.topic.name, change.partition)
            partition = self._partitions.get(name)
            if partition is None or partition.clean_part.leaves:
                self._forget(name)

    def _forget(self, name: TopicPartition) -> None:
        self._uncleanable.pop(name, None)
        self._probed.pop(name, None)
        self._starved.discard(name)
        if self._refused.pop(name, None) is not None:
            self._refused_work.discard(_compaction_of(name))

    # --- the next log

    def _wait(self) -> None:
        if self._stopped:
            return
        self._timer = self._timers.call_later(self._settings.log_cleaner_backoff_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._stopped:
            self._looked_ms = self._clock.monotonic_ms()
            run_in_turns(self._timers, self._find(), self._found, self._search_failed)

    def _search_failed(self, error: Exception) -> None:
        log.error("the search for a log to compact failed", exc_info=error)
        self._wait()

    def _find(self) -> Generator[None, None, tuple[Partition, Cleanable] | None]:
        """Return the dirtiest of the logs that are dirty enough, None if there is none. Yield after
        each step."""
        dirtiest: tuple[Partition, Cleanable] | None = None
        now_ms = self._clock.now_ms()
        for index, partition in enumerate(list(self._partitions)):
            if index % LOGS_AT_ONCE == LOGS_AT_ONCE - 1:
                yield
            if not self._is_candidate(partition):
                continue
            found = self._cleanable(partition, now_ms)
            if not (found is not None and found.is_worth_it):
                self._has_recovered(partition.topic_partition)
            is_more = dirtiest is None or (found is not None and found.ratio > dirtiest[1].ratio)
            if found is not None and found.is_worth_it and is_more:
                dirtiest = partition, found
        return dirtiest

    def _is_candidate(self, partition: Partition) -> bool:
        if partition.log_to_clean() is None:
            return False
        given_up_ms = self._uncleanable.get(partition.topic_partition, 0)
        return given_up_ms <= self._clock.monotonic_ms()

    def _cleanable(self, partition: Partition, now_ms: int) -> Cleanable | None:
        partition_log = partition.log_to_clean()
        if partition_log is None:
            return None
        try:
            last_cleaned = partition_log.clean_part.end_offset
            return cleanable(partition_log, last_cleaned, partition.last_stable_offset, now_ms)
        except (StorageError, CorruptLog) as error:
            self._give_up(partition, error)
        except Exception as error:  # a defect with one log must not stop the others
            self._give_up_broken(partition, error)
        return None

    def _found(self, found: tuple[Partition, Cleanable] | None) -> None:
        if self._stopped:
            return
        for name, is_clean in self._probed.items():
            if is_clean:
                self._end_soon(name)
        if found is None:
            self._wait()
            return
        gives_way = found[0].topic_partition not in self._starved
        limits = self.limits._replace(gives_way=gives_way)
        self._pass = Pass(self, self._timers, *found)
        self._pass.start(self._start_work, limits, self._clock.now_ms())

    # --- the end of a pass

    def holds(self, partition: Partition) -> bool:
        """Return True if the log may still be cleaned: it is not deleted, has not failed, and is
        still compacted."""
        return (
            self._partitions.get(partition.topic_partition) is partition
            and partition.log_to_clean() is not None
        )

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def passed(self, partition: Partition, done: CleanerStats | None) -> None:
        """End a pass. `done` is None if the pass ended early because its log changed."""
        self._pass = None
        self._starved.discard(partition.topic_partition)
        if done is not None:
            self.passes += 1
            self._has_recovered(partition.topic_partition)
            self._checkpoint()
            log.info(
                "log compacted",
                partition=str(partition.topic_partition),
                up_to=done.end_offset,
                bytes_before=done.bytes_read,
                bytes_after=done.bytes_kept,
                records_before=done.records_read,
                records_after=done.records_kept,
            )
        self._look()

    def starved(self, partition: Partition) -> None:
        """End a pass that got too little processor time. The next pass over this log does not have
        the lowest priority."""
        self._pass = None
        self._starved.add(partition.topic_partition)
        log.info("log not compacted yet: busy", partition=str(partition.topic_partition))
        self._look()

    def failed(self, partition: Partition, error: StorageError | CorruptLog) -> None:
        self._pass = None
        self._give_up(partition, error)
        self._look()

    def broken(self, partition: Partition, error: Exception) -> None:
        """End a pass that a defect has stopped."""
        self._pass = None
        self._give_up_broken(partition, error)
        self._wait()

    def _give_up_broken(self, partition: Partition, error: Exception) -> None:
        name = partition.topic_partition
        self._uncleanable[name] = self._clock.monotonic_ms() + REST_MS
        reason = f"a defect: {type(error).__name__}"
        log.error("log not compacted", partition=str(name), reason=reason, exc_info=error)

    def _give_up(self, partition: Partition, error: StorageError | CorruptLog) -> None:
        name = partition.topic_partition
        if self._partitions.get(name) is not partition or partition.clean_part.leaves:
            return  # the error is that of an earlier log with this name
        if isinstance(error, StorageError) and error.operation in WRITING:
            self._leave_to_the_disk(name, error)
            return
        if self._refused.pop(name, None) is not None:  # the disk is not the reason any more
            self._probed.pop(name, None)
            self._end_soon(name)
        corrupt = isinstance(error, CorruptLog)
        until_ms = float("inf") if corrupt else self._clock.monotonic_ms() + REST_MS
        self._uncleanable[name] = until_ms
        log.error("log not compacted", partition=str(name), reason=str(error), for_ever=corrupt)

    # --- a full disk

    def _leave_to_the_disk(self, name: TopicPartition, error: StorageError) -> None:
        """Suspend the log until a probe shows that the disk accepts writes again."""
        rest_ms = AFTER_PROBE_MS if name in self._refused else 0
        self._refused[name] = error, self._clock.monotonic_ms() + rest_ms
        self._uncleanable[name] = float("inf")
        self._probed.pop(name, None)
        work = _compaction_of(name)
        if work not in self._refused_work:
            retry = partial(self._retry, name)
            self._refused_work.add(work, error, retry, partition=str(name), work="compaction")

    def _retry(self, name: TopicPartition) -> None:
        """Probe the disk. After a successful probe, the cleaner examines the log again.

        The retries end if the log was cleaned or found clean after an earlier probe, or if the log
        need not be cleaned any more. In every other case this method raises the StorageError of the
        last pass or of the probe, even if the probe was successful. A probe costs less than a whole
        pass.
        """
        if name not in self._refused:
            return
        error, from_ms = self._refused[name]
        partition = self._partitions.get(name)
        if partition is None or partition.log_to_clean() is None:
            self._uncleanable.pop(name, None)
            self._probed.pop(name, None)
            del self._refused[name]
            return
        if name in self._uncleanable:
            # Probe in the retry that is nearest to `from_ms`. Retries come every RETRY_MS, and not
            # exactly at `from_ms`.
            if self._clock.monotonic_ms() + RETRY_MS // 2 < from_ms:
                raise error
            self._probe(partition_directory(*name), error)
            del self._uncleanable[name]
            self._probed[name] = False
        elif self._probed[name]:
            del self._refused[name], self._probed[name]
            return
        if self._timer is not None:
            self._timer.cancel()
            self._look()
        raise error

    def _has_recovered(self, name: TopicPartition) -> None:
        if name in self._probed:
            self._probed[name] = True

    def _end_soon(self, name: TopicPartition) -> None:
        """End the retries of a log's compaction, but only in a later turn of the event loop. The
        caller may itself be such a retry, which has to return first."""
        self._timers.call_soon(partial(self._refused_work.retry, _compaction_of(name)))

    def _probe(self, directory: str, error: StorageError) -> None:
        """Write a file with as many bytes as the disk refused, then rename and remove the file.
        Raises StorageError."""
        path = error.path
        if not path.endswith(CLEANED_SUFFIX):  # never a file in use
            path = f"{directory}/{segment_file(0, LOG_SUFFIX, CLEANED_SUFFIX)}"
        deleted = path + DELETED_SUFFIX
        try:
            file = self._files.open(path, create=True)
            file.append(bytes(max(error.needed_bytes, 1)))
            file.close()
            self._files.rename(path, deleted)
        except StorageError:
            with suppress(StorageError):  # after an error, the next pass or start deletes the file
                if self._files.exists(path):
                    self._files.rename(path, deleted)
            raise
        finally:
            self._files.remove([deleted])


def _compaction_of(name: TopicPartition) -> str:
    return f"compaction of {name}"


def _limits(settings: Settings) -> CleaningLimits:
    return CleaningLimits(
        dedupe_buffer_bytes=settings.log_cleaner_dedupe_buffer_size,
        io_buffer_bytes=max(settings.log_cleaner_io_buffer_size, 1),
        load_factor=settings.log_cleaner_io_buffer_load_factor,
        max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
    )
