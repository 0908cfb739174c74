"""Transactional ids and groups in a coordinator's folder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.group_metadata import decode_key
from oncelog_protocol.internal.transaction_log import decode_transaction_log_key
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.inspection.folder_records import records_in_folder
from oncelog_server.storage.files import Files

COORDINATOR_TOPICS: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE)


def coordinator_ids(files: Files, path: str, topic: str, limit: int) -> tuple[str, ...]:
    """Return up to `limit` ids from the records in a folder of COORDINATOR_TOPICS. Raises
    StorageError."""
    return tuple(sorted(set(islice(_ids(files, path, topic), limit))))


def _ids(files: Files, path: str, topic: str) -> Iterator[str]:
    for record in records_in_folder(files, path):
        if record.key is None:
            continue
        try:
            if topic == TRANSACTION_STATE:
                yield decode_transaction_log_key(record.key).transactional_id
            else:
                yield decode_key(record.key).group
        except (ProtocolError, UnknownRecordVersion):
            continue  # a record of another type, or a damaged one
