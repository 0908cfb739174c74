"""Offsets of a transaction that arrive after its end, on both brokers (KIP-890)."""

from __future__ import annotations

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.harness.transacting import (
    add_offsets,
    commit_offset,
    committed_offset,
    last_stable_offset,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import end_transaction, find_coordinator, new_identity


@pytest.mark.parametrize(
    ("version", "codes"),
    [
        # The epoch is the same, but no transaction is open.
        (3, {"INVALID_TXN_STATE"}),
        (4, {"TRANSACTION_ABORTABLE"}),
        # The end of the transaction has bumped the epoch.
        (5, {"INVALID_PRODUCER_EPOCH"}),
    ],
)
def test_o6_an_offset_commit_that_arrives_after_the_abort_is_refused(
    wire: Wire, topic: str, version: int, codes: set[str]
) -> None:
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    end_version = 5 if version == 5 else 4
    if version < 5:
        assert add_offsets(wire, producer, topic) == ErrorCode.NONE
    assert commit_offset(wire, producer, topic, 5, version=version) == ErrorCode.NONE
    ended = end_transaction(wire, producer, commit=False, version=end_version)
    assert ended.error_code == ErrorCode.NONE
    wait_until(lambda: committed_offset(wire, topic, stable=True) == (-1, 0), "the abort is there")
    late = commit_offset(wire, producer, topic, 6, version=version)
    assert ErrorCode(late).name in codes
    assert committed_offset(wire, topic, stable=True) == (-1, 0)
    assert last_stable_offset(wire, topic) == (0, 0)
