"""Keeps the partitions of this broker in step with the metadata image: logs are opened, led, and
removed.

Topics change by a store transaction, then by the image, then here; nobody opens a log otherwise.
What the image asks for is done in slices: the changes of one topic in their order, topics in
rotation, so that a new topic of one partition does not wait for ten thousand of another.
Leadership events reach the coordinators of the internal topics from here.
"""

from __future__ import annotations

import asyncio
from collections import deque
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
from oncelog_server.coordination.producer_id_quota import PER_PARTITION, RefusedProducerIds
from oncelog_server.deferred import Deferred
from oncelog_server.log.errors import CorruptLog, InconsistentTopicId
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.recovery import RecoveryReport
from oncelog_server.newer_logs import NewerLogs
from oncelog_server.partition.partition import Partition, Trouble
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.refused_work import RefusedWork
from oncelog_server.settings.topics import LogConfigs
from oncelog_server.slices import Slices, Steps
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import deleted_directory, partition_directory
from oncelog_server.strays import Folders, is_of_topic, put_strays_aside
from oncelog_server.topic_partition import TopicPartition

log = structlog.get_logger("oncelog.partition")

Offsets = Mapping[tuple[str, int], int]

# What is to be done for one topic: a partition that came, changed or went, or new settings.
_Change = PartitionChange | TopicImage

# How long the same complaint about a partition's disk is not repeated.
REPEAT_MS: Final = 60_000


_WAY_OUT: Final = (
    "`oncelog logs verify DIR` says what of the log is whole; stop the broker and put the files of"
    " the partition back from a copy (docs/backup.md). `oncelog logs dump DIR` prints the records"
    " that can be read"
)


class Coordinator(Protocol):
    """What leads the partitions of an internal topic."""

    def lead(self, partition: Partition) -> Deferred[None] | None:
        """What it returns is abandoned if the partition cannot be led; so is one that raises."""
        ...

    def refuse(self, index: int, reason: str) -> None:
        """The partition's log cannot be used."""
        ...

    def resign(self, index: int) -> None: ...


class LastStop(msgspec.Struct, frozen=True):
    """What the data directory remembers of the last stop."""

    was_clean: bool
    recovery_points: Offsets
    log_start_offsets: Offsets


