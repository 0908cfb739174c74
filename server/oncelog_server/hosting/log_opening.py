"""Open the log of a partition, with the checkpoints of the last stop.

No other code opens a log. What the disk refuses on an open log is retried from here.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Final

import structlog

from oncelog_server.cluster.image import TopicImage
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.config import Settings
from oncelog_server.hosting.last_stop import LastStop
from oncelog_server.log.errors import CorruptLog, InconsistentTopicId
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.replay import decided_from
from oncelog_server.observe.partition_events import StorageFailures, log_damage, log_recovery
from oncelog_server.partition.partition import Partition, StorageFailure
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RefusedWork
from oncelog_server.settings.topics import LogConfigs
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import partition_directory
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.producer_id_quota import PER_PARTITION, RefusedProducerIds

log = structlog.get_logger("oncelog.partition")

# The records of these topics are the state of a coordinator. If such a log has lost records in its
# middle, it is not served.
_COORDINATED: Final = frozenset({TRANSACTION_STATE, CONSUMER_OFFSETS})


class LogOpening:
    """Opens logs, and adds them to the broker's partitions.

    `request_flush` requests an fsync of acknowledged data. `jitter` returns a random number from 0
    to its argument.
    """

    def __init__(
        self,
        settings: Settings,
        files: Files,
        partitions: Partitions,
        last_stop: LastStop,
        *,
        wall_ms: Callable[[], int],
        request_flush: Callable[[Partition], None],
        jitter: Callable[[int], int],
        refused_ids: RefusedProducerIds,
        is_given_id: Callable[[int], bool],
        refused_work: RefusedWork,
        stop_following: Callable[[TopicPartition], None],
    ) -> None:
        self._settings = settings
        self._files = files
        self._partitions = partitions
        self._last_stop = last_stop
        self._wall_ms = wall_ms
        self._request_flush = request_flush
        self._jitter = jitter
        self._refused_ids = refused_ids
        self._is_given_id = is_given_id
        self._refused_work = refused_work
        self._stop_following = stop_following
        self._configs = LogConfigs(settings)
        # Directories with a topic id that the start has checked.
        self._checked: Set[str] = frozenset()
        self._storage_failures = StorageFailures()

    def start(self, checked: Set[str]) -> None:
        """Note the directories with a topic id that the start has checked."""
        self._checked = checked

    def started(self) -> None:
        """Forget the directories of `start`, because the logs from before the start are open
        now."""
        self._checked = frozenset()

    def settings_changed(self) -> None:
        """Read the broker's settings for the logs again."""
        self._configs = LogConfigs(self._settings)

    def reconfigure(self, topic: TopicImage) -> None:
        """Apply the settings of a topic to its open logs."""
        config = self._configs.of(topic.settings)
        for image in topic.partitions:
            partition = self._partitions.get(TopicPartition(topic.name, image.partition))
            if partition is not None:
                partition.reconfigure(config)

    def open(self, topic: TopicImage, name: TopicPartition, *, known: bool) -> Partition | None:
        """Open the log and add the partition.

        If the log is corrupt or belongs to another topic, mark the partition offline and return
        None (scenario S3). `known` says that the checkpoints of the last stop apply to the log.
        Raises StorageError if the disk refuses to open the log.
        """
        try:
            opened = self._open(topic, name, known=known)
            high_watermark = self._high_watermark(topic, name, known=known)
            self._hold_back(opened, high_watermark)
        except CorruptLog as corrupt:
            log_damage(name, corrupt)
            self._partitions.add_offline(name, str(corrupt))
            return None
        except InconsistentTopicId as error:
            log.error("partition offline", partition=str(name), reason=str(error))
            self._partitions.add_offline(name, str(error))
            return None
        if known:
            cleaned_offset = self._last_stop.cleaned_offsets.get(name)
            opened.clean_part.restore(cleaned_offset, opened.log_end_offset)
        log_recovery(name, opened.recovery)
        opened.producers.limit(
            self._settings.oncelog_max_producer_ids_per_partition,
            is_given=self._is_given_id,
            on_full=partial(self._refused_id, name),
        )
        opened.refusals.report_to(partial(self._refused, name))
        partition = Partition(
            name,
            topic.id,
            opened,
            self._request_flush,
            flush_on_ack=self._settings.oncelog_flush_on_ack,
            on_storage_error=self._storage_failed,
            on_offline=self._went_offline,
            high_watermark=high_watermark,
        )
        self._partitions.add(partition)
        return partition

    def removed(self, name: TopicPartition) -> None:
        """Drop the notes about a partition that this broker no longer hosts."""
        self._storage_failures.discard(name)
        self._refused_work.discard(str(name))

    def _open(self, topic: TopicImage, name: TopicPartition, *, known: bool) -> PartitionLog:
        last = self._last_stop
        directory = partition_directory(*name)
        return PartitionLog.open(
            self._files,
            directory,
            self._configs.of(topic.settings),
            topic_id=topic.id,
            now_ms=self._wall_ms(),
            clean_shutdown=last.was_clean or not known,
            recovery_point=last.recovery_points.get(name, 0) if known else 0,
            log_start_offset=last.log_start_offsets.get(name, 0) if known else 0,
            refuses_damage=topic.name in _COORDINATED,
            lost_nothing=last.lost_nothing,
            closed=last.closed_logs.get(name) if known else None,
            topic_id_checked=directory in self._checked,
            jitter=self._jitter,
        )

    def _high_watermark(
        self, topic: TopicImage, name: TopicPartition, *, known: bool
    ) -> int | None:
        """Return the high watermark of the last checkpoint for a log that has other replicas. None:
        this broker has the only replica, so its whole log is committed.

        After a power failure, the high watermark is at most the recovery point. Above it, the
        failure may have undone a cut of a follower's log, so a record there may be an old one that
        was never committed.
        """
        if len(topic.partitions[name.partition].replicas) == 1:
            return None
        last = self._last_stop
        if not known:
            return 0
        high_watermark = last.high_watermarks.get(name, 0)
        if last.was_clean or last.lost_nothing:
            return high_watermark
        return min(high_watermark, last.recovery_points.get(name, 0))

    def _hold_back(self, opened: PartitionLog, high_watermark: int | None) -> None:
        """Let the last stable offset wait for the markers that are not committed. Raises
        StorageError and CorruptLog."""
        snapshot = opened.recovery.snapshot_offset
        if high_watermark is not None and snapshot is not None and snapshot > high_watermark:
            opened.producers.decided.update(
                decided_from(opened.segments, opened.snapshots, high_watermark, self._wall_ms())
            )

    def _refused_id(self, name: TopicPartition) -> None:
        limit = self._settings.oncelog_max_producer_ids_per_partition
        self._refused_ids.add(PER_PARTITION, limit, partition=str(name))

    def _refused(self, name: TopicPartition, error: StorageError) -> None:
        """Retry an operation on a log that the disk refused, until it succeeds."""
        self._refused_work.add(
            str(name), error, partial(self._try_log_again, name), partition=str(name)
        )
        self._partitions.on_storage_change()

    def _try_log_again(self, name: TopicPartition) -> None:
        """Retry the refused operation of a log. Raises StorageError if it is refused again."""
        partition = self._partitions.get(name)
        if partition is not None and partition.offline is None:
            try:
                partition.try_again(self._wall_ms())
            finally:
                # This call is needed after an error too: the disk may first have refused only a
                # side file, and may now refuse an append.
                self._partitions.on_storage_change()

    def _went_offline(self, partition: Partition) -> None:
        # A further fetch would acknowledge records that may not be on the disk.
        self._stop_following(partition.topic_partition)
        log.error(
            "partition offline", partition=str(partition.topic_partition), reason=partition.offline
        )
        self._partitions.on_storage_change()

    def _storage_failed(self, partition: Partition, failure: StorageFailure) -> None:
        name = partition.topic_partition
        if str(name) not in self._refused_work:  # otherwise the failure is already logged
            self._storage_failures.add(name, failure, self._wall_ms())
