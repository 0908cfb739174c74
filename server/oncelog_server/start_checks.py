"""The checks of a start: identity, metadata and logs of the data directory must belong together.

They run before the logs are opened, so a start that they refuse changes no log.
"""

from __future__ import annotations

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.config import Settings
from oncelog_server.data_directory.ownership import SHOWN, NeedsRecovery
from oncelog_server.environment import Environment
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.database import DamagedStore
from oncelog_server.storage.layout import META_PROPERTIES, METADATA_FILE
from oncelog_server.strays import Folders, look_at_folders


class StartChecks:
    """The checks of one start. The data directory of `environment` is already locked."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self._settings = settings
        self._environment = environment
        self._directory = environment.directory

    async def open_metadata(self, *, is_new: bool) -> tuple[ClusterMetadata, int]:
        """Return the loaded metadata and the first producer id of the next block.

        A new directory gets a new cluster. Raises NeedsRecovery if the store is damaged, or if the
        store of an existing directory has no cluster.
        """
        try:
            store = await self._environment.open_store(self._settings)
            metadata = ClusterMetadata(store, self._settings, new_uuid=self._environment.new_uuid)
            await metadata.load(founds=is_new)
            return metadata, await metadata.next_producer_id()
        except DamagedStore as error:
            raise NeedsRecovery(self._directory.path, str(error)) from error
        except ValueError as error:
            found = f"{self._directory.path / METADATA_FILE} is damaged: {error}"
            raise NeedsRecovery(self._directory.path, found) from error

    def check_identity(
        self, meta: MetaProperties | None, image: ClusterImage, next_producer_id: int
    ) -> None:
        """Check meta.properties, and write it into a new directory.

        Raises ValueError if the directory belongs to another broker or cluster, NeedsRecovery if
        only meta.properties is missing.
        """
        path = self._directory.path
        node_id = self._settings.node_id
        if meta is None and (next_producer_id or image.topics):
            raise NeedsRecovery(path, f"{path} holds data of oncelog, but no {META_PROPERTIES}")
        if meta is None:
            directory_id = uuid_to_string(self._environment.new_uuid())
            fresh = MetaProperties(image.cluster_id, node_id, directory_id)
            self._directory.write_meta_properties(self._environment.files, fresh)
        elif (meta.cluster_id, meta.node_id) != (image.cluster_id, node_id):
            raise ValueError(
                f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node "
                f"{node_id} of {image.cluster_id}"
            )

    def folders(self, image: ClusterImage) -> Folders:
        """Return the partitions found on disk. Raises NeedsRecovery if some of them are not in the
        metadata."""
        folders = look_at_folders(self._environment.files, image, self._settings.node_id)
        if folders.unknown:
            raise self.older([f"it does not contain {name}" for name in folders.unknown])
        return folders

    def older(self, found: list[str]) -> NeedsRecovery:
        """Return the error for metadata that is older than the logs. `found` are the reasons."""
        shown = "; ".join(found[:SHOWN])
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        path = self._directory.path
        return NeedsRecovery(
            path, f"{path / METADATA_FILE} is older than the logs beside it: {shown}{more}"
        )
