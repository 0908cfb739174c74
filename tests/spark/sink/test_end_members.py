"""The end of the members of a batch in a commit by record that keeps no state: each member that
still responds is committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from oncelog_client.admin.client import Admin
from oncelog_client.errors import (
    AuthorizationError,
    CommitOutcomeUnknown,
    KafkaError,
    TimedOutError,
    TransactionGoneError,
)
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink import record_commit
from oncelog_client.spark.sink.protocol.steps import Done, MemberGone, OutcomeUnknown
from oncelog_client.spark.sink.record_commit import RecordCommit
from oncelog_client.values import TransactionMember

MEMBERS = (TransactionMember("s/1/a.0", 2, 0), TransactionMember("s/1/b.0", 3, 0))
A, B = (member.transactional_id for member in MEMBERS)
GONE = TransactionGoneError("no transaction")


class StubAdmin:
    """An admin client. `outcomes`: for each transactional id the errors of its EndTxn requests,
    then successes. `sent`: the ids of the requests."""

    def __init__(self, outcomes: dict[str, list[KafkaError]]) -> None:
        self.outcomes: dict[str, Iterator[KafkaError]] = {
            member: iter(errors) for member, errors in outcomes.items()
        }
        self.sent: list[str] = []

    async def end_transaction(self, member: TransactionMember) -> None:
        self.sent.append(member.transactional_id)
        error = next(self.outcomes.get(member.transactional_id, iter(())), None)
        if error is not None:
            raise error


async def end(admin: StubAdmin, *, is_kept: bool = False) -> object:
    sink = RecordCommit(cast(ClientSetup, None), "s", 60_000, is_kept=is_kept)
    return await sink._end(cast(Admin, admin), MEMBERS)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_commit, "_RETRY_S", 0.001)


@pytest.mark.parametrize("error", [CommitOutcomeUnknown("x"), TimedOutError("x")])
async def test_a_member_without_a_response_is_committed_by_a_later_request(
    error: KafkaError,
) -> None:
    admin = StubAdmin({B: [error, error]})
    assert await end(admin) == Done()
    assert admin.sent == [A, B, B, B]


async def test_the_other_members_are_committed_after_the_loss_of_a_member() -> None:
    admin = StubAdmin({A: [GONE], B: [TimedOutError("x")]})
    assert await end(admin) == MemberGone(A, str(GONE))
    assert admin.sent == [A, B, B]


async def test_the_outcome_is_unknown_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_commit, "END_TIMEOUT_MS", 20)
    admin = StubAdmin({B: [TimedOutError("x")] * 10_000})
    assert await end(admin) == OutcomeUnknown()
    assert len(admin.sent) > 2


async def test_an_error_of_a_member_is_a_result_because_the_others_may_be_committed() -> None:
    refused = AuthorizationError("no right")
    assert await end(StubAdmin({B: [refused]})) == MemberGone(B, str(refused))


async def test_with_a_kept_state_a_restart_finishes_the_commit() -> None:
    """One request for each member is enough, and an error ends the call."""
    admin = StubAdmin({B: [TimedOutError("x")]})
    assert await end(admin, is_kept=True) == OutcomeUnknown()
    assert admin.sent == [A, B]
    with pytest.raises(AuthorizationError):
        await end(StubAdmin({B: [AuthorizationError("no right")]}), is_kept=True)
