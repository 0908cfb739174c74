"""Reads `__cluster_metadata-0`: the newest snapshot (`.checkpoint`, KIP-630), then the batches of
the log that follow it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.cluster_metadata import decode_metadata_record
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_protocol.records.batch import read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.inspection.walk import Gap, Walk, WalkedBatch
from oncelog_server.migration.planning.kafka_cluster import KafkaCluster, MetadataConflict
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import LOG_SUFFIX, parse_segment_file

# The only partition of the metadata topic.
METADATA_LOG: Final = "__cluster_metadata-0"
_LARGEST_BATCH_BYTES: Final = 64 << 20
# The name of a snapshot: the offset after its last record, and the epoch of that record.
_SNAPSHOT: Final = re.compile(r"(?P<end>\d{20})-(?P<epoch>\d{10})\.checkpoint")


class UnreadableMetadata(Exception):
    """The metadata log has no records, is damaged or has unknown records. The message names the
    file and the offset."""


def read_metadata_log(files: Files, directory: str) -> tuple[KafkaCluster, list[str]]:
    """Return the metadata in the directory of a metadata log, and notes for the operator.

    Raises UnreadableMetadata and StorageError.
    """
    return _MetadataLog(files, directory).read()


class _MetadataLog:
    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._names = files.list(directory)
        self._cluster = KafkaCluster()
        self._notes: list[str] = []
        self._next_offset = 0

    def read(self) -> tuple[KafkaCluster, list[str]]:
        segments = sorted(
            file.offset
            for name in self._names
            if (file := parse_segment_file(name)) is not None
            and file.suffix == LOG_SUFFIX
            and not file.state
        )
        snapshot = self._newest_snapshot()
        if snapshot is not None:
            self._replay_file(snapshot, 0, is_last=False)
            self._next_offset = int(snapshot.partition("-")[0])
        after = [base for base in segments if base > self._next_offset]
        before = [base for base in segments if base <= self._next_offset]
        for base in [*before[-1:], *after]:
            if base > self._next_offset:
                raise UnreadableMetadata(
                    f"{self._directory}: the records {self._next_offset} to {base - 1} are missing"
                )
            name = f"{base:020d}{LOG_SUFFIX}"
            self._next_offset = self._replay_file(name, base, is_last=base == segments[-1])
        if self._next_offset == 0:
            raise UnreadableMetadata(
                f"{self._directory} has no records: Apache Kafka has not started on this directory"
            )
        return self._cluster, self._notes

    def _newest_snapshot(self) -> str | None:
        # The offset and the epoch have a fixed number of digits, so the names sort by both.
        return max(filter(_SNAPSHOT.fullmatch, self._names), default=None)

    def _replay_file(self, name: str, base: int, *, is_last: bool) -> int:
        """Replay the records of a file from the next offset on. Return the offset after them."""
        path = f"{self._directory}/{name}"
        file = self._files.open(path)
        end = self._next_offset
        try:
            walk = Walk(file, base)
            for batch in self._batches(walk, path, is_last=is_last):
                if not batch.header.is_control and batch.header.next_offset > self._next_offset:
                    self._replay_batch(walk.batch_bytes(batch), path)
                end = max(end, batch.header.next_offset)
        finally:
            file.close()
        return end

    def _batches(self, walk: Walk, path: str, *, is_last: bool) -> Iterator[WalkedBatch]:
        for found in walk:
            if isinstance(found, Gap):
                if found.next_offset is not None or not is_last:
                    raise UnreadableMetadata(
                        f"{path} is damaged at byte {found.position}: {found.reason}"
                    )
                # Kafka removes an incomplete batch at the end when it starts after a crash.
                self._notes.append(f"{path} ends with an incomplete batch, which is left out")
                return
            yield found

    def _replay_batch(self, batch: bytes, path: str) -> None:
        offset = -1
        try:
            for record in read_records(batch, max_bytes=_LARGEST_BATCH_BYTES):
                offset = record.offset
                if offset < self._next_offset:
                    continue
                if record.value is None:
                    raise ProtocolError("a metadata record without a value")
                self._cluster.replay(*decode_metadata_record(record.value))
        except (CorruptRecords, MetadataConflict, ProtocolError, UnknownRecordVersion) as error:
            raise UnreadableMetadata(f"{path}, offset {offset}: {error}") from error
