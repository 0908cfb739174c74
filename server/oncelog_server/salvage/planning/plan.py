"""The plan that makes the metadata agree with the folders. Planning changes nothing.

The folders decide topics, topic ids and numbers of partitions. Settings and all other metadata come
from the newest remaining records. Producer ids and leader epochs only increase.
"""

from __future__ import annotations

from collections import defaultdict
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
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.hashes import uses_absolute_hash
from oncelog_server.salvage.planning.known import Known, KnownRecords
from oncelog_server.salvage.planning.log_survey import NONE
from oncelog_server.salvage.planning.lost_metadata import (
    KEEP_EVERYTHING,
    first_signs,
    following_producer_id,
    newest_epoch,
    newest_producer_id,
)
from oncelog_server.settings.model import Settings
from oncelog_server.storage.layout import partition_directory, stray_directory


class Plan(msgspec.Struct):
    """The changes of a data directory.

    `moves` are renames of folders (old name, new name). `relabelled` are folders that get another
    topic id. `notes` are sentences for the operator. `left` are folders that stay as they are, with
    the reason. `draws_cluster_id` says that the cluster's id is lost. Each plan then has another
    random id.
    """

    cluster_id: str
    meta: MetaProperties
    snapshot: Snapshot
    moves: list[tuple[str, str]]
    relabelled: dict[str, bytes]
    notes: list[str]
    left: list[tuple[str, str]]
    takes_strays: bool = False
    draws_cluster_id: bool = False
    # Number of partitions in the metadata without a folder.
    without_folder: int = 0


