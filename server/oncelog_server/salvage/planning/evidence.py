"""The facts that a partition's folder shows: topic, topic id, newest leader epoch and producer id.

Every batch is read, also the batches after a damaged one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    decode_offsets,
    decode_partition_metadata,
)
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.producer_snapshot import decode as decode_snapshot
from oncelog_server.log.whole_files import read_whole
from oncelog_server.salvage.planning.coordinator_ids import COORDINATOR_TOPICS, coordinator_ids
from oncelog_server.salvage.planning.log_survey import NONE, LogSurvey
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import (
    CLEANED_SUFFIX,
    CLEANER_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    parse_partition_directory,
    parse_segment_file,
    parse_stray_directory,
)

# Maximum number of ids that are read from a coordinator's folder.
_IDS: Final = 64


class FolderFacts(msgspec.Struct, frozen=True):
    """The facts about a folder.

    `topic_id` is None if partition.metadata is missing or damaged. `leader_epoch` and `producer_id`
    are NONE if the folder shows none. `is_partition` is False for a folder that has the name of a
    partition, but neither a segment nor partition.metadata.
    """

    folder: str
    topic: str
    partition: int
    is_stray: bool
    topic_id: bytes | None
    log_bytes: int
    leader_epoch: int
    producer_id: int
    is_partition: bool = True
    # True if the log was compacted: the cleaner's checkpoint names the partition, or offsets are
    # missing in the log.
    is_compacted: bool = False
    # In a coordinator's folder: some of the transactional ids or groups.
    ids: tuple[str, ...] = ()
    # The offset after the last batch, or the first offset of a log without a batch.
    log_end: int = 0
    # The same for the part of the log before the first damage, and the newest leader epoch of that
    # part. A broker that starts cuts the log at the damage, and leaves this part. Batches after the
    # damage make `log_end` larger than `whole_end`.
    whole_end: int = 0
    whole_epoch: int = NONE

    @property
    def is_damaged(self) -> bool:
        return self.whole_end < self.log_end


def facts_of_all(files: Files, root: str, folders: Iterable[str]) -> Iterator[FolderFacts]:
    """Yield the facts about every partition folder of a data directory, strays included.

    Raises StorageError.
    """
    cleaned = _cleaned(files, root)
    for name in folders:
        partition, is_stray = parse_partition_directory(name), False
        if partition is None:
            partition, is_stray = parse_stray_directory(name), True
        if partition is not None:
            facts = _facts(
                files, f"{root}/{name}", name, partition.topic, partition.partition, is_stray
            )
            if (partition.topic, partition.partition) in cleaned and not is_stray:
                facts = msgspec.structs.replace(facts, is_compacted=True)
            if partition.topic in COORDINATOR_TOPICS:
                ids = coordinator_ids(files, f"{root}/{name}", partition.topic, _IDS)
                facts = msgspec.structs.replace(facts, ids=ids)
            if facts.is_partition:
                yield facts


def _cleaned(files: Files, root: str) -> Collection[tuple[str, int]]:
    """Return the partitions in the cleaner's checkpoint."""
    try:
        return decode_offsets(read_whole(files, f"{root}/{CLEANER_CHECKPOINT}") or b"")
    except MalformedCheckpoint:
        return ()


def _facts(
    files: Files, path: str, name: str, topic: str, partition: int, is_stray: bool
) -> FolderFacts:
    survey = LogSurvey(topic)
    producer_id, was_cleaned = NONE, False
    for file_name in sorted(files.list(path)):
        parsed = parse_segment_file(file_name)
        if parsed is None or parsed.state:
            was_cleaned = was_cleaned or file_name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))
        elif parsed.suffix == SNAPSHOT_SUFFIX:
            producer_id = max(producer_id, _id_in_snapshot(files, f"{path}/{file_name}"))
        elif parsed.suffix == LOG_SUFFIX:
            file = files.open(f"{path}/{file_name}")
            survey.add(file, parsed.offset)
            file.close()
    epochs = _epochs_in_checkpoint(files, path)
    whole_epochs = [epoch.epoch for epoch in epochs if epoch.start_offset <= survey.whole_end]
    data = read_whole(files, f"{path}/{PARTITION_METADATA}")
    return FolderFacts(
        name,
        topic,
        partition,
        is_stray,
        _topic_id(data),
        survey.log_bytes,
        max(epochs.latest_epoch, survey.leader_epoch),
        max(producer_id, survey.producer_id),
        is_partition=data is not None or survey.segments > 0,
        is_compacted=was_cleaned or survey.has_gaps,
        log_end=survey.log_end,
        whole_end=survey.whole_end,
        whole_epoch=max([survey.whole_epoch, *whole_epochs]),
    )


def _topic_id(data: bytes | None) -> bytes | None:
    try:
        return None if data is None else decode_partition_metadata(data)
    except MalformedCheckpoint:
        return None


def _epochs_in_checkpoint(files: Files, path: str) -> LeaderEpochs:
    try:
        data = read_whole(files, f"{path}/{LEADER_EPOCH_CHECKPOINT}")
        return LeaderEpochs.decode(data or b"")
    except MalformedCheckpoint:
        return LeaderEpochs()


def _id_in_snapshot(files: Files, path: str) -> int:
    """Return the highest id of a producer that wrote records. Producers that have only markers do
    not count."""
    try:
        entries = decode_snapshot(read_whole(files, path) or b"", 0)
    except ValueError:
        return NONE
    return max((entry.producer_id for entry in entries if entry.batches), default=NONE)
