"""The facts that the segments of a log show. Every batch is read, also the batches after a damaged
one."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.internal.transaction_log import (
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_protocol.records.batch import read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.inspection.walk import Walk, WalkedBatch
from oncelog_server.storage.files import File

_LARGEST_BATCH_BYTES: Final = 64 << 20
# No epoch, id or offset.
NONE: Final = -1


class LogSurvey:
    """The facts about the log of a partition of `topic`, from the segments that were added.

    `leader_epoch` and `producer_id` are the highest in batches of records. `log_end` is the offset
    after the last batch, or the first offset of a log without a batch. `whole_end` and
    `whole_epoch` are the same for the part before the first damage. `has_gaps`: offsets are
    missing, as after a compaction.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.segments = 0
        self.log_bytes = 0
        self.log_end = 0
        self.whole_end = 0
        self.leader_epoch = NONE
        self.whole_epoch = NONE
        self.producer_id = NONE
        self.has_gaps = False
        self._is_whole = True
        # The offset that the next batch should have, NONE at the first batch and after damage.
        self._next_offset = NONE

    def add(self, file: File, base_offset: int) -> None:
        """Add a segment. The caller adds all segments in the order of their offsets. Raises
        StorageError."""
        self.segments += 1
        self.log_bytes += file.size
        self._move_end(base_offset)
        walk = Walk(file, base_offset)
        for found in walk:
            if isinstance(found, WalkedBatch):
                self._add_batch(walk, found)
            else:
                self._is_whole = False
                self._next_offset = NONE  # gaps after damage are no sign of compaction

    def _move_end(self, offset: int) -> None:
        self.log_end = max(self.log_end, offset)
        if self._is_whole:
            self.whole_end = self.log_end

    def _add_batch(self, walk: Walk, batch: WalkedBatch) -> None:
        header = batch.header
        epoch = header.partition_leader_epoch
        is_after_gap = header.base_offset > self._next_offset > NONE
        lacks_records = header.records_count <= header.last_offset_delta
        self.has_gaps = self.has_gaps or is_after_gap or lacks_records
        self._next_offset = header.next_offset
        self._move_end(header.next_offset)
        self.leader_epoch = max(self.leader_epoch, epoch)
        if self._is_whole:
            self.whole_epoch = max(self.whole_epoch, epoch)
        self.producer_id = max(self.producer_id, self._id_in_batch(walk, batch))

    def _id_in_batch(self, walk: Walk, batch: WalkedBatch) -> int:
        header = batch.header
        if header.is_control:
            return NONE
        if self._topic != TRANSACTION_STATE:
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