class Planner:
    """Makes the plan. Call `plan` only once.

    `known` is None if no records are left. `new_uuid` returns random ids. `features` are the
    feature levels of a new cluster.
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
    ) -> None:
        self._folders = folders
        self._known = known
        self._meta = meta
        self._features = features
        self._new_uuid = new_uuid
        self._settings = settings
        self._old = KnownRecords(known)
        self._notes: list[str] = [f"record {key} cannot be read" for key in self._old.unreadable]
        self._left: list[tuple[str, str]] = []
        self._moves: list[tuple[str, str]] = []
        self._relabelled: dict[str, bytes] = {}
        self._takes_strays = False
        self._without_folder = 0
        self._node_id = self._find_node_id()
        # The planned topics: name -> (id, folders by partition).
        self._topics: dict[str, tuple[bytes, dict[int, FolderFacts]]] = {}
        self._is_last = known is not None and known.is_last

    def plan(self) -> Plan:
        draws_cluster_id = self._meta is None and self._old.cluster is None
        for name, folders in self._by_topic().items():
            self._choose(name, folders)
        self._note_age()
        entries = dict(self._old.others)
        revision = 0 if self._known is None else self._known.snapshot.revision
        fresh = revision + 1
        values = self._values()
        kept = (
            {}
            if self._known is None
            else {entry.key: entry for entry in self._known.snapshot.entries}
        )
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
        cluster_id = self._cluster_id
        meta = self._meta or MetaProperties(
            cluster_id, self._node_id, uuid_to_string(self._new_uuid())
        )
        return Plan(
            cluster_id,
            meta,
            snapshot,
            self._moves,
            self._relabelled,
            self._notes,
            self._left,
            self._takes_strays,
            draws_cluster_id,
            self._without_folder,
        )

    # --- the folders of each topic

    def _by_topic(self) -> dict[str, list[FolderFacts]]:
        names = {uuid_from_string(record.id): name for name, record in self._old.topics.items()}
        names |= {topic_id: deletion.name for topic_id, deletion in self._old.deletions.items()}
        found: dict[str, list[FolderFacts]] = defaultdict(list)
        for facts in sorted(self._folders, key=lambda facts: (facts.is_stray, facts.folder)):
            name = facts.topic
            if facts.is_stray and facts.topic_id in names:
                name = names[facts.topic_id]  # the folder's name may have been cut
            if facts.topic_id in self._old.deletions:
                self._left.append((facts.folder, f"topic {name} was deleted"))
            else:
                found[name].append(facts)
        return found

    def _choose(self, name: str, folders: list[FolderFacts]) -> None:
        """Choose the id of the topic among the ids in its folders, and assign its folders."""
        known = self._old.topics.get(name)
        known_id = None if known is None else uuid_from_string(known.id)
        groups: dict[bytes, list[FolderFacts]] = defaultdict(list)
        without: list[FolderFacts] = []
        for facts in folders:
            if facts.topic_id is None:
                without.append(facts)
            else:
                groups[facts.topic_id].append(facts)

        def rank(topic_id: bytes) -> tuple[bool, bool, int]:
            live = sum(group.log_bytes for group in groups[topic_id] if not group.is_stray)
            total = sum(group.log_bytes for group in groups[topic_id])
            return live > 0, topic_id == known_id and total > 0, total

        chosen = max(groups, key=rank) if groups else known_id or self._new_uuid()
        taken: dict[int, FolderFacts] = {}
        for facts in sorted(
            [*groups[chosen], *without], key=lambda facts: (facts.is_stray, -facts.log_bytes)
        ):
            self._take(name, chosen, facts, taken)
        for topic_id, others in groups.items():
            if topic_id != chosen:
                self._put_off(name, chosen, others, taken)
        self._topics[name] = chosen, taken
        for partition, facts in taken.items():
            directory = partition_directory(name, partition)
            if facts.folder != directory:
                self._takes_strays = True
                self._moves.append((facts.folder, directory))
                self._notes.append(f"{facts.folder} becomes {directory} again")

    def _take(
        self, name: str, topic_id: bytes, facts: FolderFacts, taken: dict[int, FolderFacts]
    ) -> None:
        if facts.partition in taken:
            self._left.append((facts.folder, f"{name}-{facts.partition} is there already"))
            return
        taken[facts.partition] = facts
        if facts.topic_id != topic_id:
            self._relabelled[partition_directory(name, facts.partition)] = topic_id

    def _put_off(
        self, name: str, chosen: bytes, others: list[FolderFacts], taken: dict[int, FolderFacts]
    ) -> None:
        """Decide about folders with another topic id.

        Stray folders stay as they are. Another folder is taken if it has records and its partition
        has no folder yet: its topic id must be damaged. The other folders are moved aside.
        """
        for facts in others:
            if facts.is_stray:
                self._left.append((facts.folder, f"another topic has the name {name} now"))
            elif facts.log_bytes and facts.partition not in taken:
                taken[facts.partition] = facts
                self._relabelled[facts.folder] = chosen
                self._notes.append(f"{facts.folder} gets the topic id of the other partitions")
            else:
                assert facts.topic_id is not None
                aside = stray_directory(name, facts.partition, self._new_uuid())
                self._moves.insert(0, (facts.folder, aside))
                self._notes.append(f"{facts.folder} becomes {aside}: it belongs to another topic")

    # --- the records

    def _values(self) -> dict[str, bytes]:
        values: dict[str, Any] = {records.CLUSTER: self._cluster}
        if records.FEATURES not in self._old.others:
            values[records.FEATURES] = FeaturesRecord(dict(self._features))
            self._notes.append("the levels of the cluster's features are those of a new cluster")
        values[records.PRODUCER_IDS] = ProducerIdsRecord(self._next_producer_id())
        for name in sorted(self._old.topics.keys() | self._topics.keys()):
            self._topic_values(name, values)
        return {key: records.encode(value) for key, value in values.items()}

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
            epoch = self._epoch(before, folders.get(number))
            me = (self._node_id,)
            record = before or PartitionRecord(me, me, self._node_id, epoch)
            if record.leader_epoch != epoch:
                record = msgspec.structs.replace(record, leader_epoch=epoch)
            values[records.partition_key(id_text, number)] = record

    def _settings_of(self, name: str) -> dict[str, str]:
        if is_internal(name):
            own = internal_topic(ClusterImage(), self._settings, name).settings
            return {key: text for key, text in own.items() if text is not None}
        self._notes.append(
            f"topic {name}: its settings are lost, so its records are never deleted "
            "(retention.ms=-1, retention.bytes=-1) until other values are set"
        )
        _, folders = self._topics[name]
        if any(folder.is_compacted for folder in folders.values()):
            self._notes.append(
                f"topic {name}: its log was compacted; set cleanup.policy=compact again. Its other "
                "settings have their defaults now"
            )
        return dict(KEEP_EVERYTHING)

    def _epoch(self, before: PartitionRecord | None, facts: FolderFacts | None) -> int:
        """Return the leader epoch of a partition.

        If the newest metadata is lost, the epoch is the highest of all partitions. Each start
        raised all epochs, but only a few logs have a batch of the new epoch.
        """
        epoch = max(
            0 if before is None else before.leader_epoch,
            NONE if facts is None else facts.leader_epoch,
        )
        return epoch if self._is_last else max(epoch, self._newest_epoch)

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
        newer: list[str] = []
        newest_id = newest_producer_id(self._folders)
        if newest_id >= self._old.next_producer_id:
            newer.append(f"producer id {newest_id}")
        for name, (topic_id, folders) in self._topics.items():
            id_text = uuid_to_string(topic_id)
            for number, facts in folders.items():
                before = self._old.partitions.get((id_text, number))
                if before is None:
                    newer.append(f"partition {name}-{number}")
                elif before.leader_epoch < facts.leader_epoch:
                    newer.append(f"leader epoch {facts.leader_epoch} of {name}-{number}")
        if newer and self._is_last:
            self._notes.append(
                f"the records are older than the folders, which have {first_signs(newer)}"
            )
            self._is_last = False

    # --- the cluster

    @property
    def _cluster_id(self) -> str:
        if self._meta is not None:
            return self._meta.cluster_id
        return self._cluster.id

    @cached_property
    def _cluster(self) -> ClusterRecord:
        """The record of the cluster. If it is lost, the ids in the coordinators' folders show which
        hash the cluster uses."""
        old = self._old.cluster
        if old is None:
            drawn = "" if self._meta is not None else uuid_to_string(self._new_uuid())
            old = ClusterRecord(drawn, absolute_hash=uses_absolute_hash(self._folders))
        if self._meta is None:
            return old
        return msgspec.structs.replace(old, id=self._meta.cluster_id)

    def _find_node_id(self) -> int:
        if self._meta is not None:
            return self._meta.node_id
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
