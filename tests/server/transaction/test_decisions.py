"""The parts of the coordinator's decisions: error codes of failed appends, reports of fences,
messages for refused requests."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.decisions import append_failed, fenced, refuse
from oncelog_server.transaction.fences import Fence, FenceCause, Reason
from oncelog_server.transaction.metadata import TransactionMetadata
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import LiveTransaction
from oncelog_server.transaction.states import State

LIVE = LiveTransaction(TransactionMetadata("payments", 7, 3, 60_000, State.ONGOING))
OLD = Client("old", "/10.0.0.1")


@pytest.mark.parametrize(
    ("appended", "code"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_failed_append_has_the_code_of_kafka(appended: ErrorCode, code: ErrorCode) -> None:
    assert append_failed(appended) == TransactionResult(code)


@pytest.mark.parametrize(
    ("state", "aborts", "aborted"),
    [(State.ONGOING, True, True), (State.ONGOING, False, False), (State.EMPTY, True, False)],
)
def test_a_fence_reports_an_abort_only_if_it_aborts_an_open_transaction(
    state: State, aborts: bool, aborted: bool
) -> None:
    live = replace(LIVE, metadata=TransactionMetadata("payments", 7, 3, 60_000, state), client=OLD)
    reason = Reason(FenceCause.TIMED_OUT)
    fence = fenced(live, reason, 5_000, aborts=aborts).fence
    assert fence == Fence("payments", 7, 3, FenceCause.TIMED_OUT, 5_000, OLD, None, aborted)


@pytest.mark.parametrize(
    ("in_group", "code"),
    [(True, ErrorCode.CONCURRENT_PRODUCER_COMMIT), (False, ErrorCode.PRODUCER_FENCED)],
)
def test_only_a_producer_of_a_group_gets_concurrent_producer_commit(
    in_group: bool, code: ErrorCode
) -> None:
    fence = Fence("payments", 7, 3, FenceCause.CONCURRENT_COMMIT, 5_000, OLD, None, True)
    decision = refuse(replace(LIVE, fences=(fence,)), 7, 3, in_group=in_group)
    assert isinstance(decision.response, TransactionResult)
    assert decision.response.code is code
    assert decision.response.message == f"fenced: {FenceCause.CONCURRENT_COMMIT.value}, at 5000"
    assert not decision.records
