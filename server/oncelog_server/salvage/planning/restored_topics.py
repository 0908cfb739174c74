"""The topics that a recovery of a cluster brings back: those of the folders, and those of the
metadata that is left. The folders decide ids and numbers of partitions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncelog_protocol.types import uuid_from_string, uuid_to_string
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.salvage.planning.directories import Directories
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import KnownRecords, Uncertain
from oncelog_server.salvage.planning.lost_metadata import KEEP_EVERYTHING
from oncelog_server.salvage.planning.restored_partition import Replica


class RestoredTopic(msgspec.Struct, frozen=True):
    """A topic to write. `replicas` are those on disk, by partition."""

    id_text: str
    partitions: int
    settings: Mapping[str, str]
    replicas: Mapping[int, list[Replica]]


class RestoredTopics:
    """The topics by name. `notes` are sentences for the operator. Raises Uncertain if the folders
    of a topic have several ids.

    `internal_settings` are the settings of the internal topics by name, for topics that are in no
    metadata.
    """

    def __init__(
        self,
        directories: Directories,
        old: KnownRecords,
        internal_settings: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._old = old
        self._internal_settings = internal_settings
        self._known_ids = {uuid_from_string(record.id) for record in old.topics.values()}
        self.notes: list[str] = []
        on_disk = sorted(self._replicas_by_topic(directories).items())
        self.by_name = {name: self._restored(name, replicas) for name, replicas in on_disk}
        for name, record in old.topics.items():
            if name not in self.by_name:
                topic = RestoredTopic(record.id, record.partitions, record.settings, {})
                self.by_name[name] = topic

    def _replicas_by_topic(self, directories: Directories) -> dict[str, list[Replica]]:
        found: dict[str, list[Replica]] = {}
        for directory in directories:
            for facts in directory.folders:
                if facts.is_stray:
                    self._note_stray(directory.node_id, facts)
                elif facts.topic_id not in self._old.deletions:
                    found.setdefault(facts.topic, []).append(Replica(directory.node_id, facts))
                    if facts.is_damaged:
                        self.notes.append(
                            f"broker {directory.node_id}: {facts.folder} is damaged at offset "
                            f"{facts.whole_end}, with batches up to {facts.log_end}"
                        )
        return found

    def _note_stray(self, node_id: int, facts: FolderFacts) -> None:
        note = f"broker {node_id}: {facts.folder} stays as it is"
        known = facts.topic_id in self._old.deletions or facts.topic_id in self._known_ids
        if facts.log_bytes and not known:
            note += (
                f", and its {facts.log_bytes} bytes of records are lost for the cluster: its topic "
                "is in no metadata. If a start with older metadata has put it aside, rename it to "
                f"{facts.topic}-{facts.partition} before the recovery"
            )
        self.notes.append(note)

    def _restored(self, name: str, replicas: list[Replica]) -> RestoredTopic:
        """Return the topic with these folders."""
        known = self._old.topics.get(name)
        topic_id = self._topic_id(name, replicas)
        id_text = uuid_to_string(topic_id)
        by_partition: dict[int, list[Replica]] = {}
        for replica in replicas:
            if replica.facts.topic_id in (topic_id, None):
                by_partition.setdefault(replica.facts.partition, []).append(replica)
        count = max(by_partition, default=-1) + 1
        if known is None:
            return RestoredTopic(id_text, count, self._new_settings(name), by_partition)
        if known.id == id_text:
            count = max(count, known.partitions)
        else:
            self.notes.append(f"topic {name} gets the id of its folders, {id_text}")
        return RestoredTopic(id_text, count, known.settings, by_partition)

    def _new_settings(self, name: str) -> Mapping[str, str]:
        """Return the settings of a topic that is in no metadata."""
        if is_internal(name):
            return self._internal_settings.get(name, {})
        self.notes.append(
            f"topic {name}: its settings are lost, so its records are never deleted "
            "(retention.ms=-1, retention.bytes=-1) until other values are set. If it was "
            "deleted, delete it again"
        )
        return KEEP_EVERYTHING

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
