"""The data directories of several brokers of one machine (`serve --brokers`): that of the first
broker, and the directories of the other brokers inside it.

A path is relative to the directory of the first broker, with the name "".
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oncelog_server.cluster.store import Snapshot
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import Uncertain
from oncelog_server.salvage.planning.lost_metadata import SKIPPED_REVISIONS
from oncelog_server.storage.layout import OTHER_BROKERS


class OtherBroker(msgspec.Struct, frozen=True):
    """The directory of the broker `number`, which is 2 for the second one.

    `meta` is None if meta.properties is missing or damaged. `revision` is the newest revision of
    the metadata that the broker has seen, or 0. `clean_stop_epoch` is 0 if the last stop was not
    clean. The folders in `folders` have their paths.
    """

    number: int
    meta: MetaProperties | None
    revision: int
    clean_stop_epoch: int
    folders: tuple[FolderFacts, ...]

    @property
    def directory(self) -> str:
        return f"{OTHER_BROKERS}/{self.number}"


class Machine:
    """The brokers of a machine, perhaps only the first one.

    `meta` is the meta.properties of the first broker, None if it is lost. Raises Uncertain if the
    directories are of different clusters, or if two are of the same broker.
    """

    def __init__(self, meta: MetaProperties | None, others: Sequence[OtherBroker]) -> None:
        self.others = others
        metas = {"": meta, **{other.directory: other.meta for other in others}}
        self._metas = {path: found for path, found in metas.items() if found is not None}
        clusters = {found.cluster_id: path for path, found in self._metas.items()}
        if len(clusters) > 1:
            shown = ", ".join(
                f"{path or 'the data directory'} belongs to cluster {cluster_id}"
                for cluster_id, path in sorted(clusters.items(), key=lambda item: item[1])
            )
            raise Uncertain(f"the brokers are of different clusters: {shown}")
        self.cluster_id = next(iter(clusters), None)

    @property
    def first_id(self) -> int | None:
        """The node id of the first broker, None if no meta.properties is left."""
        if "" in self._metas:
            return self._metas[""].node_id
        for other in self.others:
            if other.meta is not None:
                return other.meta.node_id - other.number + 1
        return None

    def node_ids(self, first_id: int) -> dict[str, int]:
        """Return the node id of each directory. The ids follow each other if meta.properties is
        lost. Raises Uncertain if two directories are of the same broker."""
        ids = {"": first_id}
        for other in self.others:
            number = other.number - 1
            ids[other.directory] = first_id + number if other.meta is None else other.meta.node_id
        paths: dict[int, str] = {}
        for path, node_id in ids.items():
            if node_id in paths:
                first = paths[node_id] or "the data directory"
                raise Uncertain(f"{first} and {path} are both of broker {node_id}")
            paths[node_id] = path
        return ids

    def floor(self, snapshot: Snapshot | None, *, is_last: bool) -> int:
        """Return a revision with no later one that a broker has seen. Revisions are the epochs of
        brokers. So if newer metadata is lost (`is_last` is False), some are skipped: a killed
        broker may have seen more than its directory says."""
        seen = [0 if snapshot is None else snapshot.revision]
        seen += [] if snapshot is None else [entry.mod_revision for entry in snapshot.entries]
        for other in self.others:
            seen += [other.revision, other.clean_stop_epoch]
        return max(seen) + (0 if is_last else SKIPPED_REVISIONS)

    def signs_of_later_revisions(self, snapshot: Snapshot | None) -> list[str]:
        """Return the signs that a broker has seen later metadata than `snapshot`."""
        known = 0 if snapshot is None else snapshot.revision
        return [
            f"{other.directory} has seen revision {other.revision}"
            for other in self.others
            if other.revision > known
        ]


def directory_of(path: str) -> str:
    """Return the directory of the broker that has a folder."""
    return path.rpartition("/")[0]


def beside(path: str, name: str) -> str:
    """Return the path of the folder `name` in the directory that has the folder `path`."""
    directory = directory_of(path)
    return f"{directory}/{name}" if directory else name
