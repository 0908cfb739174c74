"""The folders of each topic, chosen from all folders of a data directory.

A recovery takes the folders of one topic id for each name. Some get another name or topic id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from oncelog_protocol.types import uuid_from_string
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import KnownRecords
from oncelog_server.salvage.planning.machine import beside, directory_of
from oncelog_server.storage.layout import partition_directory, stray_directory


class ChosenFolders:
    """The choice. Nothing on disk is changed.

    `topics` has the topic id and the folders by partition of each name; a partition has at most one
    folder of each broker. `moves` are renames of folders (old path, new path), `relabelled` are
    folders that get another topic id, and `left` are folders that stay as they are, with the
    reason. `stray_directories` are the data directories with a stray that becomes a partition.
    `notes` are sentences for the operator. `new_uuid` returns random ids.
    """

    def __init__(
        self, folders: Sequence[FolderFacts], old: KnownRecords, new_uuid: Callable[[], bytes]
    ) -> None:
        self._folders = folders
        self._old = old
        self._new_uuid = new_uuid
        self.topics: dict[str, tuple[bytes, dict[int, list[FolderFacts]]]] = {}
        self.moves: list[tuple[str, str]] = []
        self.relabelled: dict[str, bytes] = {}
        self.left: list[tuple[str, str]] = []
        self.stray_directories: set[str] = set()
        self.notes: list[str] = []
        for name, found in self._by_topic().items():
            self._choose(name, found)

    def _by_topic(self) -> dict[str, list[FolderFacts]]:
        names = {uuid_from_string(record.id): name for name, record in self._old.topics.items()}
        names |= {topic_id: deletion.name for topic_id, deletion in self._old.deletions.items()}
        found: dict[str, list[FolderFacts]] = defaultdict(list)
        for facts in sorted(self._folders, key=lambda facts: (facts.is_stray, facts.folder)):
            name = facts.topic
            if facts.is_stray and facts.topic_id in names:
                name = names[facts.topic_id]  # the folder's name may have been cut
            if facts.topic_id in self._old.deletions:
                self.left.append((facts.folder, f"topic {name} was deleted"))
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
        taken: dict[int, list[FolderFacts]] = {}
        for facts in sorted(
            [*groups[chosen], *without], key=lambda facts: (facts.is_stray, -facts.log_bytes)
        ):
            self._take(name, chosen, facts, taken)
        for topic_id, others in groups.items():
            if topic_id != chosen:
                self._put_off(name, chosen, others, taken)
        self.topics[name] = chosen, taken
        for partition, found in taken.items():
            for facts in found:
                path = beside(facts.folder, partition_directory(name, partition))
                if facts.folder != path:
                    self.stray_directories.add(directory_of(path))
                    self.moves.append((facts.folder, path))
                    self.notes.append(f"{facts.folder} becomes {path} again")

    def _take(
        self, name: str, topic_id: bytes, facts: FolderFacts, taken: dict[int, list[FolderFacts]]
    ) -> None:
        present = taken.get(facts.partition, [])
        path = beside(facts.folder, partition_directory(name, facts.partition))
        if any(directory_of(other.folder) == directory_of(path) for other in present):
            self.left.append((facts.folder, f"{path} is there already"))
            return
        live = [other for other in present if not other.is_stray]
        if facts.is_stray and live:
            if not facts.log_bytes or any(other.log_end for other in live):
                self.left.append((facts.folder, f"{live[0].folder} is there already"))
                return
            # An earlier recovery has overlooked the stray, and another broker has begun an empty
            # log. The start puts the empty folder aside.
            taken[facts.partition] = [other for other in present if other.is_stray]
        taken.setdefault(facts.partition, []).append(facts)
        if facts.topic_id != topic_id:
            self.relabelled[path] = topic_id

    def _put_off(
        self,
        name: str,
        chosen: bytes,
        others: list[FolderFacts],
        taken: dict[int, list[FolderFacts]],
    ) -> None:
        """Decide about folders with another topic id.

        Stray folders stay as they are. Another folder is taken if it has records and its partition
        has no folder with the chosen id: its topic id must be damaged. The other folders are moved
        aside. `others` have the same topic id.
        """
        free = {facts.partition for facts in others}.difference(taken)
        for facts in others:
            if facts.is_stray:
                self.left.append((facts.folder, f"another topic has the name {name} now"))
            elif facts.log_bytes and facts.partition in free:
                taken.setdefault(facts.partition, []).append(facts)
                self.relabelled[facts.folder] = chosen
                self.notes.append(f"{facts.folder} gets the topic id of the other partitions")
            else:
                assert facts.topic_id is not None
                aside = stray_directory(name, facts.partition, self._new_uuid())
                path = beside(facts.folder, aside)
                self.moves.insert(0, (facts.folder, path))
                self.notes.append(f"{facts.folder} becomes {path}: it belongs to another topic")
