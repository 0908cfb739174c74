"""The plan that brings the metadata of a cluster back after etcd was lost or restored.

The sources are the data directories of the brokers, and the newest metadata that is left: an
export, or what etcd still has. Producer ids and leader epochs never go back. Planning changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from oncelog_protocol.types import uuid_from_string, uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.cluster.records import (
    ClusterRecord,
    FeaturesRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegistrationRecord,
    RestoredRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Put, Snapshot
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.salvage.planning.evidence import NONE, FolderFacts
from oncelog_server.salvage.planning.hashes import uses_absolute_hash
from oncelog_server.salvage.planning.known import Known, KnownRecords
from oncelog_server.salvage.planning.missing_folders import brokers_without_folders
from oncelog_server.salvage.planning.plan import KEEP_EVERYTHING, SKIPPED_IDS

# Number of leader epochs to skip if the newest metadata is lost: a leader that wrote nothing has
# left no trace of its epoch, but clients may know it.
SKIPPED_EPOCHS: Final = 1000
# Number of revisions to skip. A killed broker may have seen more than its directory says.
SKIPPED_REVISIONS: Final = 10_000


class Uncertain(ValueError):
    """The sources do not say what is right. The message says what the operator can do."""


class DirectoryFacts(msgspec.Struct, frozen=True):
    """The facts about the data directory of a broker.

    `revision` is the newest revision of the metadata that it has seen, `restored_at` that of the
    restoration before it. `clean_stop_epoch` is 0 if the last stop was not clean.
    """

    node_id: int
    cluster_id: str
    directory_id: str
    revision: int
    clean_stop_epoch: int
    folders: tuple[FolderFacts, ...]
    restored_at: int = 0


class Restoration(msgspec.Struct, frozen=True):
    """The metadata to write.

    `writes` are all lasting records without that of the cluster, in the order of the keys.
    `revision` is the newest revision of the lost metadata that they include; the records must get
    revisions above `floor`. `notes` are sentences for the operator.
    """

    cluster: ClusterRecord
    writes: tuple[Put, ...]
    revision: int
    floor: int
    notes: tuple[str, ...]


class Replica(msgspec.Struct, frozen=True):
    """The folder of a partition in the directory of a broker."""

    node_id: int
    facts: FolderFacts


class _Topic(msgspec.Struct):
    """A topic to write. `replicas` are those on disk, by partition."""

    id_text: str
    count: int
    settings: Mapping[str, str]
    replicas: dict[int, list[Replica]]


def last_revision(known: Known, directories: Collection[DirectoryFacts]) -> int:
    """Return the revision that shows the age of the metadata. A snapshot of etcd that is restored
    with a raised revision is only as new as its last record: no directory has seen a revision near
    its own."""
    revision = known.snapshot.revision
    seen = max((directory.revision for directory in directories), default=revision)
    if revision <= seen + SKIPPED_REVISIONS:
        return revision
    return max((entry.mod_revision for entry in known.snapshot.entries), default=0)


def restored_export(known: Known) -> Restoration:
    """Return the metadata of an export as it is. Raises Uncertain if a record is damaged."""
    old = _readable(known)
    assert old.cluster is not None
    writes = _others(old) | _registrations(known.snapshot)
    for entry in known.snapshot.entries:
        if entry.key.startswith((records.TOPICS, records.PARTITIONS, records.PRODUCER_IDS)):
            writes.setdefault(entry.key, entry.value)
    revision = known.snapshot.revision
    return Restoration(old.cluster, _puts(writes), revision, _floor(revision, known.snapshot), ())


def _readable(known: Known) -> KnownRecords:
    old = KnownRecords(known)
    if old.unreadable:
        raise Uncertain(f"{known.source} is damaged: record {old.unreadable[0]} cannot be read")
    if old.cluster is None:
        raise Uncertain(f"{known.source} has no record of a cluster")
    return old


def _others(old: KnownRecords) -> dict[str, bytes]:
    """Return the records that the data directories say nothing about."""
    return {
        key: entry.value
        for key, entry in old.others.items()
        if key != records.RESTORED and not key.startswith(records.REGISTRATIONS)
    }


def _registrations(snapshot: Snapshot) -> dict[str, bytes]:
    """Return the registrations. Each gets its broker epoch as a value, because it gets another
    revision: with this epoch, a broker proves that it still has its records."""
    found = {}
    for entry in snapshot.entries:
        if entry.key.startswith(records.REGISTRATIONS):
            record = records.decode(RegistrationRecord, entry.value)
            epoch = record.broker_epoch or entry.mod_revision
            found[entry.key] = records.encode(msgspec.structs.replace(record, broker_epoch=epoch))
    return found


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
    internal topics by name, for topics that are in no metadata.
    """

    def __init__(
        self,
        directories: Sequence[DirectoryFacts],
        known: Known | None,
        *,
        brokers: Collection[int],
        without: Collection[int],
        features: Mapping[str, int],
        internal_settings: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._directories = {directory.node_id: directory for directory in directories}
        self._all = tuple(directories)
        self._known = known
        self._old = KnownRecords(known) if known is None else _readable(known)
        self._named = frozenset(brokers)
        self._without = frozenset(without)
        self._features = features
        self._internal_settings = internal_settings
        self._notes: list[str] = []
        self._topics: dict[str, _Topic] = {}
        self._is_last = False
        self._revision = 0
        self._floor = 0

    def plan(self) -> Restoration:
        """Return the plan. Raises Uncertain."""
        cluster_id = self._check_directories()
        self._check_complete()
        snapshot = None if self._known is None else self._known.snapshot
        seen = [directory.revision for directory in self._all]
        self._revision = max([0 if snapshot is None else snapshot.revision, *seen])
        epochs = [directory.clean_stop_epoch for directory in self._all]
        self._floor = _floor(max([self._revision, *epochs]), snapshot)
        for name, replicas in sorted(self._replicas_by_topic().items()):
            self._add_topic(name, replicas)
        for name, record in self._old.topics.items():
            if name not in self._topics:
                self._topics[name] = _Topic(record.id, record.partitions, record.settings, {})
        self._judge_age()
        values = _others(self._old)
        if records.FEATURES not in values:
            values[records.FEATURES] = records.encode(FeaturesRecord(dict(self._features)))
        values[records.PRODUCER_IDS] = records.encode(ProducerIdsRecord(self._next_producer_id()))
        values |= self._registration_values()
        for name, topic in self._topics.items():
            values |= self._topic_values(name, topic)
        self._note_losses()
        cluster = self._old.cluster or ClusterRecord(
            cluster_id, absolute_hash=uses_absolute_hash(list(self._folders()))
        )
        return Restoration(cluster, _puts(values), self._revision, self._floor, tuple(self._notes))

    # --- the directories

    def _check_directories(self) -> str:
        """Return the id of the cluster. Raises Uncertain if the directories do not fit together."""
        if not self._all:
            raise Uncertain("no data directory is given")
        if len(self._directories) < len(self._all):
            ids = [directory.node_id for directory in self._all]
            twice = next(node_id for node_id in ids if ids.count(node_id) > 1)
            raise Uncertain(f"two directories are of broker {twice}: give only the newest one")
        clusters = {directory.cluster_id for directory in self._all}
        if self._old.cluster is not None:
            clusters.add(self._old.cluster.id)
        if len(clusters) > 1:
            raise Uncertain(f"the sources are of different clusters: {', '.join(sorted(clusters))}")
        (cluster_id,) = clusters
        return cluster_id

    def _check_complete(self) -> None:
        """Raise Uncertain unless the directories of all brokers are given."""
        given = self._directories.keys()
        if both := sorted(self._without & given):
            raise Uncertain(f"the directory of broker {both[0]} is given, and left out")
        if self._known is None and not self._named:
            raise Uncertain(
                "no metadata is left that names the brokers of the cluster: name all of them with "
                "--brokers, so that no directory is forgotten"
            )
        registered = {
            int(key.removeprefix(records.REGISTRATIONS))
            for key in self._old.others
            if key.startswith(records.REGISTRATIONS)
        }
        replicas = {b for record in self._old.partitions.values() for b in record.replicas}
        expected = self._named | registered | replicas
        if missing := sorted(expected - given - self._without):
            raise Uncertain(
                f"the data directory of broker {missing[0]} is missing: give it, or "
                f"--without {missing[0]} if it is lost"
            )
        if not self._named and (later := self._signs_of_later_revisions()):
            assert self._known is not None
            raise Uncertain(
                f"{self._known.source} may not name all brokers, because {later[0]}: "
                "name all of them with --brokers, so that no directory is forgotten"
            )

    # --- the revisions

    def _known_revision(self, directory: DirectoryFacts) -> int:
        """Return the revision of the metadata, as the directory counts. A restored metadata is at
        the revision of its source for a directory that has not seen the restoration."""
        assert self._known is not None
        entry = self._old.others.get(records.RESTORED)
        if entry is not None and entry.mod_revision > directory.restored_at:
            return records.decode(RestoredRecord, entry.value).revision
        return self._known.snapshot.revision

    def _is_raised(self) -> bool:
        """Return True if the revision is so far above those of all directories that it does not
        show the age of the metadata: a restored snapshot can have any revision."""
        return self._known is not None and all(
            self._known_revision(directory) > directory.revision + SKIPPED_REVISIONS
            for directory in self._all
        )

    def _signs_of_later_revisions(self) -> list[str]:
        if self._known is None:
            return []
        signs = [
            f"broker {node_id} has seen revision {directory.revision}"
            for node_id, directory in sorted(self._directories.items())
            if directory.revision > self._known_revision(directory)
        ]
        if self._is_raised():
            revision = self._known.snapshot.revision
            signs.append(f"no broker has seen a revision near {revision}")
        return signs

    def _folders(self) -> Iterable[FolderFacts]:
        return (facts for directory in self._all for facts in directory.folders)

    # --- the topics

    def _replicas_by_topic(self) -> dict[str, list[Replica]]:
        found: dict[str, list[Replica]] = {}
        for node_id, directory in sorted(self._directories.items()):
            for facts in directory.folders:
                if facts.is_stray:
                    self._note_stray(node_id, facts)
                elif facts.topic_id not in self._old.deletions:
                    found.setdefault(facts.topic, []).append(Replica(node_id, facts))
                    if facts.is_damaged:
                        self._notes.append(
                            f"broker {node_id}: {facts.folder} is damaged at offset "
                            f"{facts.whole_end}, with batches up to {facts.log_end}"
                        )
        return found

    def _note_stray(self, node_id: int, facts: FolderFacts) -> None:
        note = f"broker {node_id}: {facts.folder} stays as it is"
        known = facts.topic_id in self._old.deletions or facts.topic_id in self._known_ids()
        if facts.log_bytes and not known:
            note += (
                f", and its {facts.log_bytes} bytes of records are lost for the cluster: its topic "
                "is in no metadata. If a start with older metadata has put it aside, rename it to "
                f"{facts.topic}-{facts.partition} before the recovery"
            )
        self._notes.append(note)

    def _known_ids(self) -> set[bytes]:
        return {uuid_from_string(record.id) for record in self._old.topics.values()}

    def _add_topic(self, name: str, replicas: list[Replica]) -> None:
        known = self._old.topics.get(name)
        topic_id = self._topic_id(name, replicas)
        id_text = uuid_to_string(topic_id)
        by_partition: dict[int, list[Replica]] = {}
        for replica in replicas:
            if replica.facts.topic_id in (topic_id, None):
                by_partition.setdefault(replica.facts.partition, []).append(replica)
        count = max(by_partition, default=-1) + 1
        if known is None:
            settings = self._internal_settings.get(name, {}) if is_internal(name) else None
            if settings is None:
                settings = KEEP_EVERYTHING
                self._notes.append(
                    f"topic {name}: its settings are lost, so its records are never deleted "
                    "(retention.ms=-1, retention.bytes=-1) until other values are set. If it was "
                    "deleted, delete it again"
                )
            self._topics[name] = _Topic(id_text, count, settings, by_partition)
            return
        if known.id == id_text:
            count = max(count, known.partitions)
        else:
            self._notes.append(f"topic {name} gets the id of its folders, {id_text}")
        self._topics[name] = _Topic(id_text, count, known.settings, by_partition)

    def _topic_id(self, name: str, replicas: list[Replica]) -> bytes:
        """Return the id of a topic. Raises Uncertain if its folders have several."""
        by_id: dict[bytes, list[Replica]] = {}
        for replica in replicas:
            if replica.facts.topic_id is not None:
                by_id.setdefault(replica.facts.topic_id, []).append(replica)
        with_records = [
            topic_id
            for topic_id, group in by_id.items()
            if any(replica.facts.log_bytes for replica in group)
        ]
        if len(with_records) > 1:
            first, second = (by_id[topic_id][0] for topic_id in sorted(with_records)[:2])
            raise Uncertain(
                f"{first.facts.folder} of broker {first.node_id} and {second.facts.folder} of "
                f"broker {second.node_id} are of different topics of the name {name}: one of them "
                "was deleted. Move the folders of that one out of the data directories"
            )
        known = self._old.topics.get(name)
        if with_records:
            known_id = None if known is None else uuid_from_string(known.id)
            if known_id in by_id and known_id != with_records[0]:
                old = by_id[with_records[0]][0]
                raise Uncertain(
                    f"{old.facts.folder} of broker {old.node_id} has records of another topic of "
                    f"the name {name} than the metadata, and the metadata's topic has folders "
                    "without records. Move the folders of the deleted topic out of the data "
                    "directories"
                )
            return with_records[0]
        if known is not None and (not by_id or uuid_from_string(known.id) in by_id):
            return uuid_from_string(known.id)
        if len(by_id) == 1:
            return next(iter(by_id))
        folder = replicas[0]
        raise Uncertain(
            f"{folder.facts.folder} of broker {folder.node_id}: the id of topic {name} is "
            "not certain. Move the folders without records out of the data directories"
        )

    # --- the age of the metadata

    def _judge_age(self) -> None:
        """Find out if the metadata is the last there was: then it stays as it is."""
        if self._known is None:
            self._notes.append("no metadata is left: it is rebuilt from the directories")
            return
        newer = self._newer()
        self._is_last = not newer
        if newer:
            more = f" and {len(newer) - 3} more" if len(newer) > 3 else ""
            self._notes.append(
                f"{self._known.source} may not have the last changes: {', '.join(newer[:3])}{more}"
            )

    def _newer(self) -> list[str]:
        """Return the signs that the metadata is not the last there was."""
        assert self._known is not None
        newer = [f"broker {node_id} was lost" for node_id in sorted(self._without)]
        if not self._known.is_last:
            newer.append("a recovery was interrupted")
        for node_id, directory in sorted(self._directories.items()):
            if not directory.clean_stop_epoch:
                newer.append(f"broker {node_id} did not stop cleanly")
        newer += self._signs_of_later_revisions()
        if self._newest_id >= self._old.next_producer_id:
            newer.append(f"producer id {self._newest_id}")
        for name, topic in self._topics.items():
            for number, replicas in topic.replicas.items():
                before = self._old.partitions.get((topic.id_text, number))
                if before is None:
                    newer.append(f"partition {name}-{number}")
                elif before.leader_epoch < max(r.facts.leader_epoch for r in replicas):
                    newer.append(f"a later leader of {name}-{number}")
        return newer

    @property
    def _newest_id(self) -> int:
        return max((facts.producer_id for facts in self._folders()), default=NONE)

    def _next_producer_id(self) -> int:
        known = self._old.next_producer_id
        if self._is_last:
            return known
        seen = -(-(self._newest_id + 1) // BLOCK_SIZE) * BLOCK_SIZE
        following = max(known, seen) + SKIPPED_IDS
        self._notes.append(f"the next producer id is {following}")
        return following

    # --- the records

    def _registration_values(self) -> dict[str, bytes]:
        """Return the registrations. If the metadata is not the last, each broker with a directory
        is registered as if it had been at the revision `floor`, with every record it has now."""
        known = {} if self._known is None else _registrations(self._known.snapshot)
        if self._is_last:
            return known
        for node_id, directory in self._directories.items():
            key = records.registration_key(node_id)
            value = known.get(key)
            before = (
                RegistrationRecord("")
                if value is None
                else records.decode(RegistrationRecord, value)
            )
            known[key] = records.encode(
                RegistrationRecord(
                    directory.directory_id,
                    self._floor,
                    before.endpoints,
                    before.rack,
                    # The recovery has read the records, and made them durable.
                    flush_on_ack=True,
                )
            )
        return known

    def _topic_values(self, name: str, topic: _Topic) -> dict[str, bytes]:
        values: dict[str, Any] = {
            records.topic_key(name): TopicRecord(topic.id_text, topic.count, dict(topic.settings))
        }
        newest_epoch = self._newest_epoch()
        empty = []
        for number in range(topic.count):
            before = self._old.partitions.get((topic.id_text, number))
            replicas = topic.replicas.get(number, [])
            if not replicas:
                empty.append(number)
            key = records.partition_key(topic.id_text, number)
            if self._is_last and before is not None:
                values[key] = before
            else:
                values[key] = self._partition(before, replicas, newest_epoch)
        if empty:
            self._notes.append(
                f"{name}: no directory has partition {', '.join(map(str, empty))}: it will be empty"
            )
        if not (self._is_last or is_internal(name)):
            self._suspect_deletion(name, topic)
        return {key: records.encode(value) for key, value in values.items()}

    def _suspect_deletion(self, name: str, topic: _Topic) -> None:
        partitions = (
            (before, {replica.node_id for replica in topic.replicas.get(number, [])})
            for number in range(topic.count)
            if (before := self._old.partitions.get((topic.id_text, number))) is not None
        )
        if without := brokers_without_folders(partitions, self._directories):
            plural = "" if len(without) == 1 else "s"
            self._notes.append(
                f"topic {name} comes back, although it may have been deleted: its folders are "
                f"missing on broker{plural} {', '.join(map(str, without))}. If it was deleted, "
                "delete it again"
            )

    def _newest_epoch(self) -> int:
        recorded = [record.leader_epoch for record in self._old.partitions.values()]
        return max([0, *recorded, *(facts.leader_epoch for facts in self._folders())])

    def _partition(
        self, before: PartitionRecord | None, replicas: list[Replica], newest_epoch: int
    ) -> PartitionRecord:
        """Return the record of a partition. The log with the latest leader epoch, and among these
        the longest one, has every committed record, unless only a lost directory has it: each clean
        leader has all records that were committed before its epoch, and all logs with this epoch
        are beginnings of one another. Of a damaged log, only the part before the damage counts. The
        chosen log leads, and the others fetch what they lack."""
        known = () if before is None else before.replicas
        on_disk = sorted(replica.node_id for replica in replicas)
        assigned = (*known, *(node_id for node_id in on_disk if node_id not in known))
        if not any(node_id in self._directories for node_id in assigned):
            # All replicas are lost, or no source names one: a broker gets the empty partition.
            assigned = (*assigned, min(self._directories))
        leader = max(
            replicas,
            key=lambda r: (r.facts.whole_epoch, r.facts.whole_end, -assigned.index(r.node_id)),
            default=None,
        )
        given = (node_id for node_id in assigned if node_id in self._directories)
        leader_id = leader.node_id if leader else next(given)
        return PartitionRecord(
            assigned,
            (leader_id,),
            leader_id,
            newest_epoch + SKIPPED_EPOCHS,
            isr_epochs=(self._floor,),
        )

    def _note_losses(self) -> None:
        for node_id in sorted(self._without):
            self._notes.append(f"records that only broker {node_id} has are lost, if there are any")
