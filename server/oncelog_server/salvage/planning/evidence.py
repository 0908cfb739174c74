"""The facts that a partition's folder shows: topic, topic id, newest leader epoch and producer id.

Every batch is read, also the batches after a damaged one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from oncelog_protocol.internal.transaction_log import (
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_protocol.records.batch import read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.inspection.walk import Walk, WalkedBatch
from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    decode_offsets,
    decode_partition_metadata,
)
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.producer_snapshot import decode as decode_snapshot
from oncelog_server.log.whole_files import read_whole
from oncelog_server.salvage.planning.coordinator_ids import COORDINATOR_TOPICS, coordinator_ids
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
_LARGEST_BATCH_BYTES: Final = 64 << 20
NONE: Final = -1


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
    names = sorted(files.list(path))
    epochs = _epochs_in_checkpoint(files, path)
    epoch, producer_id, log_bytes = epochs.latest_epoch, NONE, 0
    whole_end, whole_epoch, is_whole = 0, NONE, True
    logs, log_end, next_offset, has_gaps = 0, 0, NONE, False
    for file_name in names:
        parsed = parse_segment_file(file_name)
        if parsed is None or parsed.state:
            has_gaps = has_gaps or file_name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))
            continue
        if parsed.suffix == SNAPSHOT_SUFFIX:
            producer_id = max(producer_id, _id_in_snapshot(files, f"{path}/{file_name}"))
        elif parsed.suffix == LOG_SUFFIX:
            logs += 1
            file = files.open(f"{path}/{file_name}")
            log_bytes += file.size
            log_end = max(log_end, parsed.offset)
            whole_end = log_end if is_whole else whole_end
            walk = Walk(file, parsed.offset)
            for batch in walk:
                if isinstance(batch, WalkedBatch):
                    header = batch.header
                    has_gaps = has_gaps or header.base_offset > next_offset > NONE
                    has_gaps = has_gaps or header.records_count <= header.last_offset_delta
                    next_offset = header.next_offset
                    log_end = max(log_end, next_offset)
                    epoch = max(epoch, header.partition_leader_epoch)
                    producer_id = max(producer_id, _id_in_batch(walk, batch, topic))
                    if is_whole:
                        whole_end = log_end
                        whole_epoch = max(whole_epoch, header.partition_leader_epoch)
                else:
                    is_whole = False
                    next_offset = NONE  # gaps after damage are no sign of compaction
            file.close()
    data = read_whole(files, f"{path}/{PARTITION_METADATA}")
    return FolderFacts(
        name,
        topic,
        partition,
        is_stray,
        _topic_id(data),
        log_bytes,
        epoch,
        producer_id,
        data is not None or logs > 0,
        has_gaps,
        log_end=log_end,
        whole_end=whole_end,
        whole_epoch=max([whole_epoch, *(e.epoch for e in epochs if e.start_offset <= whole_end)]),
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


def _id_in_batch(walk: Walk, batch: WalkedBatch, topic: str) -> int:
    header = batch.header
    if header.is_control:
        return NONE
    if topic != TRANSACTION_STATE:
        return header.producer_id
    found = NONE
    try:
        for record in read_records(walk.batch_bytes(batch), max_bytes=_LARGEST_BATCH_BYTES):
            if record.key is not None and record.value is not None:
                found = max(found, _id_in_state(record.key, record.value))
    except (CorruptRecords, ValueError):
        pass  # the batch's ids are unknown; `oncelog logs verify` reports the damaged batch
    return found


def _id_in_state(key: bytes, value: bytes) -> int:
    try:
        decode_transaction_log_key(key)
    except UnknownRecordVersion:
        return NONE
    state = decode_transaction_log_value(value)
    return max(state.producer_id, state.previous_producer_id, state.next_producer_id)
