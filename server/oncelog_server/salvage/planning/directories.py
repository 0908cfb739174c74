"""The data directories of the brokers, as a recovery of their cluster reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from oncelog_server.cluster import records
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import KnownRecords, Uncertain


class SurveyedDirectory(msgspec.Struct, frozen=True):
    """The data directory of a broker, as a survey found it.

    `revision` is the newest revision of the metadata that the broker has seen. `restored_at` is the
    revision of the last restoration that the broker has seen, or 0. `clean_stop_epoch` is 0 if the
    last stop was not clean.
    """

    node_id: int
    cluster_id: str
    directory_id: str
    revision: int
    clean_stop_epoch: int
    folders: tuple[FolderFacts, ...]
    restored_at: int = 0


class Directories:
    """The directories of a cluster, in the order of the brokers' ids.

    Raises Uncertain if there is none, or if two are of the same broker.
    """

    def __init__(self, directories: Sequence[SurveyedDirectory]) -> None:
        if not directories:
            raise Uncertain("no data directory is given")
        self.by_broker = {
            directory.node_id: directory
            for directory in sorted(directories, key=lambda directory: directory.node_id)
        }
        if len(self.by_broker) < len(directories):
            ids = [directory.node_id for directory in directories]
            twice = next(node_id for node_id in ids if ids.count(node_id) > 1)
            raise Uncertain(f"two directories are of broker {twice}: give only the newest one")

    def __iter__(self) -> Iterator[SurveyedDirectory]:
        return iter(self.by_broker.values())

    @property
    def folders(self) -> list[FolderFacts]:
        return [facts for directory in self for facts in directory.folders]

    def cluster_id(self, old: KnownRecords) -> str:
        """Return the id of the cluster. Raises Uncertain if the sources are of several."""
        clusters = {directory.cluster_id for directory in self}
        if old.cluster is not None:
            clusters.add(old.cluster.id)
        if len(clusters) > 1:
            raise Uncertain(f"the sources are of different clusters: {', '.join(sorted(clusters))}")
        (cluster_id,) = clusters
        return cluster_id

    def check_complete(
        self, old: KnownRecords, named: Collection[int], without: Collection[int]
    ) -> None:
        """Raise Uncertain unless the directory of each broker is given, or its loss is known.

        `named` are the ids that the operator knows; the metadata may have further ids. `without`
        are the brokers with a lost directory.
        """
        given = self.by_broker.keys()
        if both := sorted(given & set(without)):
            raise Uncertain(f"the directory of broker {both[0]} is given, and left out")
        registered = {
            int(key.removeprefix(records.REGISTRATIONS))
            for key in old.others
            if key.startswith(records.REGISTRATIONS)
        }
        replicas = {b for record in old.partitions.values() for b in record.replicas}
        expected = registered.union(named, replicas)
        if missing := sorted(expected - given - set(without)):
            raise Uncertain(
                f"the data directory of broker {missing[0]} is missing: give it, or "
                f"--without {missing[0]} if it is lost"
            )
