"""Follow the metadata image: open, lead, reconfigure and remove the partitions of this broker.

Topics change first in the metadata store, then in the image, then here. The changes are made in
slices, a few in each turn of the loop (`topic_changes`). The coordinators of the internal topics
get their partitions from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.deferred import Deferred
from oncelog_server.hosting.directory_removal import DirectoryRemoval
from oncelog_server.hosting.log_opening import LogOpening
from oncelog_server.hosting.topic_changes import Change, TopicChanges, is_removal
from oncelog_server.log.errors import CorruptLog
from oncelog_server.newer_logs import NewerLogs
from oncelog_server.observe.partition_events import log_not_led
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.refused_work import RefusedWork
from oncelog_server.slices import Slices, Steps
from oncelog_server.storage.files import StorageError
from oncelog_server.strays import Folders
from oncelog_server.topic_partition import TopicPartition

if TYPE_CHECKING:
    from oncelog_server.hosting.kept_revision import KeepRevision, KeptRevision

log = structlog.get_logger("oncelog.partition")


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


class ReplicaManager:
    """Opens, leads and removes this broker's partitions as the metadata image says.

    `broker_epoch` returns the epoch of this broker's registration, 0 before the registration.
    `follow` fetches a partition from its leader, and `stop_following` ends that. `lead_replicas` is
    called when this broker leads a partition with followers.
    """

    def __init__(
        self,
        broker_id: int,
        partitions: Partitions,
        opening: LogOpening,
        removal: DirectoryRemoval,
        *,
        broker_epoch: Callable[[], int],
        slices: Slices,
        refused_work: RefusedWork,
        follow: Callable[[Partition], None] = _ignore,
        stop_following: Callable[[TopicPartition], None] = _ignore,
        lead_replicas: Callable[[], object] = _do_nothing,
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._opening = opening
        self._removal = removal
        self._broker_epoch = broker_epoch
        self._refused_work = refused_work
        self._follow = follow
        self._stop_following = stop_following
        self._lead_replicas = lead_replicas
        self._image = ClusterImage()
        # Topics with a log that the disk refused to create or open, with the first error.
        self._not_opened: dict[str, StorageError] = {}
        self._slices = slices
        # Ids of the topics of `give_up` that are still in the image.
        self._given_up: set[bytes] = set()
        self._due = TopicChanges(slices, self._make, removal.delete_renamed)
        # None before the registration, and always None if no other broker uses the metadata.
        self._kept_revision: KeptRevision | None = None
        self._stopped = False
        self._coordinators: dict[str, Coordinator] = {}
        # True at the start, until the logs that this broker had at its last stop are open.
        self._loading = True
        # The newest leader epoch in the `leader-epoch-checkpoint` of some partition.
        self._kept_epoch = -1
        # Ids of deleted topics with partitions that this stop leaves on disk.
        self._left: Set[bytes] = frozenset()

    def serve_coordinators(self, transactions: Coordinator, groups: Coordinator) -> None:
        self._coordinators = {TRANSACTION_STATE: transactions, CONSUMER_OFFSETS: groups}

    def keep_revisions(self, keep: KeepRevision) -> None:
        """From now on, open a new replica only after `keep` has written what a start must know
        about it. This is for a broker with other brokers."""
        from oncelog_server.hosting.kept_revision import KeptRevision

        self._kept_revision = KeptRevision(self._broker_id, self._due, keep)

    def open_all(self, image: ClusterImage, folders: Folders, newer: NewerLogs) -> None:
        """Open every partition that the image assigns to this broker, at the start.

        The broker leads no partition yet: only its registration makes it a leader, in a new leader
        epoch. Raises StorageError if strays (`strays.py`) cannot be put aside.
        """
        self._image = image
        self._removal.put_strays_aside(folders)
        self._opening.start(folders.checked)
        for topic in image.topics.values():
            for partition in topic.partitions:
                if self._broker_id in partition.replicas:
                    opened = self._open(topic, TopicPartition(topic.name, partition.partition))
                    if opened is not None:
                        newer.look_at(opened, partition.leader_epoch)
        self._loading = False
        self._opening.started()

    def follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Begin the changes that the new image requires. `settled` returns when they are made.

        Before `open_all`, nothing is changed: a start that waits for the broker's id, or is
        refused, leaves the data directory as it was. `open_all` makes these changes.
        """
        self._image = new
        if self._loading:
            return
        for deleted in delta.topics_deleted:
            # The topic's queued partitions must not be opened any more.
            self._not_opened.pop(deleted.name, None)
            self._given_up.discard(deleted.id)
            self._due.forget(deleted.name)
            self._retire(deleted)
        if self._stopped:
            return
        if self._kept_revision is not None:
            self._kept_revision.follow(new, delta)
        for change in delta.partitions:
            self._note_leaving(change)
            self._due.add(change)
        for topic in delta.settings_changed:
            # The new settings are queued behind the topic's partitions, because the queued changes
            # of the partitions hold the old settings.
            self._due.add(topic)
        self._due.work()

    def _note_leaving(self, change: PartitionChange) -> None:
        """Note a partition that this broker has to remove. The removal itself may come later than
        the next write of the checkpoints."""
        if change.new is None or self._broker_id not in change.new.replicas:
            partition = self._partitions.get(TopicPartition(change.topic.name, change.partition))
            if partition is not None and partition.topic_id == change.topic.id:
                partition.clean_part.leave()

    def follow_others(self) -> None:
        """Follow the leaders of the partitions that this broker does not lead. This call is needed
        because the registration of this broker changes no record of these partitions."""
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
        """Remove a new topic that the disk refused, before its deletion from the image. Until then,
        none of its partitions is opened, so that it takes no record.

        Return False and change nothing if records have been written to it. Only the partitions of
        this broker are known, so no other broker may use the metadata store.
        """
        topic = self._image.topics.get(name)
        if topic is None:
            return True
        names = [TopicPartition(name, partition.partition) for partition in topic.partitions]
        opened = [found for found in map(self._partitions.get, names) if found is not None]
        if any(partition.log_end_offset for partition in opened):
            return False
        reason = str(self._not_opened.get(name, "deleted"))
        self._given_up.add(topic.id)
        for topic_partition in names:
            self._remove(topic, topic_partition)
            # An offline partition takes no record until the topic is deleted from the image.
            self._partitions.add_offline(topic_partition, reason)
        self._removal.delete_renamed()
        return True

    def undropped(self) -> Set[bytes]:
        """Return the ids of the deleted topics that may still have directories: topics with queued
        deletions, and topics with a rename that the disk refused. Their deletion records in the
        metadata must stay until the next start."""
        dropping = {
            change.topic.id
            for change in self._due
            if not isinstance(change, TopicImage) and is_removal(change)
        }
        return self._left | self._removal.refused_topics | dropping

    def settings_changed(self) -> None:
        """Apply changed settings of the broker to all open logs, in slices."""
        self._opening.settings_changed()
        for topic in self._image.topics.values():
            self._due.add(topic)
        self._due.work()

    def stop(self) -> None:
        """Drop the queued changes: the next start makes them."""
        self._stopped = True
        self._left = self.undropped()
        self._due.clear()

    def _make(self, change: Change) -> None:
        if isinstance(change, TopicImage):
            self._opening.reconfigure(change)
        elif change.new is None:
            self._drop(change)
        else:
            self._host(change.topic, change.new)
        self._removal.delete_late()

    def _retire(self, topic: TopicImage) -> None:
        """Let no request reach the partitions of a deleted topic, because the image may already
        have another topic of the same name. The partitions are removed later (`_drop`)."""
        retired = self._partitions.delete_topic(topic.name, topic.id)
        if retired:
            self._slices.run(_resignation(retired))

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
        if topic.id in self._given_up:
            self._partitions.add_offline(topic_partition, "the topic is being deleted")
            return None
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
        """Open the log, after a deleted topic of the same name has left the directory, and the
        revision of a new log is durable. Raises StorageError."""
        if self._kept_revision is not None and not known:
            self._kept_revision.check(self._image)
        self._removal.complete(topic_partition)
        return self._opening.open(topic, topic_partition, known=known)

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
                # At least one partition's directory must have the newest epoch, so that lost
                # metadata can be recovered from the directories.
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
        could not be opened is put aside as a stray.
        """
        if self._partitions.get(name) is not None:
            log.info("partition has moved to other brokers", partition=str(name))
            self._leave(topic, name)
        elif self._partitions.offline_reason(name) is not None:
            self._refused_work.discard(_opening(name))
            self._removal.put_aside(name, topic.id)
            self._partitions.take_online(name)

    def _remove(self, topic: TopicImage, name: TopicPartition) -> None:
        """Remove the partition and its directory."""
        partition = self._partitions.remove(name, topic.id)
        self._opening.removed(name)
        self._refused_work.discard(_opening(name))
        if partition is not None:
            partition.resign()
            self._stop_following(name)
        self._removal.remove(name, topic.id, partition)


def _resignation(partitions: Sequence[Partition]) -> Steps[None]:
    """End the requests that wait on the partitions of a deleted topic."""
    for partition in partitions:
        try:
            partition.resign()
        except Exception:  # a defect in one waiting request must not stop the others
            log.exception(
                "a waiting request could not be ended", partition=str(partition.topic_partition)
            )
        yield


def _opening(name: TopicPartition | str) -> str:
    """Return the name of the refused work that opens the log of this partition. For a topic, return
    the name of the group that has this work of all the topic's partitions."""
    return f"open {name}"
