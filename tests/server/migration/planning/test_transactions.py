"""The transactions that have not ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.internal.transaction_group import (
    TransactionGroupKey,
    encode_transaction_group_key,
)
from oncelog_protocol.internal.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from oncelog_protocol.internal.transaction_pointer import (
    TransactionPointerKey,
    encode_transaction_pointer_key,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.migration.planning.transactions import open_transactions
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from tests.server.migration.kafka_folder import write_partition

FOLDER = "__transaction_state-0"
KEY = encode_transaction_log_key(TransactionLogKey("id"))
OPEN = {
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
}


def value(state: int) -> bytes:
    return encode_transaction_log_value(TransactionLogValue(transaction_status=state))


def found(
    path: Path, *values: bytes | None, key: bytes = KEY
) -> tuple[dict[str, TransactionState], list[str]]:
    new = [NewRecord(1, key, data) for data in values]
    write_partition(path, FOLDER, bytes(build_batch(new)))
    return open_transactions(ReadOnlyFiles(), str(path), [FOLDER])


@pytest.mark.parametrize("state", TransactionState)
def test_the_newest_record_of_an_id_counts(tmp_path: Path, state: TransactionState) -> None:
    expected = {"id": state} if state in OPEN else {}
    assert found(tmp_path, value(TransactionState.ONGOING), value(state)) == (expected, [])


def test_a_deleted_id_has_no_transaction(tmp_path: Path) -> None:
    assert found(tmp_path, value(TransactionState.ONGOING), None) == ({}, [])


@pytest.mark.parametrize("damaged", [b"\0\x09", value(TransactionState.DEAD)[:-3], value(77)])
def test_an_unknown_value_is_named(tmp_path: Path, damaged: bytes) -> None:
    transactions, unknown = found(tmp_path, value(TransactionState.EMPTY), damaged)
    assert transactions == {}
    assert [text.partition(":")[0] for text in unknown] == [f"{FOLDER}, offset 1"]


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    _, unknown = found(tmp_path, value(0), key=b"\0\x09")
    assert unknown == [f"{FOLDER}, offset 0: unknown version 9 of a transaction log key"]


@pytest.mark.parametrize(
    "key",
    [
        encode_transaction_group_key(TransactionGroupKey("g", "id")),
        encode_transaction_pointer_key(TransactionPointerKey("id")),
    ],
    ids=["group", "pointer"],
)
def test_oncelogs_own_records_are_skipped(tmp_path: Path, key: bytes) -> None:
    assert found(tmp_path, None, key=key) == ({}, [])
