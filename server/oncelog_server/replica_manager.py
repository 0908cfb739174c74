"""Follow the metadata image: open, lead, reconfigure and remove the partitions of this broker.

Topics change first in the metadata store, then in the image, then here. No other code opens a log.
The changes are made in slices, a few in each turn of the loop (`topic_changes`). The coordinators
of the internal topics get their partitions from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from functools import partial
from typing import Final, Protocol

import msgspec
import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.config import Settings
from oncelog_server.deferred import Deferred
from oncelog_server.log.closed import ClosedLogs
from oncelog_server.log.errors import CorruptLog, InconsistentTopicId
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.replay import decided_from
from oncelog_server.newer_logs import NewerLogs
from oncelog_server.observe.partition_events import (
    StorageFailures,
    log_damage,
    log_not_led,
    log_recovery,
)
from oncelog_server.partition.partition import Partition, StorageFailure
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.refused_work import RefusedWork
from oncelog_server.settings.topics import LogConfigs
from oncelog_server.slices import Slices
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import deleted_directory, partition_directory
from oncelog_server.strays import Folders, is_of_topic, put_strays_aside
from oncelog_server.topic_changes import Change, TopicChanges
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.producer_id_quota import PER_PARTITION, RefusedProducerIds

log = structlog.get_logger("oncelog.partition")

# The longest time between the rename of a deleted partition's directory and its deletion. It is
# Kafka's default of file.delete.delay.ms.
DELETED_WITHIN_MS: Final = 60_000

CheckpointOffsets = Mapping[tuple[str, int], int]


def _do_nothing() -> None:
    pass


def _ignore(_: Partition | TopicPartition) -> None:
    pass


class Coordinator(Protocol):
    """Leads the partitions of an internal topic."""

    def lead(self, partition: Partition) -> Deferred[None] | None:
        """Load the partition and coordinate it. Return a Deferred of the load. Return None if the
        load is complete, or has begun before.

        The Deferred is abandoned if the partition cannot be led; an error that is known at once is
        raised instead.
        """
        ...

    def refuse(self, index: int, reason: str) -> None:
        """Note that the partition's log cannot be used."""
        ...

    def resign(self, index: int) -> None: ...


class LastStop(msgspec.Struct, frozen=True):
    """The data directory's state at the last stop."""

    was_clean: bool
    # True if the computer has not stopped since then, so no write was lost.
    lost_nothing: bool
    recovery_points: CheckpointOffsets
    log_start_offsets: CheckpointOffsets
    # Empty if the stop was not clean.
    closed_logs: ClosedLogs
    high_watermarks: CheckpointOffsets = {}


