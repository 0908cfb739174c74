"""Finds the step of the protocol that a write to a log performs, from the written bytes."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.group_metadata import OffsetCommitKey
from oncelog_protocol.internal.group_metadata import decode_key as decode_group_key
from oncelog_protocol.internal.transaction_log import (
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_protocol.records.batch import BatchHeader, read_records, split_batches
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.faults.points import Step

_LARGE: Final = 1 << 30
_STEP_OF_STATE: Final[dict[TransactionState, Step]] = {
    TransactionState.EMPTY: Step.INITIALISE,
    TransactionState.ONGOING: Step.ADD_PARTITIONS,
    TransactionState.PREPARE_COMMIT: Step.PREPARE,
    TransactionState.PREPARE_ABORT: Step.PREPARE,
    TransactionState.PREPARE_EPOCH_FENCE: Step.PREPARE,
    TransactionState.COMPLETE_COMMIT: Step.COMPLETE,
    TransactionState.COMPLETE_ABORT: Step.COMPLETE,
}


def steps_of(topic: str, data: bytes) -> list[Step]:
    """Return the steps of `data`, which are complete batches for a partition of `topic`.

    Most batches have one step. A marker in __consumer_offsets has two. A batch of a coordinator has
    one for each kind of record in it.
    """
    steps: list[Step] = []
    for position, header in split_batches(data):
        batch = data[position : position + header.size]
        for step in _steps_of_batch(topic, batch, header):
            steps.append(step)
    return steps


def _steps_of_batch(topic: str, batch: bytes, header: BatchHeader) -> list[Step]:
    if header.is_control:
        markers = [Step.MARKER]
        return [*markers, Step.OFFSETS_MARKER] if topic == CONSUMER_OFFSETS else markers
    if topic == TRANSACTION_STATE:
        return _transaction_steps(batch)
    if topic == CONSUMER_OFFSETS:
        return [Step.TXN_OFFSETS] if header.is_transactional else _group_steps(batch)
    return [Step.DATA]


def _transaction_steps(batch: bytes) -> list[Step]:
    """Return the steps of a batch. A batch may decide many transactions, but each step is returned
    once."""
    found: dict[Step, None] = {}
    for record in read_records(batch, max_bytes=_LARGE, check_crc=False):
        if record.key is None or record.value is None:
            continue
        try:
            decode_transaction_log_key(record.key)
            value = decode_transaction_log_value(record.value)
        except (UnknownRecordVersion, ProtocolError):
            continue
        step = _STEP_OF_STATE.get(TransactionState(value.transaction_status))
        if step is not None:
            found[step] = None
    return list(found)


def _group_steps(batch: bytes) -> list[Step]:
    found: dict[Step, None] = {}
    for record in read_records(batch, max_bytes=_LARGE, check_crc=False):
        if record.key is None:
            continue
        try:
            key = decode_group_key(record.key)
        except (UnknownRecordVersion, ProtocolError):
            continue
        found[Step.OFFSETS if isinstance(key, OffsetCommitKey) else Step.GROUP] = None
    return list(found)
