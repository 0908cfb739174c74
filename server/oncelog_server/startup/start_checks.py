"""The checks of a start: identity, metadata and logs of the data directory must belong together.

They run before the logs are opened, so a start that they refuse changes no log. A "store elsewhere"
is a metadata store outside of the data directory: etcd, or the store of the first broker.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.config import Settings
from oncelog_server.data_directory.lock import SeenRevision
from oncelog_server.data_directory.ownership import SHOWN, NeedsRecovery
from oncelog_server.environment import Environment
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.database import DamagedStore
from oncelog_server.metadata.founding import NoCluster
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.storage.layout import (
    META_PROPERTIES,
    METADATA_FILE,
)
from oncelog_server.strays import Folders, look_at_folders

RESTORE_HINT: Final = (
    "If etcd was lost or restored, stop all brokers and run `oncelog cluster recover` "
    "(docs/cluster.md)"
)


class _OlderStore(ValueError):
    """A store elsewhere is older than what the directory has seen. The message says how."""


class StartChecks:
    """The checks of one start. The data directory of `environment` is already locked."""

    def __init__(self, settings: Settings, environment: Environment, wait: StoreWait) -> None:
        self._settings = settings
        self._wait = wait
        self._environment = environment
        self._directory = environment.directory

    async def open_metadata(self, meta: MetaProperties | None) -> tuple[ClusterMetadata, int]:
        """Return the loaded metadata and the first producer id of the next block.

        `meta` are the properties of the directory. A new directory, without them, may get a new
        cluster. Raises NeedsRecovery if the store is damaged, or if the store of an existing
        directory has no cluster. Raises ValueError if a store elsewhere is not that of the
        directory. Raises the errors of `StoreWait.step`. The store is closed after an error.
        """
        seen = self._seen_revision()
        try:
            store = await self._environment.open_store(self._settings)
        except DamagedStore as error:
            raise NeedsRecovery(self._directory.path, str(error)) from error
        metadata = ClusterMetadata(
            store,
            self._settings,
            new_uuid=self._environment.new_uuid,
            boottime_ms=self._environment.clock.boottime_ms,
            exit_monitor=self._environment.exit_monitor(self._settings),
        )
        try:
            return metadata, await self._load(metadata, meta, seen)
        except BaseException:
            await metadata.stop()
            raise

    async def _load(
        self, metadata: ClusterMetadata, meta: MetaProperties | None, seen: SeenRevision
    ) -> int:
        """Load the metadata and check that it is that of the directory. Return the first producer
        id of the next block. Raises the errors of `open_metadata`."""
        try:
            load = partial(metadata.load, founds=meta is None)
            await self._wait.step("the metadata of the cluster", load)
            if meta is None or meta.cluster_id == metadata.image.cluster_id:
                self._check_age(metadata.image, seen)
            next_id = metadata.producer_ids.next_id
            return await self._wait.step("the next producer id", next_id)
        except (NoCluster, _OlderStore) as error:
            if not self._is_elsewhere:
                raise self._damaged(error) from error
            raise ValueError(self._another_store(meta, error)) from error
        except DamagedStore as error:
            raise NeedsRecovery(self._directory.path, str(error)) from error
        except ValueError as error:
            if self._is_elsewhere:
                raise
            raise self._damaged(error) from error

    @property
    def _is_elsewhere(self) -> bool:
        """Return True if the metadata is not in the data directory."""
        return self._settings.has_metadata_elsewhere

    def _seen_revision(self) -> SeenRevision:
        """Return the newest revision that the directory has seen in a store elsewhere, else 0.
        Raises ValueError if the settings name no such store."""
        seen = self._directory.cluster_revision()
        if seen is not None and not self._is_elsewhere:
            raise ValueError(
                f"{self._directory.path} belongs to a broker with its metadata elsewhere: set "
                "oncelog.etcd.endpoints, or oncelog.brokers for the first broker of this machine"
            )
        return seen or SeenRevision(0)

    def _check_age(self, image: ClusterImage, seen: SeenRevision) -> None:
        """Raise _OlderStore if the metadata lacks changes that the directory has seen."""
        path, revision = self._directory.path, image.revision
        if image.restored_at != seen.restored_at:
            # A restored store has new revisions. If the directory has not seen the restoration, its
            # revision is compared with that of the backup.
            revision = image.restored_revision if image.restored_at > seen.restored_at else 0
        if revision < seen.revision:
            restored = " that was restored" if image.restored_at else ""
            raise _OlderStore(
                f"the metadata in etcd is at revision {revision}{restored}, and {path} has seen "
                f"revision {seen.revision}"
            )

    def _damaged(self, error: ValueError) -> NeedsRecovery:
        found = f"{self._directory.path / METADATA_FILE} is damaged: {error}"
        return NeedsRecovery(self._directory.path, found)

    def _another_store(self, meta: MetaProperties | None, error: ValueError) -> str:
        """Return the reason to refuse a store elsewhere. With such a store, the start would put
        every partition aside."""
        found = str(error)
        if isinstance(error, NoCluster):
            cluster_id = "" if meta is None else meta.cluster_id
            found = (
                f"there is no metadata in etcd, and {self._directory.path} belongs to cluster "
                f"{cluster_id}"
            )
        return (
            f"{found}: nothing was changed. Check oncelog.etcd.endpoints and oncelog.etcd.prefix. "
            f"{RESTORE_HINT}"
        )

    def check_identity(
        self, meta: MetaProperties | None, image: ClusterImage, next_producer_id: int
    ) -> None:
        """Check meta.properties. A new directory has none.

        Raises ValueError if the directory belongs to another broker or cluster, NeedsRecovery if
        only meta.properties is missing.
        """
        path = self._directory.path
        node_id = self._settings.node_id
        if meta is not None:
            if (meta.cluster_id, meta.node_id) != (image.cluster_id, node_id):
                hint = ". Give this broker a data directory of its own (log.dirs or --data)"
                if meta.cluster_id == image.cluster_id:
                    hint += f", or set node.id={meta.node_id} if this is broker {meta.node_id}"
                elif self._is_elsewhere:
                    hint = ". Check oncelog.etcd.endpoints and oncelog.etcd.prefix"
                raise ValueError(
                    f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to "
                    f"node {node_id} of {image.cluster_id}{hint}"
                )
        elif (next_producer_id or image.topics) and not self._is_elsewhere:
            raise NeedsRecovery(path, f"{path} holds data of oncelog, but no {META_PROPERTIES}")

    def new_identity(self, image: ClusterImage) -> MetaProperties:
        """Write meta.properties into a new directory, and return it."""
        files = self._environment.files
        if self._is_elsewhere:
            seen = SeenRevision(image.revision, image.restored_at)
            self._directory.keep_cluster_revision(seen, files)
        directory_id = uuid_to_string(self._environment.new_uuid())
        fresh = MetaProperties(image.cluster_id, self._settings.node_id, directory_id)
        self._directory.write_meta_properties(files, fresh)
        return fresh

    def folders(self, image: ClusterImage) -> Folders:
        """Return the partitions found on disk. Raises NeedsRecovery if some of them are not in the
        metadata.

        A store elsewhere is known to be that of the directory, and not older than what the
        directory has seen. A partition that it does not know is a stray, because its topic was
        deleted while this broker was down. After a restoration of the store this is not certain,
        because a directory may have seen later revisions than it has recorded. Raises ValueError in
        this case.
        """
        folders = look_at_folders(self._environment.files, image, self._settings.node_id)
        if folders.unknown and self._is_elsewhere:
            if image.restored_at > self._seen_revision().restored_at:
                raise ValueError(self._unknown_after_restoration(folders.unknown))
            folders.take_unknown_as_strays()
        if folders.unknown:
            raise self.older([f"it does not contain {name}" for name in folders.unknown])
        return folders

    def _unknown_after_restoration(self, names: list[str]) -> str:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return (
            f"the metadata in etcd was restored, and does not contain {', '.join(names[:SHOWN])}"
            f"{more} of {self._directory.path}. If the topic was deleted, move the folder out of "
            f"the data directory. {RESTORE_HINT}"
        )

    def older(self, found: list[str]) -> NeedsRecovery | ValueError:
        """Return the error for metadata that is older than the logs. `found` are the reasons."""
        shown = "; ".join(found[:SHOWN])
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        path = self._directory.path
        if self._is_elsewhere:
            return ValueError(
                f"the metadata in etcd is older than the logs in {path}: {shown}{more}. "
                f"{RESTORE_HINT}"
            )
        return NeedsRecovery(
            path, f"{path / METADATA_FILE} is older than the logs beside it: {shown}{more}"
        )