class Hosting:
    """`request_flush` is given where acknowledged data must be on disk; `jitter` draws from 0..its
    argument; `new_uuid` names what is on its way out."""

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
        refused_ids: RefusedProducerIds,
        is_given_id: Callable[[int], bool],
        slices: Slices,
        refused_work: RefusedWork,
    ) -> None:
        self._refused_work = refused_work
        self._image = ClusterImage()
        # Partitions whose log the disk did not let be made or opened, by topic: why the first was.
        self._not_opened: dict[str, StorageError] = {}
        self._refused_ids = refused_ids
        self._is_given_id = is_given_id
        self._broker_id = broker_id
        self._settings = settings
        self._files = files
        self._partitions = partitions
        self._last_stop = last_stop
        self._wall_ms = wall_ms
        self._request_flush = request_flush
        self._jitter = jitter
        self._new_uuid = new_uuid
        self._slices = slices
        # Changes whose turn has not come, by topic, the topic whose turn is next at the front; and
        # who waits until all of a topic are done.
        self._due: dict[str, deque[_Change]] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._is_working = False
        self._stopped = False
        self._coordinators: dict[str, Coordinator] = {}
        self._loading = True
        # Directories of which the start has checked the topic id.
        self._checked: Set[str] = frozenset()
        self._configs = LogConfigs(settings)
        # The newest leader epoch that a folder keeps.
        self._kept_epoch = -1
        # What was said of a partition's disk, and when: not once for every request that meets it.
        self._told: dict[TopicPartition, tuple[str, int]] = {}
        # Deleted topics of which a directory could not be put away, by id.
        self._undropped: set[bytes] = set()

    def serve_coordinators(self, transactions: Coordinator, groups: Coordinator) -> None:
        self._coordinators = {TRANSACTION_STATE: transactions, CONSUMER_OFFSETS: groups}

    def unknown_topics(self, image: ClusterImage) -> set[str]:
        """Topics that the last stop's checkpoints know, and the image does not."""
        last = self._last_stop
        known = {*last.recovery_points, *last.log_start_offsets}
        return {topic for topic, _ in known} - image.topics.keys()

    def open_all(self, image: ClusterImage, folders: Folders, newer: NewerLogs) -> None:
        """At the start: every partition the image puts on this broker. Nobody leads yet: that comes
        with the registration, in a new leader epoch. Raises StorageError."""
        self._image = image
        self._checked = folders.checked
        for name, aside in put_strays_aside(self._files, folders, self._new_uuid):
            log.warning("partition of a deleted topic put aside", directory=name, now=aside)
        for topic in image.topics.values():
            for partition in topic.partitions:
                if self._broker_id in partition.replicas:
                    opened = self._open(topic, TopicPartition(topic.name, partition.partition))
                    if opened is not None:
                        newer.look_at(opened.log, partition.leader_epoch)
        self._loading = False
        self._checked = frozenset()

    def follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """The image has advanced. What that asks for begins now; `settled` tells when it is
        done."""
        self._image = new
        if self._stopped:
            return
        for deleted in delta.topics_deleted:
            self._forget_due(deleted)
        for change in delta.partitions:
            self._due.setdefault(change.topic.name, deque()).append(change)
        for topic in delta.settings_changed:
            # After the partitions that wait to be opened, which know the settings of before.
            self._due.setdefault(topic.name, deque()).append(topic)
        if self._due and not self._is_working:
            self._is_working = True
            self._slices.run(self._work())

    async def settled(self, topics: Collection[str]) -> None:
        """Return when all that the images so far ask for these topics is done."""
        for name in topics:
            if name in self._due:
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.setdefault(name, []).append(waiting)
                await waiting

    async def created(self, topics: Collection[str]) -> None:
        """As `settled`. Raises Refused where a log could not be made: the disk is full."""
        await self.settled(topics)
        for name in topics:
            error = self._not_opened.get(name)
            if error is not None:
                raise Refused(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"Topic '{name}' cannot be kept on disk: {error}. Free some space and try"
                    " again.",
                )

    def give_up(self, name: str) -> bool:
        """Leave nothing of a new topic that cannot be kept on disk, which is about to be deleted;
        False, and nothing changes, if records were written to it meanwhile."""
        topic = self._image.topics.get(name)
        if topic is None:
            return True
        names = [TopicPartition(name, one.partition) for one in topic.partitions]
        opened = [one for one in map(self._partitions.get, names) if one is not None]
        if any(one.log.log_end_offset for one in opened):
            return False
        reason = str(self._not_opened.get(name, "deleted"))
        for one in names:
            self._remove(topic, one)
            # Nobody writes to it until the image knows that it is gone.
            self._partitions.add_offline(one, reason)
        return True

    def undropped(self) -> Set[bytes]:
        """Topics that were deleted since the start and of which directories are left, by id."""
        due = (change for changes in self._due.values() for change in changes)
        dropping = {
            one.topic.id for one in due if not isinstance(one, TopicImage) and one.new is None
        }
        return self._undropped | dropping

    def stop(self) -> None:
        """Open nothing any more: what has had no turn is opened at the next start."""
        self._stopped = True
        self._undropped |= self.undropped()
        self._due.clear()
        for name in list(self._waiting):
            self._tell_waiting(name)

    def _forget_due(self, topic: TopicImage) -> None:
        """Partitions of a deleted topic that wait for their turn are not opened any more."""
        self._not_opened.pop(topic.name, None)
        due = self._due.get(topic.name)
        if due is not None:
            due.clear()

    def _work(self) -> Steps[None]:
        """One change at a time, one topic after the other."""
        try:
            while self._due:
                name = next(iter(self._due))
                changes = self._due.pop(name)
                # Behind the other topics; it is not at its end before the change is made.
                self._due[name] = changes
                if changes:
                    self._make(changes.popleft())
                if not changes and self._due.get(name) is changes:
                    del self._due[name]
                    self._tell_waiting(name)
                yield
        finally:
            self._is_working = False

    def _make(self, change: _Change) -> None:
        try:
            if isinstance(change, TopicImage):
                self._reconfigure(change)
            elif change.new is None:
                self._drop(change)
            else:
                self._host(change.topic, change.new)
        except Exception:  # one that fails by a defect hinders no other
            log.exception("a part of the metadata could not be followed")

    def _tell_waiting(self, topic: str) -> None:
        for one in self._waiting.pop(topic, ()):
            if not one.done():
                one.set_result(None)

    # --- one partition

    def _host(self, topic: TopicImage, image: PartitionImage) -> None:
        if self._broker_id not in image.replicas:
            return
        topic_partition = TopicPartition(topic.name, image.partition)
        partition = self._partitions.get(topic_partition)
        # What could not be opened stays offline until the next start: opened once more it would be
        # taken for a new partition, and its corrupt log for a sound one.
        if partition is None and self._partitions.offline_reason(topic_partition) is None:
            partition = self._open(topic, topic_partition)
        if partition is not None:
            self._lead_or_follow(partition, image)
        elif (coordinator := self._coordinators.get(topic.name)) is not None:
            reason = self._partitions.offline_reason(topic_partition) or ""
            coordinator.refuse(image.partition, f"{topic_partition} cannot be used: {reason}")

    def _open(self, topic: TopicImage, topic_partition: TopicPartition) -> Partition | None:
        """None where the log cannot be served: the partition is offline, others are not (S3)."""
        # A partition made by this process was never stopped otherwise than cleanly.
        known = self._loading
        try:
            if not known and topic.name in self._not_opened:  # the others wait with it
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
        """There may be room now. Raises StorageError."""
        topic = self._image.topics.get(name.topic)
        image = self._image.partition(*name)
        if topic is None or image is None or topic.id != topic_id:
            return
        if self._open_log(topic, name, known=known) is None:
            return
        if self._refused_work.left(_opening(name.topic)) == 1:  # this one
            self._not_opened.pop(name.topic, None)
        self._partitions.take_online(name)
        self._host(topic, image)

    def _open_log(
        self, topic: TopicImage, topic_partition: TopicPartition, *, known: bool
    ) -> Partition | None:
        """`known`: to the last stop. Raises StorageError."""
        last = self._last_stop
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
                topic_id_checked=partition_directory(*topic_partition) in self._checked,
                jitter=self._jitter,
            )
        except CorruptLog as corrupt:
            log.error(
                "partition offline: its log is damaged",
                partition=str(topic_partition),
                file=corrupt.path,
                position=corrupt.position,
                reason=corrupt.reason,
                what_to_do=_WAY_OUT,
            )
            self._partitions.add_offline(topic_partition, str(corrupt))
            return None
        except InconsistentTopicId as error:
            log.error("partition offline", partition=str(topic_partition), reason=str(error))
            self._partitions.add_offline(topic_partition, str(error))
            return None
        _tell(topic_partition, opened.recovery)
        opened.producers.max_ids = self._settings.oncelog_max_producer_ids_per_partition
        opened.producers.is_given = self._is_given_id
        opened.producers.on_full = partial(self._refused_id, topic_partition)
        opened.refusals.on_refused = partial(self._refused, topic_partition)
        partition = Partition(
            topic_partition,
            topic.id,
            opened,
            self._request_flush,
            flush_on_ack=self._settings.oncelog_flush_on_ack,
            troubled=self._troubled,
        )
        self._partitions.add(partition)
        return partition

    def _refused_id(self, topic_partition: TopicPartition) -> None:
        limit = self._settings.oncelog_max_producer_ids_per_partition
        self._refused_ids.add(PER_PARTITION, limit, partition=str(topic_partition))

    def _refused(self, name: TopicPartition, error: StorageError) -> None:
        """The disk refused something of a log: it is asked again until it takes it."""
        self._refused_work.add(
            str(name), error, partial(self._try_log_again, name), partition=str(name)
        )

    def _try_log_again(self, name: TopicPartition) -> None:
        """Raises StorageError."""
        partition = self._partitions.get(name)
        if partition is not None and partition.offline is None:
            partition.log.try_again(self._wall_ms())

    def _troubled(self, partition: Partition, trouble: Trouble) -> None:
        """A read or an append was refused: by the disk, or for what is on it."""
        if str(partition.topic_partition) in self._refused_work:
            return  # it is known, and told
        name, now_ms = partition.topic_partition, self._wall_ms()
        reason, told_ms = self._told.get(name, ("", 0))
        if reason == trouble.reason and 0 <= now_ms - told_ms < REPEAT_MS:
            return
        self._told[name] = trouble.reason, now_ms
        log.error(
            "corrupt batch" if isinstance(trouble, CorruptLog) else "disk refused",
            partition=str(name),
            file=trouble.path,
            reason=trouble.reason,
            **_where(trouble),
        )

    def _lead_or_follow(self, partition: Partition, image: PartitionImage) -> None:
        topic, index = partition.topic_partition
        coordinator = self._coordinators.get(topic)
        if image.leader != self._broker_id:
            partition.become_follower(image.leader, image.leader_epoch)
            if coordinator is not None:
                coordinator.resign(index)
            return
        try:
            partition.become_leader(self._broker_id, image.leader_epoch, image.isr, image.replicas)
            if image.leader_epoch > self._kept_epoch:
                # Of the newest epoch something is left, should the metadata be lost.
                self._kept_epoch = image.leader_epoch
                partition.log.write_leader_epochs()
            if coordinator is not None:
                led = coordinator.lead(partition)
                if led is not None:
                    led.on_abandon(lambda: _tell_not_led(partition, led.failure))
        except (ValueError, Refused, StorageError, CorruptLog) as error:
            _tell_not_led(partition, error)

    def _drop(self, change: PartitionChange) -> None:
        topic_partition = TopicPartition(change.topic.name, change.partition)
        coordinator = self._coordinators.get(topic_partition.topic)
        if coordinator is not None:
            coordinator.resign(topic_partition.partition)
        self._remove(change.topic, topic_partition)

    def _remove(self, topic: TopicImage, name: TopicPartition) -> None:
        """Nothing is left of the partition here, nor on disk once the disk allows it."""
        partition = self._partitions.remove(name)
        self._told.pop(name, None)
        self._refused_work.discard(str(name))
        self._refused_work.discard(_opening(name))
        directory = partition_directory(*name)
        aside = deleted_directory(*name, self._new_uuid())
        if partition is not None:
            partition.resign()
        elif not self._files.exists(directory) or not is_of_topic(self._files, directory, topic.id):
            return

        def remove() -> None:
            if self._files.exists(directory) and is_of_topic(self._files, directory, topic.id):
                self._files.rename(directory, aside)
                self._files.remove([aside])

        try:
            if partition is None:
                remove()
            else:
                partition.log.remove(aside)
        except StorageError as error:
            self._undropped.add(topic.id)
            self._refused_work.add(
                f"remove {directory} {aside}", error, remove, partition=str(name)
            )

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._configs.of(topic.settings)
        for image in topic.partitions:
            partition = self._partitions.get(TopicPartition(topic.name, image.partition))
            if partition is not None:
                partition.log.reconfigure(config)


def _opening(name: TopicPartition | str) -> str:
    """What the opening of a log, or of those of a topic, is called among refused work."""
    return f"open {name}"


def _tell_not_led(partition: Partition, error: Exception | None) -> None:
    log.error("cannot lead partition", partition=str(partition.topic_partition), reason=str(error))


def _where(trouble: Trouble) -> dict[str, object]:
    if isinstance(trouble, CorruptLog):
        return {"position": trouble.position}
    return {"operation": trouble.operation}


def _tell(topic_partition: TopicPartition, report: RecoveryReport) -> None:
    """What was found at the start that a person should know."""
    if not report.is_loud:
        return
    log.warning(
        "log recovered",
        partition=str(topic_partition),
        cut_file=report.cut_path or None,
        cut_position=report.cut_position,
        cut_bytes=report.cut_bytes,
        reason=report.cut_reason or None,
        valid_batches_followed=report.valid_batches_followed,
        rebuilt=report.rebuilt or None,
    )
