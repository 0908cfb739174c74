"""The plan that brings the metadata of a cluster back after etcd was lost or restored.

The sources are the data directories of the brokers, and the newest metadata that is left: an
export, or what etcd still has. Producer ids and leader epochs never go back. Planning changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    ClusterRecord,
    FeaturesRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Put, Snapshot
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.salvage.planning.directories import Directories, SurveyedDirectory
from oncelog_server.salvage.planning.hashes import uses_absolute_hash
from oncelog_server.salvage.planning.known import Known, KnownRecords, Uncertain
from oncelog_server.salvage.planning.lost_metadata import (
    SKIPPED_EPOCHS,
    SKIPPED_REVISIONS,
    first_signs,
    following_producer_id,
    newest_epoch,
    newest_producer_id,
)
from oncelog_server.salvage.planning.metadata_age import MetadataAge
from oncelog_server.salvage.planning.missing_folders import brokers_without_folders
from oncelog_server.salvage.planning.registrations import (
    known_registrations,
    renewed_registrations,
)
from oncelog_server.salvage.planning.restored_partition import restored_partition
from oncelog_server.salvage.planning.restored_topics import RestoredTopic, RestoredTopics


class Restoration(msgspec.Struct, frozen=True):
    """The metadata to write.

    `writes` are all lasting records except the record of the cluster, in the order of the keys.
    `revision` is the newest revision of the lost metadata that the records include. The records
    must get revisions above `floor`. `notes` are sentences for the operator.
    """

    cluster: ClusterRecord
    writes: tuple[Put, ...]
    revision: int
    floor: int
    notes: tuple[str, ...]


def restored_export(known: Known) -> Restoration:
    """Return the metadata of an export as it is. Raises Uncertain if a record is damaged."""
    old = KnownRecords.whole(known)
    assert old.cluster is not None
    writes = _others(old) | known_registrations(known.snapshot.entries)
    for entry in known.snapshot.entries:
        if entry.key.startswith((records.TOPICS, records.PARTITIONS, records.PRODUCER_IDS)):
            writes.setdefault(entry.key, entry.value)
    revision = known.snapshot.revision
    return Restoration(old.cluster, _puts(writes), revision, _floor(revision, known.snapshot), ())


def _others(old: KnownRecords) -> dict[str, bytes]:
    """Return the records that the data directories say nothing about."""
    return {
        key: entry.value
        for key, entry in old.others.items()
        if key != records.RESTORED and not key.startswith(records.REGISTRATIONS)
    }


def _puts(values: Mapping[str, bytes]) -> tuple[Put, ...]:
    return tuple(Put(key, values[key]) for key in sorted(values))


def _floor(revision: int, snapshot: Snapshot | None) -> int:
    entries = () if snapshot is None else snapshot.entries
    return max(revision, *(entry.mod_revision for entry in entries), 0) + SKIPPED_REVISIONS


class Restorer:
    """Makes the plan of a recovery from data directories. Call `plan` only once.

    `known` is the newest metadata that is left, None if there is none. `brokers` are the ids of all
    brokers, as far as the operator names them; `without` are those with a lost directory.
    `features` are the feature levels of a new cluster. `internal_settings` are the settings of the
    internal topics by name, for topics that are in no metadata. Raises Uncertain.
    """

    def __init__(
        self,
        directories: Sequence[SurveyedDirectory],
        known: Known | None,
        *,
        brokers: Collection[int],
        without: Collection[int],
        features: Mapping[str, int],
        internal_settings: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._known = known
        self._old = KnownRecords(None) if known is None else KnownRecords.whole(known)
        self._directories = Directories(directories)
        self._age = None if known is None else MetadataAge(known, self._old, self._directories)
        self._named = frozenset(brokers)
        self._without = frozenset(without)
        self._features = features
        self._internal_settings = internal_settings
        self._notes: list[str] = []
        self._is_last = False
        self._floor = 0

    def plan(self) -> Restoration:
        """Return the plan. Raises Uncertain."""
        cluster_id = self._directories.cluster_id(self._old)
        self._check_complete()
        snapshot = None if self._known is None else self._known.snapshot
        seen = [directory.revision for directory in self._directories]
        revision = max([0 if snapshot is None else snapshot.revision, *seen])
        epochs = [directory.clean_stop_epoch for directory in self._directories]
        self._floor = _floor(max([revision, *epochs]), snapshot)
        topics = RestoredTopics(self._directories, self._old, self._internal_settings)
        self._notes += topics.notes
        self._judge_age(topics.by_name)
        values = _others(self._old)
        if records.FEATURES not in values:
            values[records.FEATURES] = records.encode(FeaturesRecord(dict(self._features)))
        values[records.PRODUCER_IDS] = records.encode(ProducerIdsRecord(self._next_producer_id()))
        values |= self._registration_values()
        epoch = newest_epoch(self._old, self._directories.folders) + SKIPPED_EPOCHS
        for name, topic in topics.by_name.items():
            values |= self._topic_values(name, topic, epoch)
        self._note_losses()
        cluster = self._old.cluster or ClusterRecord(
            cluster_id, absolute_hash=uses_absolute_hash(self._directories.folders)
        )
        return Restoration(cluster, _puts(values), revision, self._floor, tuple(self._notes))

    def _check_complete(self) -> None:
        """Raise Uncertain unless the directories of all brokers are given."""
        if self._known is None and not self._named:
            raise Uncertain(
                "no metadata is left that names the brokers of the cluster: name all of them with "
                "--brokers, so that no directory is forgotten"
            )
        self._directories.check_complete(self._old, self._named, self._without)
        later = [] if self._age is None else self._age.signs_of_later_revisions()
        if later and not self._named:
            assert self._known is not None
            raise Uncertain(
                f"{self._known.source} may not name all brokers, because {later[0]}: "
                "name all of them with --brokers, so that no directory is forgotten"
            )

    def _judge_age(self, topics: Mapping[str, RestoredTopic]) -> None:
        """Find out if newer metadata may be lost. If not, the metadata stays as it is."""
        if self._known is None or self._age is None:
            self._notes.append("no metadata is left: it is rebuilt from the directories")
            return
        newer = self._age.signs(self._without, topics)
        self._is_last = not newer
        if newer:
            self._notes.append(
                f"{self._known.source} may not have the last changes: {first_signs(newer)}"
            )

    # --- the records

    def _next_producer_id(self) -> int:
        if self._is_last:
            return self._old.next_producer_id
        newest_id = newest_producer_id(self._directories.folders)
        following = following_producer_id(self._old, newest_id)
        self._notes.append(f"the next producer id is {following}")
        return following

    def _registration_values(self) -> dict[str, bytes]:
        """Return the registrations. If newer metadata may be lost, each broker with a directory is
        registered as if it had registered at the revision `floor`, with every record that it has
        now."""
        known = known_registrations(() if self._known is None else self._known.snapshot.entries)
        if self._is_last:
            return known
        ids = {directory.node_id: directory.directory_id for directory in self._directories}
        return renewed_registrations(known, ids, self._floor)

    def _topic_values(self, name: str, topic: RestoredTopic, epoch: int) -> dict[str, bytes]:
        values: dict[str, Any] = {
            records.topic_key(name): TopicRecord(
                topic.id_text, topic.partitions, dict(topic.settings)
            )
        }
        for number in range(topic.partitions):
            before = self._old.partitions.get((topic.id_text, number))
            key = records.partition_key(topic.id_text, number)
            values[key] = self._partition(before, topic, number, epoch)
        empty = [number for number in range(topic.partitions) if number not in topic.replicas]
        if empty:
            self._notes.append(
                f"{name}: no directory has partition {', '.join(map(str, empty))}: it will be empty"
            )
        if not (self._is_last or is_internal(name)):
            self._suspect_deletion(name, topic)
        return {key: records.encode(value) for key, value in values.items()}

    def _partition(
        self, before: PartitionRecord | None, topic: RestoredTopic, number: int, epoch: int
    ) -> PartitionRecord:
        if self._is_last and before is not None:
            return before
        replicas = topic.replicas.get(number, [])
        given = self._directories.by_broker
        return restored_partition(
            before, replicas, given, leader_epoch=epoch, broker_epoch=self._floor
        )

    def _suspect_deletion(self, name: str, topic: RestoredTopic) -> None:
        partitions = (
            (before, {replica.node_id for replica in topic.replicas.get(number, [])})
            for number in range(topic.partitions)
            if (before := self._old.partitions.get((topic.id_text, number))) is not None
        )
        if without := brokers_without_folders(partitions, self._directories.by_broker):
            plural = "" if len(without) == 1 else "s"
            self._notes.append(
                f"topic {name} comes back, although it may have been deleted: its folders are "
                f"missing on broker{plural} {', '.join(map(str, without))}. If it was deleted, "
                "delete it again"
            )

    def _note_losses(self) -> None:
        for node_id in sorted(self._without):
            self._notes.append(f"records that only broker {node_id} has are lost, if there are any")
