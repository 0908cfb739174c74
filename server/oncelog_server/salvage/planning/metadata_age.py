"""The age of the metadata that is left, compared with what the data directories have seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from oncelog_server.cluster import records
from oncelog_server.cluster.records import RestoredRecord
from oncelog_server.salvage.planning.directories import Directories, SurveyedDirectory
from oncelog_server.salvage.planning.known import Known, KnownRecords
from oncelog_server.salvage.planning.lost_metadata import SKIPPED_REVISIONS, newest_producer_id
from oncelog_server.salvage.planning.restored_topics import RestoredTopic


def last_revision(known: Known, directories: Iterable[SurveyedDirectory]) -> int:
    """Return the revision that shows the age of the metadata. If a snapshot of etcd was restored
    with a raised revision, no directory has seen a revision near it. The metadata is then only as
    new as its last record."""
    revision = known.snapshot.revision
    seen = max((directory.revision for directory in directories), default=revision)
    if revision <= seen + SKIPPED_REVISIONS:
        return revision
    return max((entry.mod_revision for entry in known.snapshot.entries), default=0)


class MetadataAge:
    """Finds signs that newer metadata was lost. `old` are the records of the remaining metadata."""

    def __init__(self, known: Known, old: KnownRecords, directories: Directories) -> None:
        self._known = known
        self._old = old
        self._directories = directories

    def signs(self, without: Collection[int], topics: Mapping[str, RestoredTopic]) -> list[str]:
        """Return all signs. `without` are the brokers with a lost directory."""
        newer = [f"broker {node_id} was lost" for node_id in sorted(without)]
        if not self._known.is_last:
            newer.append("a recovery was interrupted")
        for directory in self._directories:
            if not directory.clean_stop_epoch:
                newer.append(f"broker {directory.node_id} did not stop cleanly")
        newer += self.signs_of_later_revisions()
        newest_id = newest_producer_id(self._directories.folders)
        if newest_id >= self._old.next_producer_id:
            newer.append(f"producer id {newest_id}")
        return newer + self._signs_of_folders(topics)

    def signs_of_later_revisions(self) -> list[str]:
        signs = [
            f"broker {directory.node_id} has seen revision {directory.revision}"
            for directory in self._directories
            if directory.revision > self._known_revision(directory)
        ]
        if self._is_raised():
            revision = self._known.snapshot.revision
            signs.append(f"no broker has seen a revision near {revision}")
        return signs

    def _known_revision(self, directory: SurveyedDirectory) -> int:
        """Return the revision of the metadata, to compare with that of the directory. If the
        directory has not seen the last restoration, this is the revision that was restored."""
        entry = self._old.others.get(records.RESTORED)
        if entry is not None and entry.mod_revision > directory.restored_at:
            return records.decode(RestoredRecord, entry.value).revision
        return self._known.snapshot.revision

    def _is_raised(self) -> bool:
        """Return True if the revision is so far above those of all directories that it does not
        show the age of the metadata: a restored snapshot can have any revision."""
        return all(
            self._known_revision(directory) > directory.revision + SKIPPED_REVISIONS
            for directory in self._directories
        )

    def _signs_of_folders(self, topics: Mapping[str, RestoredTopic]) -> list[str]:
        newer = []
        for name, topic in topics.items():
            for number, replicas in topic.replicas.items():
                before = self._old.partitions.get((topic.id_text, number))
                if before is None:
                    newer.append(f"partition {name}-{number}")
                elif before.leader_epoch < max(r.facts.leader_epoch for r in replicas):
                    newer.append(f"a later leader of {name}-{number}")
        return newer
