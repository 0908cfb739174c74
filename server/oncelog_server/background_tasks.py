"""Periodic tasks: abort overdue transactions, apply retention, flush, write checkpoints, expire
ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.clock import Clock
from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.config import Settings
from oncelog_server.data_directory.checkpoint_writer import CheckpointWriter
from oncelog_server.data_directory.lock import (
    DataDirectory,
    SeenRevision,
    checkpoint_of,
    checkpoints_of,
)
from oncelog_server.deferred import Deferred
from oncelog_server.durable_logs import end_of
from oncelog_server.log.closed import closed_log_line, encode_closed_logs
from oncelog_server.log.errors import CorruptLog
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.refused_work import RefusedWork
from oncelog_server.slices import Slices, Steps, at_its_end
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    CLEANER_CHECKPOINT,
    CLOSED_LOGS_CHECKPOINT,
    CLUSTER_REVISION,
    TEMPORARY_SUFFIX,
)
from oncelog_server.timers import Timer, Timers
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.id_expiry import IdExpiry

log = structlog.get_logger("oncelog.upkeep")

# Kafka's log manager also applies retention for the first time after 30 s.
FIRST_RETENTION_MS: Final = 30_000
# Maximum number of aborts in one turn of the loop. An abort takes a third of a millisecond, so a
# turn takes less than 20 ms (scenario T9).
ABORTS_PER_TURN: Final = 50
# Interval of the checks of flush.ms. In Kafka, a topic's flush.ms has no effect unless
# log.flush.scheduler.interval.ms is set. Here flush.ms always has an effect.
FLUSH_CHECK_MS: Final = 1_000
_CHECKPOINTS: Final = "checkpoints"
# The outcome of a write that a defect has ended. The defect itself is logged.
_NOT_WRITTEN: Final = StorageError("write", _CHECKPOINTS, "the write was abandoned")
# Operations that never fail because of a full disk.
_READING: Final = frozenset({"open", "read", "list"})


class BackgroundTasks:
    """One timer for each task, armed again after its run, so that no task runs twice at once."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        timers: Timers,
        partitions: Partitions,
        transactions: TransactionCoordinator,
        group_flush: GroupFlush,
        directory: DataDirectory,
        files: Files,
        slices: Slices,
        forgotten: Collection[str] = (),
        *,
        refused_work: RefusedWork | None = None,
    ) -> None:
        self._refused_work = refused_work or RefusedWork(timers, clock.monotonic_ms)
        # The error of the last checkpoint; None if it was written.
        self._not_written: StorageError | None = None
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._partitions = partitions
        self._transactions = transactions
        self._group_flush = group_flush
        self._directory = directory
        self._slices = slices
        self._checkpoints = CheckpointWriter(files, self._contents, slices)
        # The next write contains the revision. True: also the state of the logs, or at least the
        # cleaner's checkpoint.
        self._writes_logs = self._writes_cleaned = False
        # True if the cleaner's checkpoint on disk may have an entry; None before the first look.
        self._has_cleaned: bool | None = None
        # Deleted topics that the checkpoints on disk may still name.
        self._deleted = dict.fromkeys(sorted(forgotten))
        # True if they may still name a partition that has moved to other brokers.
        self._has_moved = False
        # Tasks that still run; their next turn is skipped.
        self._running: set[str] = set()
        self._id_expiry = IdExpiry(
            transactions.runtime,
            expiration_ms=settings.transactional_id_expiration_ms,
            wall_ms=clock.now_ms,
            monotonic_ms=clock.monotonic_ms,
            on_swept=transactions.expire_pointers,
        )
        self._expired_ids = 0
        self._armed: dict[Callable[[], None], Timer] = {}
        self._stopped = False
        self._remembers_logs = False
        # None if the metadata is in the data directory.
        self._seen: SeenRevision | None = None

    def start(self, unfinished: Collection[str] = ()) -> None:
        """Arm the timers. `unfinished`: the temporary files that the start could not remove."""
        settings = self._settings
        scan_ms = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        check_ms = settings.log_retention_check_interval_ms
        self._every(scan_ms, self._abort_overdue)
        self._every(check_ms, self._apply_retention, first_ms=min(FIRST_RETENTION_MS, check_ms))
        self._every(FLUSH_CHECK_MS, self._flush_due)
        self._every(settings.producer_id_expiration_check_interval_ms, self._expire_producers)
        ids_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._every(ids_ms, self._expire_transactional_ids)
        self._every(settings.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        if unfinished:
            self._checkpoints.remove_later(
                name.removesuffix(TEMPORARY_SUFFIX) for name in unfinished
            )
            self.checkpoint()  # removes the files; retried until the disk has space

    def stop(self) -> None:
        self._stopped = True
        for timer in self._armed.values():
            timer.cancel()
        self._armed.clear()

    def _every(
        self, interval_ms: int, duty: Callable[[], None], first_ms: int | None = None
    ) -> None:
        def run() -> None:
            if self._stopped:
                return
            try:
                duty()
            except Exception:
                # A failed task must not stop the other tasks, or prevent its own next run.
                log.exception("upkeep failed", duty=duty.__name__)
            self._armed[duty] = self._timers.call_later(interval_ms, run)

        self._armed[duty] = self._timers.call_later(
            interval_ms if first_ms is None else first_ms, run
        )

    def _abort_overdue(self) -> None:
        if len(self._transactions.abort_overdue(ABORTS_PER_TURN)) == ABORTS_PER_TURN:
            # More transactions may be overdue. call_soon lets waiting callbacks of the loop run
            # first.
            self._timers.call_soon(self._abort_overdue)

    def _for_each_partition(self, duty: Callable[[Partition, int], Steps[None] | None]) -> None:
        """Run `duty`, or the steps that it returns, for every partition, in slices. Do nothing if
        its last run has not ended."""

        def is_current(partition: Partition) -> bool:
            # A deleted partition may have been created again, with files of the same names. The
            # logs are closed after `stop`.
            found = self._partitions.get(partition.topic_partition)
            return found is partition and not self._stopped

        def steps() -> Steps[None]:
            try:
                for partition in list(self._partitions):
                    if is_current(partition):
                        for _ in duty(partition, self._clock.now_ms()) or ():
                            yield
                            if not is_current(partition):
                                break
                    yield
            finally:
                self._running.discard(duty.__name__)

        if duty.__name__ not in self._running:
            self._running.add(duty.__name__)
            self._slices.run(steps())

    def _apply_retention(self) -> None:
        self._for_each_partition(self._apply_retention_to)

    def _apply_retention_to(self, partition: Partition, now_ms: int) -> Steps[None]:
        name = partition.topic_partition
        if partition.offline is not None or _retention_of(name) in self._refused_work:
            return
        try:
            yield from self._delete_expired(partition, now_ms)
        except (StorageError, CorruptLog) as error:
            # The error is not raised, so that retention continues with the other partitions.
            if isinstance(error, CorruptLog) or error.operation in _READING:
                log.error("retention failed", partition=str(name), reason=str(error))
                return
            again = partial(self._delete_expired_again, name)
            self._refused_work.add(
                _retention_of(name), error, again, partition=str(name), work="retention"
            )

    def _delete_expired_again(self, name: TopicPartition) -> None:
        """Retry retention of a partition. Raises StorageError if the disk refuses it again."""
        partition = self._partitions.get(name)
        if partition is not None and partition.offline is None:
            at_its_end(self._delete_expired(partition, self._clock.now_ms()))

    def _delete_expired(self, partition: Partition, now_ms: int) -> Steps[None]:
        """Delete expired segments, a few in each step.

        Raises StorageError or CorruptLog. The segments before the failed segment are then already
        deleted.
        """
        deleted = yield from partition.apply_retention(now_ms)
        if deleted:
            log.info(
                "segments deleted by retention",
                partition=str(partition.topic_partition),
                segments=deleted,
            )

    def _flush_due(self) -> None:
        self._for_each_partition(self._flush_if_due)

    def _flush_if_due(self, partition: Partition, now_ms: int) -> None:
        if partition.claim_flush(now_ms):
            self._group_flush.request(partition)

    def _expire_producers(self) -> None:
        self._for_each_partition(self._expire_producers_of)

    def _expire_producers_of(self, partition: Partition, now_ms: int) -> None:
        # The setting is read at each use, because it is dynamic.
        partition.expire_producers(now_ms, self._settings.producer_id_expiration_ms)

    def _expire_transactional_ids(self) -> None:
        expired, goes_on = self._id_expiry.step()
        self._expired_ids += expired
        if self._expired_ids and not goes_on:
            log.info("transactional ids expired", count=self._expired_ids)
            self._expired_ids = 0
        if goes_on and not self._stopped:
            self._timers.call_soon(self._expire_transactional_ids)

    def follow(self, _old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Keep the image's revision if the metadata store is outside of the data directory. Keep
        the names of deleted topics until the checkpoints on disk no longer contain them.

        So the creation of a topic waits for `forgotten`: after a crash, old checkpoints with its
        name would truncate the new topic, or make it look as if it had lost records.
        """
        if self._settings.has_metadata_elsewhere:
            self._seen = SeenRevision(new.revision, new.restored_at)
        self._has_moved |= any(map(self._moves_away, delta.partitions))
        for topic in delta.topics_deleted:
            self._deleted[topic.name] = None
            for partition in topic.partitions if self._refused_work else ():
                name = TopicPartition(topic.name, partition.partition)
                self._refused_work.discard(_retention_of(name))

    def _moves_away(self, change: PartitionChange) -> bool:
        me = self._settings.node_id
        is_here = change.old is not None and me in change.old.replicas
        return is_here and change.new is not None and me not in change.new.replicas

    async def forgotten(self, topics: Collection[str]) -> None:
        """Return when the checkpoints on disk no longer contain a deleted topic of `topics`.

        Raises Refused with KAFKA_STORAGE_ERROR if the checkpoints cannot be written.
        """
        if not self._deleted or self._deleted.keys().isdisjoint(topics):
            return
        deleted = list(self._deleted)
        error = await end_of(self.checkpoint(), otherwise=_NOT_WRITTEN)
        if error is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        for name in deleted:
            self._deleted.pop(name, None)

    async def last_checkpoint(self, *, remembers_logs: bool = False) -> StorageError | None:
        """Write the checkpoints of the present state. Return the error, None if there is none.
        `remembers_logs`: all logs are closed, so write their state too. The next start then need
        not read the logs.
        """
        self._remembers_logs = remembers_logs
        return await end_of(self.checkpoint(), otherwise=_NOT_WRITTEN)

    def _checkpoint(self) -> None:
        self.checkpoint()

    def checkpoint(self) -> Deferred[StorageError | None]:
        """Write the recovery point, log start offset, high watermark and compacted offset of each
        log.

        The Deferred completes with None when they are durable, with the error if the disk refused
        them. Refused checkpoints are retried.
        """
        self._writes_logs = True
        written = self._checkpoints.write()
        written.on_complete(self._written)
        return written

    def keep_revision(self, image: ClusterImage) -> Deferred[StorageError | None]:
        """Write the revision of the image, if its metadata store is outside of the data directory.

        The Deferred completes as that of `checkpoint`. A new replica is opened after this write: no
        checkpoint then has an entry of an earlier log with the same name. The checkpoints of the
        logs are written only if they may have such an entry, because there may be thousands of
        logs.
        """
        if self._settings.has_metadata_elsewhere:
            self._seen = SeenRevision(image.revision, image.restored_at)
        return self.checkpoint() if self._has_moved else self._write_others()

    def checkpoint_cleaned(self) -> Deferred[StorageError | None]:
        """Write the cleaner's checkpoint. The Deferred completes as that of `checkpoint`."""
        self._writes_cleaned = True
        return self._write_others()

    def _write_others(self) -> Deferred[StorageError | None]:
        kept = self._checkpoints.write()
        kept.on_complete(self._kept)
        return kept

    def _kept(self, error: StorageError | None) -> None:
        if error is not None:  # the success of this write does not mean that all are written
            self._written(error)

    def _written(self, error: StorageError | None) -> None:
        self._not_written = error
        self._has_moved |= error is not None
        if error is not None and _CHECKPOINTS not in self._refused_work:
            self._refused_work.add(_CHECKPOINTS, error, self._write_again, files=_CHECKPOINTS)

    def _write_again(self) -> None:
        """Do nothing if the last checkpoint was written. Otherwise begin another checkpoint, and
        raise the StorageError of the last one.
        """
        error = self._not_written
        if error is not None:
            self.checkpoint()
            raise error

    def _contents(self) -> Steps[dict[str, bytes]]:
        """Return the files of the write that begins now, which its callers want."""
        writes_logs, writes_cleaned = self._writes_logs, self._writes_cleaned
        self._writes_logs = self._writes_cleaned = False
        return self._checkpointed() if writes_logs else self._others(with_cleaned=writes_cleaned)

    def _others(self, *, with_cleaned: bool) -> Steps[dict[str, bytes]]:
        contents = (yield from self._cleaned()) if with_cleaned else {}
        if self._seen is not None:
            contents[CLUSTER_REVISION] = self._seen.encode()
        return contents

    def _cleaned(self) -> Steps[dict[str, bytes]]:
        """Return the cleaner's checkpoint, and nothing while no log has been compacted. The entries
        of partitions that could not be opened stay."""
        unopened = self._unopened()
        old: Mapping[tuple[str, int], int] = {}
        if unopened or self._has_cleaned is None:
            old = self._directory.cleaned_offsets()
        cleaned: dict[tuple[str, int], int] = {}
        for partition in list(self._partitions):
            yield
            name, end_offset = partition.topic_partition, partition.clean_part.end_offset
            if end_offset is not None and self._partitions.get(name) is partition:
                cleaned[name] = end_offset
        cleaned |= {name: old[name] for name in unopened if name in old}
        self._has_cleaned = bool(self._has_cleaned or old or cleaned)
        if not self._has_cleaned:
            return {}
        return {CLEANER_CHECKPOINT: (yield from checkpoint_of(cleaned))}

    def _checkpointed(self) -> Steps[dict[str, bytes]]:
        recovery_points: dict[tuple[str, int], int] = {}
        start_offsets: dict[tuple[str, int], int] = {}
        watermarks: dict[tuple[str, int], int] = {}
        closed: list[str] = []
        remembers_logs = self._remembers_logs
        self._has_moved = False
        for partition in list(self._partitions):
            yield
            name = partition.topic_partition
            if self._partitions.get(name) is not partition or partition.clean_part.leaves:
                continue  # deleted meanwhile, or moved to other brokers
            recovery_points[name] = partition.recovery_point
            if partition.log_start_offset > 0:
                start_offsets[name] = partition.log_start_offset
            watermarks[name] = partition.high_watermark
            if remembers_logs:
                closed.append(closed_log_line(name, partition.remembered()))
        self._keep_those_of_offline(recovery_points, start_offsets, watermarks)
        contents = yield from checkpoints_of(recovery_points, start_offsets, watermarks)
        contents |= yield from self._cleaned()
        if self._seen is not None:
            contents[CLUSTER_REVISION] = self._seen.encode()
        if remembers_logs:
            contents[CLOSED_LOGS_CHECKPOINT] = encode_closed_logs(closed)
        return contents

    def _keep_those_of_offline(
        self,
        recovery_points: dict[tuple[str, int], int],
        start_offsets: dict[tuple[str, int], int],
        watermarks: dict[tuple[str, int], int],
    ) -> None:
        """Keep the checkpointed offsets of partitions that could not be opened. Without the
        recovery point of a corrupt log, the next start would take the corrupt bytes for a torn end.
        It would truncate the log there, and lose the records after these bytes.
        """
        unopened = self._unopened()
        if not unopened:
            return
        old_points = self._directory.recovery_points()
        old_starts = self._directory.log_start_offsets()
        old_watermarks = self._directory.high_watermarks()
        for name in unopened:
            if name in old_points:
                recovery_points[name] = old_points[name]
            if name in old_starts:
                start_offsets[name] = old_starts[name]
            if name in old_watermarks:
                watermarks[name] = old_watermarks[name]

    def _unopened(self) -> list[TopicPartition]:
        offline = self._partitions.offline()
        return [name for name in offline if self._partitions.get(name) is None]


def _retention_of(name: TopicPartition) -> str:
    return f"retention of {name}"