class ReplicaManager:
    """Opens, leads and removes this broker's partitions as the metadata image says.

    `broker_epoch` returns the epoch of this broker's registration, 0 before it. `request_flush`
    requests an fsync of acknowledged data. `jitter` returns a random number from 0
    to its argument. `new_uuid` returns a random id for the new name of a directory that is put
    aside or will be deleted. `follow` fetches a partition from its leader, and `stop_following`
    ends that. `lead_replicas` is called when this broker leads a partition with followers.
    """

    def __init__(
        self,
        broker_id: int,
        settings: Settings,
        files: Files,
        partitions: Partitions,
        last_stop: LastStop,
        *,
        wall_ms: Callable[[], int],
        request_flush: Callable[[Partition], None],
        jitter: Callable[[int], int],
        new_uuid: Callable[[], bytes],
        broker_epoch: Callable[[], int],
        refused_ids: RefusedProducerIds,
        is_given_id: Callable[[int], bool],
        slices: Slices,
        refused_work: RefusedWork,
        follow: Callable[[Partition], None] = _ignore,
        stop_following: Callable[[TopicPartition], None] = _ignore,
        lead_replicas: Callable[[], object] = _do_nothing,
    ) -> None:
        self._follow = follow
        self._stop_following = stop_following
        self._lead_replicas = lead_replicas
        self._refused_work = refused_work
        self._image = ClusterImage()
        # Topics with a log that the disk refused to create or open, with the first error.
        self._not_opened: dict[str, StorageError] = {}
        self._refused_ids = refused_ids
        self._is_given_id = is_given_id
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._files = files
        self._partitions = partitions
        self._last_stop = last_stop
        self._wall_ms = wall_ms
        self._request_flush = request_flush
        self._jitter = jitter
        self._new_uuid = new_uuid
        self._due = TopicChanges(slices, self._make, self._delete_renamed)
        self._stopped = False
        self._coordinators: dict[str, Coordinator] = {}
        self._loading = True
        # Directories with a topic id that the start has checked.
        self._checked: Set[str] = frozenset()
        self._configs = LogConfigs(settings)
        # The newest leader epoch in a directory's checkpoint.
        self._kept_epoch = -1
        self._storage_failures = StorageFailures()
        # Ids of deleted topics with a directory that could not be removed.
        self._undropped: set[bytes] = set()
        # Directories of deleted partitions, renamed to names that no topic can have.
        self._renamed: list[str] = []
        # The wall clock in ms when the first of `_renamed` was renamed.
        self._renamed_ms = 0

    def serve_coordinators(self, transactions: Coordinator, groups: Coordinator) -> None:
        self._coordinators = {TRANSACTION_STATE: transactions, CONSUMER_OFFSETS: groups}

    def unknown_topics(self, image: ClusterImage) -> set[str]:
        """Return the topics that are in the last stop's checkpoints and not in the image."""
        last = self._last_stop
        known = {*last.recovery_points, *last.log_start_offsets}
        return {topic for topic, _ in known} - image.topics.keys()

    def open_all(self, image: ClusterImage, folders: Folders, newer: NewerLogs) -> None:
        """Open every partition that the image assigns to this broker, at the start.

        The broker leads none of them yet: its registration elects it, in a new leader epoch. Raises
        StorageError if directories of unknown topics (strays) cannot be put aside.
        """
        self._image = image
        self._checked = folders.checked
        for name, aside in put_strays_aside(self._files, folders, self._new_uuid):
            log.warning("partition of a deleted topic put aside", directory=name, now=aside)
        for topic in image.topics.values():
            for partition in topic.partitions:
                if self._broker_id in partition.replicas:
                    opened = self._open(topic, TopicPartition(topic.name, partition.partition))
                    if opened is not None:
                        newer.look_at(opened, partition.leader_epoch)
        self._loading = False
        self._checked = frozenset()

    def follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Begin the changes that the new image requires. `settled` returns when they are made."""
        self._image = new
        if self._stopped:
            return
        for deleted in delta.topics_deleted:
            # The topic's queued partitions must not be opened any more.
            self._not_opened.pop(deleted.name, None)
            self._due.forget(deleted.name)
        for change in delta.partitions:
            self._due.add(change)
        for topic in delta.settings_changed:
            # The new settings are queued behind the topic's partitions, because the queued changes
            # of the partitions hold the old settings.
            self._due.add(topic)
        self._due.work()

    def follow_others(self) -> None:
        """Follow the other leaders of this broker's partitions. Their records do not change when
        this broker registers."""
        for topic in self._image.topics.values():
            for partition in topic.partitions:
                if self._broker_id in partition.replicas and partition.leader != self._broker_id:
                    self._due.add(PartitionChange(topic, partition, partition))
        self._due.work()

    async def settled(self, topics: Collection[str]) -> None:
        """Return when all changes that the latest image requires for these topics are made."""
        await self._due.settled(topics)

    async def created(self, topics: Collection[str]) -> None:
        """Return when all changes of these topics are made, as `settled` does.

        Raises Refused with KAFKA_STORAGE_ERROR if the disk refused a log.
        """
        await self.settled(topics)
        for name in topics:
            error = self._not_opened.get(name)
            if error is not None:
                raise Refused(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"Topic '{name}' cannot be kept on disk: {error}. Free some space and retry.",
                )

    def give_up(self, name: str) -> bool:
        """Remove a new topic that the disk refused, before its deletion from the image.

        Return False and change nothing if records have been written to it.
        """
        topic = self._image.topics.get(name)
        if topic is None:
            return True
        names = [TopicPartition(name, partition.partition) for partition in topic.partitions]
        opened = [found for found in map(self._partitions.get, names) if found is not None]
        if any(partition.log_end_offset for partition in opened):
            return False
        reason = str(self._not_opened.get(name, "deleted"))
        for topic_partition in names:
            self._remove(topic, topic_partition)
            # An offline partition takes no record until the topic is deleted from the image.
            self._partitions.add_offline(topic_partition, reason)
        self._delete_renamed()
        return True

    def undropped(self) -> Set[bytes]:
        """Return the ids of the deleted topics that may still have directories: topics with queued
        deletions, and topics with a rename that the disk refused. Their deletion records in the
        metadata must stay until the next start."""
        dropping = {
            change.topic.id
            for change in self._due
            if not isinstance(change, TopicImage) and change.new is None
        }
        return self._undropped | dropping

    def stop(self) -> None:
        """Drop the queued changes: the next start makes them."""
        self._stopped = True
        self._undropped |= self.undropped()
        self._due.clear()

    def _make(self, change: Change) -> None:
        if isinstance(change, TopicImage):
            self._reconfigure(change)
        elif change.new is None:
            self._drop(change)
        else:
            self._host(change.topic, change.new)
        # Renamed directories are deleted when no change is left. Clients may cause changes without
        # a pause, so the directories are deleted after DELETED_WITHIN_MS at the latest.
        if self._renamed and not 0 <= self._wall_ms() - self._renamed_ms < DELETED_WITHIN_MS:
            self._delete_renamed()

    # --- one partition

    def _host(self, topic: TopicImage, image: PartitionImage) -> None:
        topic_partition = TopicPartition(topic.name, image.partition)
        if self._broker_id not in image.replicas:
            self._remove_moved(topic, topic_partition)
            return
        partition = self._partitions.get(topic_partition)
        # A partition that could not be opened stays offline until the next start. If it were opened
        # now, it would count as a new partition, and its corrupt log as a valid one.
        if partition is None and self._partitions.offline_reason(topic_partition) is None:
            partition = self._open(topic, topic_partition)
        if partition is not None:
            self._lead_or_follow(partition, image)
        elif (coordinator := self._coordinators.get(topic.name)) is not None:
            reason = self._partitions.offline_reason(topic_partition) or ""
            coordinator.refuse(image.partition, f"{topic_partition} cannot be used: {reason}")

    def _open(self, topic: TopicImage, topic_partition: TopicPartition) -> Partition | None:
        """Open the partition. If its log cannot be served, mark the partition offline and return
        None (scenario S3).
        """
        # The checkpoints of the last stop apply only to logs from before the start. A log that this
        # process creates needs no recovery.
        known = self._loading
        try:
            if (
                not known and topic.name in self._not_opened
            ):  # the disk refused another partition of the topic
                raise self._not_opened[topic.name]
            return self._open_log(topic, topic_partition, known=known)
        except StorageError as error:
            self._not_opened.setdefault(topic.name, error)
            self._partitions.add_offline(topic_partition, str(error))
            self._refused_work.add(
                _opening(topic_partition),
                error,
                partial(self._open_again, topic.id, topic_partition, known=known),
                group=_opening(topic.name),
                partition=str(topic_partition),
            )
            return None

    def _open_again(self, topic_id: bytes, name: TopicPartition, *, known: bool) -> None:
        """Open a log that the disk has refused. Raises StorageError if the disk refuses it
        again."""
        topic = self._image.topics.get(name.topic)
        image = self._image.partition(*name)
        if topic is None or image is None or topic.id != topic_id:
            return
        if self._open_log(topic, name, known=known) is None:
            return
        if self._refused_work.left(_opening(name.topic)) == 1:  # the topic's last refused partition
            self._not_opened.pop(name.topic, None)
        self._partitions.take_online(name)
        self._host(topic, image)

    def _open_log(
        self, topic: TopicImage, topic_partition: TopicPartition, *, known: bool
    ) -> Partition | None:
        """Open the log and add the partition.

        If the log is corrupt or belongs to another topic, mark the partition offline and return
        None. `known` says that the checkpoints of the last stop apply to the log. Raises
        StorageError if the disk refuses to open the log.
        """
        last = self._last_stop
        # A deleted topic of the same name may still have the directory: remove it first.
        self._refused_work.complete(_removal(topic_partition))
        try:
            opened = PartitionLog.open(
                self._files,
                partition_directory(*topic_partition),
                self._configs.of(topic.settings),
                topic_id=topic.id,
                now_ms=self._wall_ms(),
                clean_shutdown=last.was_clean or not known,
                recovery_point=last.recovery_points.get(topic_partition, 0) if known else 0,
                log_start_offset=last.log_start_offsets.get(topic_partition, 0) if known else 0,
                producer_id_expiration_ms=self._settings.producer_id_expiration_ms,
                refuses_damage=topic.name in self._coordinators,
                lost_nothing=last.lost_nothing,
                closed=last.closed_logs.get(topic_partition) if known else None,
                topic_id_checked=partition_directory(*topic_partition) in self._checked,
                jitter=self._jitter,
            )
            high_watermark = self._high_watermark(topic, topic_partition, known=known)
            self._hold_back(opened, high_watermark)
        except CorruptLog as corrupt:
            log_damage(topic_partition, corrupt)
            self._partitions.add_offline(topic_partition, str(corrupt))
            return None
        except InconsistentTopicId as error:
            log.error("partition offline", partition=str(topic_partition), reason=str(error))
            self._partitions.add_offline(topic_partition, str(error))
            return None
        log_recovery(topic_partition, opened.recovery)
        opened.producers.limit(
            self._settings.oncelog_max_producer_ids_per_partition,
            is_given=self._is_given_id,
            on_full=partial(self._refused_id, topic_partition),
        )
        opened.refusals.report_to(partial(self._refused, topic_partition))
        partition = Partition(
            topic_partition,
            topic.id,
            opened,
            self._request_flush,
            flush_on_ack=self._settings.oncelog_flush_on_ack,
            on_storage_error=self._storage_failed,
            high_watermark=high_watermark,
        )
        self._partitions.add(partition)
        return partition

    def _hold_back(self, opened: PartitionLog, high_watermark: int | None) -> None:
        """Let the last stable offset wait for the markers that are not committed. Raises
        StorageError and CorruptLog."""
        snapshot = opened.recovery.snapshot_offset
        if high_watermark is not None and snapshot is not None and snapshot > high_watermark:
            opened.producers.decided.update(
                decided_from(opened.segments, opened.snapshots, high_watermark, self._wall_ms())
            )

    def _high_watermark(
        self, topic: TopicImage, name: TopicPartition, *, known: bool
    ) -> int | None:
        """Return the high watermark of the last checkpoint for a log that has other replicas. None:
        this broker has the only replica, so its whole log is committed."""
        if len(topic.partitions[name.partition].replicas) == 1:
            return None
        return self._last_stop.high_watermarks.get(name, 0) if known else 0

    def _refused_id(self, topic_partition: TopicPartition) -> None:
        limit = self._settings.oncelog_max_producer_ids_per_partition
        self._refused_ids.add(PER_PARTITION, limit, partition=str(topic_partition))

    def _refused(self, name: TopicPartition, error: StorageError) -> None:
        """Retry an operation on a log that the disk refused, until it succeeds."""
        self._refused_work.add(
            str(name), error, partial(self._try_log_again, name), partition=str(name)
        )

    def _try_log_again(self, name: TopicPartition) -> None:
        """Retry the refused operation of a log. Raises StorageError if it is refused again."""
        partition = self._partitions.get(name)
        if partition is not None and partition.offline is None:
            partition.try_again(self._wall_ms())

    def _storage_failed(self, partition: Partition, failure: StorageFailure) -> None:
        name = partition.topic_partition
        if str(name) not in self._refused_work:  # otherwise the failure is already logged
            self._storage_failures.add(name, failure, self._wall_ms())

    def _lead_or_follow(self, partition: Partition, image: PartitionImage) -> None:
        topic, index = partition.topic_partition
        coordinator = self._coordinators.get(topic)
        if image.leader != self._broker_id:
            partition.become_follower(image.leader, image.leader_epoch)
            self._follow(partition)
            if coordinator is not None:
                coordinator.resign(index)
            return
        if image.joined(self._broker_id) != self._broker_epoch():
            # Since the last start, the controller has not confirmed that this broker has every
            # record. It elects a leader in a new leader epoch.
            return
        try:
            self._stop_following(partition.topic_partition)
            partition.become_leader(
                self._broker_id,
                image.leader_epoch,
                image.isr,
                image.replicas,
                image.partition_epoch,
                has_elr=bool(image.elr),
                is_suspended=self._partitions.is_suspended,
            )
            partition.replicas.reassign(image.adding, image.removing)
            if len(image.replicas) > 1:
                self._lead_replicas()
            if image.leader_epoch > self._kept_epoch:
                # One directory must have the newest epoch, so that lost metadata can be recovered
                # from the directories.
                self._kept_epoch = image.leader_epoch
                partition.write_leader_epochs()
            if coordinator is not None:
                led = coordinator.lead(partition)
                if led is not None:
                    led.on_abandon(lambda: log_not_led(partition.topic_partition, led.failure))
        except (ValueError, Refused, StorageError, CorruptLog) as error:
            log_not_led(partition.topic_partition, error)

    def _drop(self, change: PartitionChange) -> None:
        self._leave(change.topic, TopicPartition(change.topic.name, change.partition))

    def _leave(self, topic: TopicImage, name: TopicPartition) -> None:
        """Remove a partition of a deleted topic, or a replica that is not assigned any more."""
        coordinator = self._coordinators.get(name.topic)
        if coordinator is not None:
            coordinator.resign(name.partition)
        self._remove(topic, name)

    def _remove_moved(self, topic: TopicImage, name: TopicPartition) -> None:
        """Remove a partition that has moved to other brokers (Kafka's StopReplica).

        The new replicas have every record, or an unclean election has given them up. A log that
        could not be opened stays on disk, and the next start puts it aside as a stray.
        """
        if self._partitions.get(name) is not None:
            log.info("partition has moved to other brokers", partition=str(name))
            self._leave(topic, name)
        elif self._partitions.offline_reason(name) is not None:
            self._refused_work.discard(_opening(name))
            self._partitions.take_online(name)

    def _remove(self, topic: TopicImage, name: TopicPartition) -> None:
        """Remove the partition and rename its directory.

        The directory is deleted when no change is left, or after DELETED_WITHIN_MS. If the disk
        refuses the rename, the rename is retried.
        """
        partition = self._partitions.remove(name)
        self._storage_failures.discard(name)
        self._refused_work.discard(str(name))
        self._refused_work.discard(_opening(name))
        directory = partition_directory(*name)
        aside = deleted_directory(*name, self._new_uuid())
        if partition is not None:
            partition.resign()
            self._stop_following(name)
        elif not self._files.exists(directory) or not is_of_topic(self._files, directory, topic.id):
            return

        def rename() -> None:
            if self._files.exists(directory) and is_of_topic(self._files, directory, topic.id):
                self._files.rename(directory, aside)

        def retry() -> None:
            rename()
            self._files.remove([aside])

        try:
            if partition is None:
                rename()
            else:
                partition.rename_directory(aside)
            if not self._renamed:
                self._renamed_ms = self._wall_ms()
            self._renamed.append(aside)
        except StorageError as error:
            self._undropped.add(topic.id)
            self._refused_work.add(_removal(name), error, retry, partition=str(name))

    def _delete_renamed(self) -> None:
        """Delete the renamed directories of deleted partitions, off the loop. The deletion begins
        after the queued renames. The renames run on the loop, and a rename has to wait while the
        file system deletes in the same parent directory.
        """
        if self._renamed:
            renamed, self._renamed = self._renamed, []
            self._files.remove(renamed)

    def settings_changed(self) -> None:
        """Apply changed settings of the broker to all open logs, in slices."""
        self._configs = LogConfigs(self._settings)
        for topic in self._image.topics.values():
            self._due.add(topic)
        self._due.work()

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._configs.of(topic.settings)
        for image in topic.partitions:
            partition = self._partitions.get(TopicPartition(topic.name, image.partition))
            if partition is not None:
                partition.reconfigure(config)


def _opening(name: TopicPartition | str) -> str:
    """Return the name of the refused work that opens the log of this partition. For a topic, return
    the name of the group that has this work of all the topic's partitions."""
    return f"open {name}"


def _removal(name: TopicPartition) -> str:
    """Return the name of the refused work that removes the directory of this deleted partition."""
    return f"remove {name}"
