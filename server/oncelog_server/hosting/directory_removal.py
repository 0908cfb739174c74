"""Remove the directories of partitions that this broker no longer hosts.

A directory is renamed at once, to a name that no topic can have, so that a topic of the same name
can be created. The renamed directories are deleted together, later and off the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Final

import structlog

from oncelog_server.partition.partition import Partition
from oncelog_server.refused_work import RefusedWork
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import deleted_directory, partition_directory, stray_directory
from oncelog_server.strays import Folders, is_of_topic, put_strays_aside
from oncelog_server.topic_partition import TopicPartition

log = structlog.get_logger("oncelog.partition")

# The longest time between the rename of a deleted partition's directory and its deletion. It is
# Kafka's default of file.delete.delay.ms.
DELETED_WITHIN_MS: Final = 60_000


class DirectoryRemoval:
    """Renames and deletes directories. A rename that the disk refuses is retried.

    `new_uuid` returns a random id for the new name.
    """

    def __init__(
        self,
        files: Files,
        refused_work: RefusedWork,
        wall_ms: Callable[[], int],
        new_uuid: Callable[[], bytes],
    ) -> None:
        self._files = files
        self._refused_work = refused_work
        self._wall_ms = wall_ms
        self._new_uuid = new_uuid
        # Ids of deleted topics with a directory that could not be renamed.
        self._refused_topics: set[bytes] = set()
        # Directories with their new names, to be deleted.
        self._renamed: list[str] = []
        # The wall clock in ms when the first of `_renamed` was renamed.
        self._renamed_ms = 0

    @property
    def refused_topics(self) -> Set[bytes]:
        """The ids of topics with a directory that the disk refused to rename."""
        return self._refused_topics

    def put_strays_aside(self, folders: Folders) -> None:
        """Rename the strays (`strays.py`) at the start. They stay on disk. Raises StorageError."""
        for stray, aside in put_strays_aside(self._files, folders, self._new_uuid):
            log.warning("partition put aside", directory=stray.name, now=aside, reason=stray.reason)

    def remove(self, name: TopicPartition, topic_id: bytes, partition: Partition | None) -> None:
        """Rename the directory of a partition, open or not, if it is of this topic."""
        aside = deleted_directory(*name, self._new_uuid())
        try:
            if partition is not None:
                partition.rename_directory(aside)
            elif not self._rename(name, topic_id, aside):
                return
            if not self._renamed:
                self._renamed_ms = self._wall_ms()
            self._renamed.append(aside)
        except StorageError as error:
            self._refused_topics.add(topic_id)
            again = partial(self._try_again, name, topic_id, aside)
            self._refused_work.add(_removal(name), error, again, partition=str(name))

    def put_aside(self, name: TopicPartition, topic_id: bytes) -> None:
        """Rename the directory of a partition that has moved to other brokers, and could not be
        opened. It becomes a stray, because its records may be the last ones. A replica that comes
        back begins empty."""
        aside = stray_directory(*name, self._new_uuid())
        again = partial(self._put_aside, name, topic_id, aside)
        try:
            again()
        except StorageError as error:
            self._refused_work.add(_removal(name), error, again, partition=str(name))

    def complete(self, name: TopicPartition) -> None:
        """Rename the directory of an earlier partition of the same name, if it is still there.
        Raises StorageError if the disk refuses it again."""
        self._refused_work.complete(_removal(name))

    def delete_late(self) -> None:
        """Delete the renamed directories if they have waited for DELETED_WITHIN_MS. This limit is
        needed because `delete_renamed` is called only when no change is left, and clients may cause
        changes without a pause."""
        if self._renamed and not 0 <= self._wall_ms() - self._renamed_ms < DELETED_WITHIN_MS:
            self.delete_renamed()

    def delete_renamed(self) -> None:
        """Delete the renamed directories, off the loop.

        The deletion begins after the queued renames. The renames run on the loop, and a rename has
        to wait while the file system deletes in the same parent directory.
        """
        if self._renamed:
            renamed, self._renamed = self._renamed, []
            self._files.remove(renamed)

    def _rename(self, name: TopicPartition, topic_id: bytes, aside: str) -> bool:
        """Rename the directory. Return False if it does not exist or belongs to another topic."""
        directory = partition_directory(*name)
        if not self._files.exists(directory) or not is_of_topic(self._files, directory, topic_id):
            return False
        self._files.rename(directory, aside)
        return True

    def _put_aside(self, name: TopicPartition, topic_id: bytes, aside: str) -> None:
        if self._rename(name, topic_id, aside):
            log.warning(
                "partition put aside", directory=partition_directory(*name), now=aside,
                reason="the partition has moved to other brokers, and could not be opened",
            )  # fmt: skip

    def _try_again(self, name: TopicPartition, topic_id: bytes, aside: str) -> None:
        self._rename(name, topic_id, aside)
        self._files.remove([aside])


def _removal(name: TopicPartition) -> str:
    """Return the name of the refused work that removes the directory of this deleted partition."""
    return f"remove {name}"
