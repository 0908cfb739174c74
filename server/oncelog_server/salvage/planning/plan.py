"""The plan that makes the metadata agree with the folders. Planning changes nothing.

The folders decide topics, topic ids and numbers of partitions. Settings and all other metadata come
from the newest remaining records. Producer ids and leader epochs only increase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from oncelog_protocol.types import uuid_from_string, uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.records import (
    ClusterRecord,
    FeaturesRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.salvage.planning.chosen_folders import ChosenFolders
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.hashes import uses_absolute_hash
from oncelog_server.salvage.planning.known import Known, KnownRecords
from oncelog_server.salvage.planning.log_survey import NONE
from oncelog_server.salvage.planning.lost_metadata import (
    KEEP_EVERYTHING,
    SKIPPED_EPOCHS,
    first_signs,
    following_producer_id,
    newest_epoch,
    newest_producer_id,
)
from oncelog_server.salvage.planning.machine import Machine, OtherBroker, directory_of
from oncelog_server.salvage.planning.registrations import (
    known_registrations,
    renewed_registrations,
)
from oncelog_server.salvage.planning.restored_partition import Replica, restored_partition
from oncelog_server.settings.model import Settings
from oncelog_server.storage.layout import META_PROPERTIES


class Plan(msgspec.Struct):
    """The changes of a data directory, and of the directories of other brokers inside it.

    `metas` are the meta.properties of each broker by the path of its directory, "" for the first
    broker. `moves` are renames of folders (old path, new path). `relabelled` are folders that get
    another topic id. `notes` are sentences for the operator. `left` are folders that stay as they
    are, with the reason. `stray_directories` are the directories with a stray that becomes a
    partition. `draws_cluster_id` says that the cluster's id is lost. Each plan then has another
    random id.
    """

    cluster_id: str
    metas: dict[str, MetaProperties]
    snapshot: Snapshot
    moves: list[tuple[str, str]]
    relabelled: dict[str, bytes]
    notes: list[str]
    left: list[tuple[str, str]]
    stray_directories: set[str]
    draws_cluster_id: bool = False
    # Number of partitions in the metadata without a folder.
    without_folder: int = 0

    @property
    def meta(self) -> MetaProperties:
        """The meta.properties of the first broker."""
        return self.metas[""]


class Planner:
    """Makes the plan. Call `plan` only once.

    `known` is None if no records are left. `meta` is the meta.properties of the first broker.
    `new_uuid` returns random ids. `features` are the feature levels of a new cluster. `others` are
    the other brokers of this machine. Raises Uncertain if they are not of one cluster.
    """

    def __init__(
        self,
        folders: Sequence[FolderFacts],
        known: Known | None,
        meta: MetaProperties | None,
        *,
        features: Mapping[str, int],
        new_uuid: Callable[[], bytes],
        settings: Settings,
        others: Sequence[OtherBroker] = (),
    ) -> None:
        self._machine = Machine(meta, others)
        self._folders = [*folders, *(facts for other in others for facts in other.folders)]
        self._known = known
        self._meta = meta
        self._features = features
        self._new_uuid = new_uuid
        self._settings = settings
        self._old = KnownRecords(known)
        self._notes: list[str] = [f"record {key} cannot be read" for key in self._old.unreadable]
        self._without_folder = 0
        self._node_id = self._find_node_id()
        # The node id of each directory.
        self._ids = self._machine.node_ids(self._node_id)
        self._chosen = ChosenFolders(self._folders, self._old, new_uuid)
        self._notes += self._chosen.notes
        self._topics = self._chosen.topics
        self._is_last = known is not None and known.is_last
        # The revision below the changed records.
        self._floor = 0

    def plan(self) -> Plan:
        draws_cluster_id = self._machine.cluster_id is None and self._old.cluster is None
        metas = self._metas()
        self._note_age()
        known = None if self._known is None else self._known.snapshot
        revision = 0 if known is None else known.revision
        self._floor = revision
        if self._machine.others:
            self._floor = self._machine.floor(known, is_last=self._is_last)
        fresh = self._floor + 1
        entries = dict(self._old.others)
        values = self._values(metas)
        kept = {} if known is None else {entry.key: entry for entry in known.entries}
        for key, value in values.items():
            before = kept.get(key)
            if before is not None and before.value == value:
                entries[key] = before
            else:
                created = fresh if before is None else before.create_revision
                entries[key] = Entry(key, value, created, fresh)
        changed = any(entry.mod_revision == fresh for entry in entries.values())
        snapshot = Snapshot(
            fresh if changed else revision, tuple(entries[key] for key in sorted(entries))
        )
        return Plan(
            self._cluster.id,
            metas,
            snapshot,
            self._chosen.moves,
            self._chosen.relabelled,
            self._notes,
            self._chosen.left,
            self._chosen.stray_directories,
            draws_cluster_id,
            self._without_folder,
        )

    # --- the records

    def _values(self, metas: Mapping[str, MetaProperties]) -> dict[str, bytes]:
        values: dict[str, Any] = {records.CLUSTER: self._cluster}
        if records.FEATURES not in self._old.others:
            values[records.FEATURES] = FeaturesRecord(dict(self._features))
            self._notes.append("the levels of the cluster's features are those of a new cluster")
        values[records.PRODUCER_IDS] = ProducerIdsRecord(self._next_producer_id())
        for name in sorted(self._old.topics.keys() | self._topics.keys()):
            self._topic_values(name, values)
        written = {key: records.encode(value) for key, value in values.items()}
        if self._machine.others and not self._is_last:
            written |= self._registrations(metas)
        return written

    def _registrations(self, metas: Mapping[str, MetaProperties]) -> dict[str, bytes]:
        """Return the registrations of all brokers, which then prove that they have every record of
        their folders."""
        known: dict[str, bytes] = {}
        for key, entry in self._old.others.items():
            try:
                known |= known_registrations([entry])
            except ValueError:
                self._notes.append(f"record {key} cannot be read")
        ids = {self._ids[path]: meta.directory_id for path, meta in metas.items()}
        return renewed_registrations(known, ids, self._floor)

    def _topic_values(self, name: str, values: dict[str, Any]) -> None:
        old = self._old.topics.get(name)
        if name in self._topics:
            topic_id, folders = self._topics[name]
        else:
            assert old is not None
            topic_id, folders = uuid_from_string(old.id), {}
        id_text = uuid_to_string(topic_id)
        same = old is not None and old.id == id_text
        count = max(folders, default=-1) + 1
        if old is not None:
            count = max(count, old.partitions) if same else count or old.partitions
        missing = [number for number in range(count) if number not in folders]
        missing = self._without_missing_brokers(name, id_text, missing)
        if missing:
            self._without_folder += len(missing)
            plural = "" if len(missing) == 1 else "s"
            self._notes.append(
                f"no folder for partition{plural} {_ranges(missing)} of {name}: will be empty"
            )
        settings = dict(old.settings) if old is not None else self._settings_of(name)
        values[records.topic_key(name)] = TopicRecord(id_text, count, settings)
        if old is None:
            plural = "" if count == 1 else "s"
            self._notes.append(
                f"topic {name} with {count} partition{plural}: found by its folders, "
                "not in any metadata"
            )
        elif not same:
            self._notes.append(f"topic {name} gets the id of its folders, {id_text}")
        elif count > old.partitions:
            self._notes.append(f"topic {name} gets {count} partitions instead of {old.partitions}")
        for number in range(count):
            before = self._old.partitions.get((id_text, number))
            record = self._partition(before, folders.get(number, []))
            values[records.partition_key(id_text, number)] = record

    def _without_missing_brokers(self, name: str, id_text: str, missing: list[int]) -> list[int]:
        """Return the partitions of `missing` that come back empty. Add a note about those that only
        brokers without a directory have: they are offline until these directories are back."""
        empty = []
        for number in missing:
            before = self._old.partitions.get((id_text, number))
            if before is None or self._is_here(before):
                empty.append(number)
            else:
                self._notes.append(
                    f"no folder for partition {number} of {name}: it is on broker "
                    f"{', '.join(map(str, before.replicas))}, which has no directory here"
                )
        return empty

    def _is_here(self, record: PartitionRecord) -> bool:
        """Return True if a broker with a directory is a replica, or if there is no replica."""
        return not record.replicas or bool({*record.replicas}.intersection(self._ids.values()))

    def _partition(
        self, before: PartitionRecord | None, folders: Sequence[FolderFacts]
    ) -> PartitionRecord:
        """Return the record of a partition. The brokers with its folders are its replicas."""
        epoch = self._epoch(before, folders)
        if self._machine.others and not self._is_last:
            on_disk = [Replica(self._ids[directory_of(f.folder)], f) for f in folders]
            if not on_disk and before is not None and not self._is_here(before):
                return msgspec.structs.replace(before, leader_epoch=epoch)
            if before is not None and on_disk and not self._has_replica(before, folders):
                before = None  # it has moved since
            given = self._ids.values()
            return restored_partition(
                before, on_disk, given, leader_epoch=epoch, broker_epoch=self._floor
            )
        me = (self._node_id,)
        record = before or PartitionRecord(me, me, self._node_id, epoch)
        if record.leader_epoch != epoch:
            record = msgspec.structs.replace(record, leader_epoch=epoch)
        return record

    def _has_replica(self, record: PartitionRecord, folders: Sequence[FolderFacts]) -> bool:
        """Return True if one of the folders is that of a replica."""
        return any(self._ids[directory_of(facts.folder)] in record.replicas for facts in folders)

    def _settings_of(self, name: str) -> dict[str, str]:
        if is_internal(name):
            own = internal_topic(ClusterImage(), self._settings, name).settings
            return {key: text for key, text in own.items() if text is not None}
        self._notes.append(
            f"topic {name}: its settings are lost, so its records are never deleted "
            "(retention.ms=-1, retention.bytes=-1) until other values are set"
        )
        _, folders = self._topics[name]
        if any(facts.is_compacted for found in folders.values() for facts in found):
            self._notes.append(
                f"topic {name}: its log was compacted; set cleanup.policy=compact again. Its other "
                "settings have their defaults now"
            )
        return dict(KEEP_EVERYTHING)

    def _epoch(self, before: PartitionRecord | None, folders: Sequence[FolderFacts]) -> int:
        """Return the leader epoch of a partition.

        If the newest metadata is lost, the epoch is the highest of all partitions. Each start of
        the only broker raised all epochs, but only a few logs have a batch of the new epoch. With
        several brokers, epochs were raised for some partitions only, so more are skipped.
        """
        epoch = max(
            0 if before is None else before.leader_epoch,
            max((facts.leader_epoch for facts in folders), default=NONE),
        )
        if self._is_last:
            return epoch
        skipped = SKIPPED_EPOCHS if self._machine.others else 0
        return max(epoch, self._newest_epoch + skipped)

    @cached_property
    def _newest_epoch(self) -> int:
        return newest_epoch(self._old, self._folders)

    def _next_producer_id(self) -> int:
        if self._is_last:
            return self._old.next_producer_id
        following = following_producer_id(self._old, newest_producer_id(self._folders))
        self._notes.append(f"the next producer id is {following}")
        return following

    def _note_age(self) -> None:
        """Check if the folders are newer than the metadata records. If so, the newest metadata is
        lost: add a note, and set `_is_last` to False."""
        known = None if self._known is None else self._known.snapshot
        newer = self._machine.signs_of_later_revisions(known)
        newest_id = newest_producer_id(self._folders)
        if newest_id >= self._old.next_producer_id:
            newer.append(f"producer id {newest_id}")
        for name, (topic_id, folders) in self._topics.items():
            id_text = uuid_to_string(topic_id)
            for number, found in folders.items():
                before = self._old.partitions.get((id_text, number))
                epoch = max(facts.leader_epoch for facts in found)
                if before is None:
                    newer.append(f"partition {name}-{number}")
                elif before.leader_epoch < epoch:
                    newer.append(f"leader epoch {epoch} of {name}-{number}")
                elif self._machine.others and not self._has_replica(before, found):
                    newer.append(f"{found[0].folder}, which has moved")
        if newer and self._is_last:
            self._notes.append(
                f"the records are older than the folders, which have {first_signs(newer)}"
            )
            self._is_last = False

    # --- the cluster

    @cached_property
    def _cluster(self) -> ClusterRecord:
        """The record of the cluster. If it is lost, the ids in the coordinators' folders show which
        hash the cluster uses."""
        old = self._old.cluster
        cluster_id = self._machine.cluster_id
        if old is None:
            drawn = "" if cluster_id is not None else uuid_to_string(self._new_uuid())
            old = ClusterRecord(drawn, absolute_hash=uses_absolute_hash(self._folders))
        return old if cluster_id is None else msgspec.structs.replace(old, id=cluster_id)

    def _metas(self) -> dict[str, MetaProperties]:
        """Return the meta.properties of each directory. A lost one gets a new directory id."""
        found = {other.directory: other.meta for other in self._machine.others}
        self._notes += [
            f"{path}/{META_PROPERTIES} is written, for node {self._ids[path]}"
            for path, meta in found.items()
            if meta is None
        ]
        return {
            path: meta
            or MetaProperties(self._cluster.id, self._ids[path], uuid_to_string(self._new_uuid()))
            for path, meta in {"": self._meta, **found}.items()
        }

    def _find_node_id(self) -> int:
        if (found := self._machine.first_id) is not None:
            return found
        replicas = [
            partition.replicas[0]
            for partition in self._old.partitions.values()
            if partition.replicas
        ]
        return max(set(replicas), key=replicas.count) if replicas else self._settings.node_id


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as `0-3, 7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
