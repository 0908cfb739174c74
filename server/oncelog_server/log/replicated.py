"""Checks the batches that a leader sends to a follower. The batches must be whole and undamaged,
and must continue the follower's log (Kafka's UnifiedLog.appendAsFollower)."""

from __future__ import annotations

from typing import TypeAlias

from oncelog_protocol.records.batch import BatchHeader, compute_crc, split_batches
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.log.errors import UnexpectedBatch

Batches: TypeAlias = bytes | bytearray | memoryview


def check_replicated(
    batches: Batches,
    log_end_offset: int,
    leader_epoch: int,
    followed_epoch: int,
    *,
    may_skip: bool,
) -> list[tuple[memoryview, BatchHeader]]:
    """Return the batches to append. The follower's log ends at `log_end_offset`, and `leader_epoch`
    is its last epoch.

    An incomplete last batch is left out, because a Fetch response may end within a batch. A batch
    with an epoch above `followed_epoch`, in which the follower follows the leader, and all later
    batches are left out too (KAFKA-18723): the log may differ from the leader of the newer epoch.
    `may_skip`: a gap is allowed, because compaction may have removed batches of the leader's log.
    Raises CorruptRecords for a wrong CRC. Raises UnexpectedBatch for any other gap, an overlap or
    an older leader epoch.
    """
    view, found = memoryview(batches), []
    for position, header in split_batches(view, allow_partial=True):
        if compute_crc(view, position, header.size) != header.crc:
            raise CorruptRecords(f"the CRC of the batch at offset {header.base_offset} is wrong")
        if header.partition_leader_epoch > followed_epoch:
            break
        _check_place(header, log_end_offset, leader_epoch, may_skip=may_skip)
        log_end_offset, leader_epoch = header.next_offset, header.partition_leader_epoch
        found.append((view[position : position + header.size], header))
    return found


def _check_place(
    header: BatchHeader, log_end_offset: int, leader_epoch: int, *, may_skip: bool
) -> None:
    offsets = f"offsets {header.base_offset}..{header.last_offset}"
    if header.base_offset < log_end_offset or header.last_offset_delta < 0:
        raise UnexpectedBatch(f"{offsets} overlap the log, which ends at {log_end_offset}")
    if header.base_offset > log_end_offset and not may_skip:
        missing = f"{log_end_offset}..{header.base_offset - 1}"
        raise UnexpectedBatch(f"{offsets} leave a gap: {missing} are missing")
    if header.partition_leader_epoch < leader_epoch:
        raise UnexpectedBatch(
            f"{offsets} have leader epoch {header.partition_leader_epoch}, but the log already has"
            f" epoch {leader_epoch}"
        )
