"""The transactions in `__transaction_state` that have not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.transaction_group import decode_transaction_group_key
from oncelog_protocol.internal.transaction_log import (
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.transaction_pointer import decode_transaction_pointer_key
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.inspection.folder_records import records_in_folder
from oncelog_server.storage.files import Files

_OPEN: Final = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
)


def open_transactions(
    files: Files, root: str, folders: Sequence[str]
) -> tuple[dict[str, TransactionState], list[str]]:
    """Return the state of each transactional id with an open transaction, and a sentence for each
    record that this release does not know. Raises StorageError."""
    found: dict[str, TransactionState] = {}
    unknown: list[str] = []
    for folder in folders:
        for record in records_in_folder(files, f"{root}/{folder}"):
            if is_own_record(record.key or b""):
                continue  # deleted by the export that wrote this directory
            try:
                transactional_id = decode_transaction_log_key(record.key or b"").transactional_id
                found.pop(transactional_id, None)
                if record.value is not None:
                    value = decode_transaction_log_value(record.value)
                    state = TransactionState(value.transaction_status)
                    if state in _OPEN:
                        found[transactional_id] = state
            except (ProtocolError, UnknownRecordVersion, ValueError) as error:
                unknown.append(f"{folder}, offset {record.offset}: {error}")
    return found, unknown


def is_own_record(key: bytes) -> bool:
    """Return True for the key of a record type of oncelog's own, which Kafka's coordinator
    skips."""
    for decode in (decode_transaction_group_key, decode_transaction_pointer_key):
        try:
            decode(key)
        except (ProtocolError, UnknownRecordVersion):
            continue
        return True
    return False
