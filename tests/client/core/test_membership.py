"""A member of a group joins, stays, is removed and rejoins as the protocol requires."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.group_protocol import decode_assignment, decode_members, rows_by_topic
from oncelog_client.core.membership import (
    Membership,
    MembershipConfig,
    MemberState,
    Reaction,
    reaction,
)
from oncelog_client.errors import IllegalStateError, KafkaError
from oncelog_client.values import ConsumerGroupMetadata, TopicPartition
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    decode_subscription,
    encode_assignment,
)
from oncelog_protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from oncelog_protocol.messages.sync_group import SyncGroupResponse

ONE, TWO, THREE = (TopicPartition("t", number) for number in range(3))


def membership(*strategies: str, instance: str | None = None) -> Membership:
    return Membership(
        MembershipConfig(
            group_id="g", group_instance_id=instance, strategies=strategies or ("range",)
        ),
        0,
    )


def joined(generation: int = 1, member: str = "me", leader: str = "me") -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation, protocol_name="range", leader=leader, member_id=member
    )


def synced(*partitions: TopicPartition) -> SyncGroupResponse:
    rows = ConsumerProtocolAssignment(assigned_partitions=rows_by_topic(partitions))
    return SyncGroupResponse(assignment=encode_assignment(rows))


def stable(*partitions: TopicPartition, instance: str | None = None) -> Membership:
    member = membership(instance=instance)
    member.join_request(["t"], [], 0)
    assert member.joined(joined()) is Reaction.CONTINUE
    assert member.synced(synced(*partitions), 0) == (Reaction.CONTINUE, partitions)
    return member


def test_a_member_without_an_id_joins_again_with_the_id_that_it_gets() -> None:
    member = membership()
    assert member.join_request(["t"], [], 0).member_id == ""
    refused = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
    assert member.joined(refused) is Reaction.REJOIN
    assert member.rejoin_needed
    assert member.join_request(["t"], [], 0).member_id == "me"


def test_a_member_is_stable_after_its_join_and_sync() -> None:
    member = stable(ONE, TWO)
    assert member.state is MemberState.STABLE
    assert not member.rejoin_needed
    assert member.identity == ConsumerGroupMetadata("g", 1, "me", None)


def test_a_heartbeat_or_a_join_between_two_polls_keeps_the_metadata_of_the_polled_records() -> None:
    """With newer metadata, the broker would accept the offsets of records that the member polled
    before its removal (KIP-447)."""
    member = stable(ONE)
    member.refresh_metadata()
    polled = ConsumerGroupMetadata("g", 1, "me", None)
    code = ErrorCode.UNKNOWN_MEMBER_ID
    assert member.heartbeat_answered(code, 1, 0) is Reaction.START_OVER
    assert (member.metadata, member.identity.generation_id) == (polled, -1)
    member.join_request(["t"], [], 0)
    member.joined(joined(3, "new"))
    member.synced(synced(TWO), 0)
    assert member.metadata == polled
    member.refresh_metadata()
    assert member.metadata == ConsumerGroupMetadata("g", 3, "new", None)


def test_a_protocol_that_no_member_offers_is_refused() -> None:
    member = membership("roundrobin")
    member.join_request(["t"], [], 0)
    with pytest.raises(KafkaError, match="range"):
        member.joined(joined())


def test_the_subscription_has_the_owned_partitions_and_their_generation() -> None:
    member = stable(ONE)
    request = member.join_request(["u", "t"], [TWO, ONE], 0)
    subscription = decode_subscription(request.protocols[0].metadata)
    assert subscription.topics == ["t", "u"]
    assert subscription.generation_id == 1
    assert [(row.topic, row.partitions) for row in subscription.owned_partitions] == [("t", [0, 1])]


def test_a_leader_reads_every_members_subscription() -> None:
    request = membership("cooperative-sticky").join_request(["t"], [ONE], 0)
    member = JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)
    response = JoinGroupResponse(leader="m", member_id="m", members=[member])
    assert membership().is_leader(response)
    assert decode_members(response)["m"].owned == (ONE,)
    member.metadata = b"\0"
    with pytest.raises(KafkaError, match="the subscription of m"):
        decode_members(response)


def test_empty_bytes_are_an_assignment_without_partitions() -> None:
    assert decode_assignment(b"") == ()


def test_a_member_with_an_unreadable_assignment_is_not_stable() -> None:
    member = membership()
    member.join_request(["t"], [], 0)
    member.joined(joined())
    with pytest.raises(KafkaError, match=r"group g: the assignment .* cannot be read"):
        member.synced(SyncGroupResponse(assignment=b"\0\1\0\0\0\5xx"), 0)
    assert member.state is MemberState.SYNCING
    member.disconnected()
    assert member.rejoin_needed
    assert member.join_request(["t"], [], 0).member_id == "me"


def test_an_eager_member_revokes_all_partitions_a_cooperative_member_only_unwanted_ones() -> None:
    other = TopicPartition("u", 0)
    assert stable().leaving_behind([TWO, ONE], ["t"]) == ((ONE, TWO), False)
    member = membership("cooperative-sticky")
    assert member.leaving_behind([TWO, other], ["t"]) == ((other,), False)


def test_a_cooperative_member_that_has_to_revoke_joins_again() -> None:
    member = membership("cooperative-sticky")
    member.rejoin_needed = False
    changes = member.changes([ONE, TWO], [TWO, THREE])
    assert (changes.added, changes.revoked) == ((THREE,), (ONE,))
    assert member.rejoin_needed


def test_a_member_unknown_to_the_broker_has_lost_its_partitions() -> None:
    member = stable(ONE)
    assert member.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID, 1, 10) is Reaction.START_OVER
    assert (member.member_id, member.generation_id) == ("", -1)
    assert member.leaving_behind([ONE], ["t"]) == ((ONE,), True)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, Reaction.CONTINUE),
        (ErrorCode.REBALANCE_IN_PROGRESS, Reaction.REJOIN),
        (ErrorCode.ILLEGAL_GENERATION, Reaction.START_OVER),
        (ErrorCode.UNKNOWN_MEMBER_ID, Reaction.START_OVER),
        (ErrorCode.NOT_COORDINATOR, Reaction.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Reaction.RETRY),
        (ErrorCode.FENCED_INSTANCE_ID, Reaction.FATAL),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Reaction.FATAL),
    ],
)
def test_each_code_in_a_heartbeat_response_has_its_reaction(
    code: ErrorCode, expected: Reaction
) -> None:
    assert stable().heartbeat_answered(code, 1, 10) is expected


def test_an_illegal_generation_keeps_the_member_id() -> None:
    """The coordinator still knows the member. With a new id, it would wait for the old member."""
    code = ErrorCode.ILLEGAL_GENERATION
    beating, syncing, committing = stable(ONE), membership(), stable(ONE)
    assert beating.heartbeat_answered(code, 1, 10) is Reaction.START_OVER
    syncing.join_request(["t"], [], 0)
    syncing.joined(joined())
    assert syncing.synced(SyncGroupResponse(error_code=code), 0) == (Reaction.START_OVER, ())
    assert committing.commit_refused(code, committing.identity) == code
    for member in (beating, syncing, committing):
        assert (member.member_id, member.generation_id) == ("me", -1)
        assert member.leaving_behind([ONE], ["t"]) == ((ONE,), True)
        assert member.join_request(["t"], [], 0).member_id == "me"


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_response_from_before_a_reset_means_a_new_round(code: ErrorCode) -> None:
    """Java's UnjoinedGroupException."""
    joining, syncing, unanswered = membership(), membership(), membership()
    for member in (joining, syncing, unanswered):
        member.join_request(["t"], [], 0)
    syncing.joined(joined())
    for member in (joining, syncing, unanswered):
        member.start_over()
    response = joined(2)
    response.error_code = code
    assert joining.joined(response) is Reaction.REJOIN
    assert syncing.synced(SyncGroupResponse(error_code=code), 0) == (Reaction.REJOIN, ())
    unanswered.disconnected()
    for member in (joining, syncing, unanswered):
        assert member.identity == ConsumerGroupMetadata("g", -1, "", None)
        assert member.rejoin_needed
        member.join_request(["t"], [], 0)


REFUSED = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


@pytest.mark.parametrize("code", REFUSED)
def test_a_refused_commit_of_an_earlier_generation_does_not_end_the_present_one(
    code: ErrorCode,
) -> None:
    member = stable(ONE)
    sent = member.identity
    member.join_request(["t"], [], 0)
    member.joined(joined(2))
    assert member.commit_refused(code, sent) == ErrorCode.REBALANCE_IN_PROGRESS
    member.synced(synced(ONE), 0)
    expected = ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.FENCED_INSTANCE_ID else code
    assert member.commit_refused(code, sent) == expected
    assert member.commit_refused(ErrorCode.REBALANCE_IN_PROGRESS, sent)
    assert (member.state, member.generation_id) == (MemberState.STABLE, 2)
    assert not member.rejoin_needed


def test_a_refused_commit_of_the_present_generation_ends_it() -> None:
    member = stable(ONE)
    code = ErrorCode.UNKNOWN_MEMBER_ID
    assert member.commit_refused(code, member.identity) == code
    assert member.identity == ConsumerGroupMetadata("g", -1, "", None)
    fenced = stable(ONE, instance="static")
    code = ErrorCode.FENCED_INSTANCE_ID
    assert fenced.commit_refused(code, fenced.identity) == code
    assert fenced.state is MemberState.STABLE


def test_an_illegal_generation_while_a_join_is_in_flight_leaves_the_generation_to_the_join() -> (
    None
):
    member = stable(ONE)
    member.join_request(["t"], [ONE], 0)
    code = member.commit_refused(ErrorCode.ILLEGAL_GENERATION, member.identity)
    assert code == ErrorCode.REBALANCE_IN_PROGRESS
    assert member.joined(joined(2)) is Reaction.CONTINUE
    assert not member.generation_lost


def test_a_response_to_a_heartbeat_of_an_older_generation_is_ignored() -> None:
    member = stable()
    assert member.heartbeat_answered(ErrorCode.ILLEGAL_GENERATION, 0, 10) is Reaction.CONTINUE
    assert member.state is MemberState.STABLE


def test_a_member_joins_again_after_a_failed_sync() -> None:
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        assert reaction(ApiKey.SYNC_GROUP, code) is Reaction.REJOIN
    member = membership()
    member.join_request(["t"], [], 0)
    member.joined(joined())
    refused = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.synced(refused, 0) == (Reaction.REJOIN, ())
    assert member.generation_id == 1
    member.join_request(["t"], [], 0)


def test_heartbeats_are_due_at_their_interval_while_stable_only() -> None:
    member = stable()
    assert member.next_heartbeat_ms() == 3000
    member.heartbeat_request(3000)
    assert member.next_heartbeat_ms() == 6000
    member.join_request(["t"], [], 4000)
    assert member.next_heartbeat_ms() is None


def test_the_session_and_the_poll_interval_expire() -> None:
    member = stable()
    assert not member.session_expired(45_000)
    assert member.session_expired(45_001)
    member.heartbeat_answered(ErrorCode.NONE, 1, 45_001)
    assert not member.session_expired(50_000)
    assert member.poll_overdue(300_001)
    member.polled(300_001)
    assert not member.poll_overdue(300_002)


def test_a_poll_that_waits_is_never_overdue() -> None:
    member = stable()
    member.polled(0, waits=True)
    assert not member.poll_overdue(1_000_000)
    member.polled(1_000_000)
    assert not member.poll_overdue(1_300_000)
    assert member.poll_overdue(1_300_001)


def test_a_leave_request_names_the_member_and_a_static_member_sends_none() -> None:
    request = stable().leave_request("bye")
    assert request is not None
    assert [(row.member_id, row.reason) for row in request.members] == [("me", "bye")]
    assert stable(instance="static").leave_request("bye") is None
    assert membership().leave_request("bye") is None


CODES = st.sampled_from([code for code in ErrorCode if code >= 0])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("join"), CODES),
            st.tuples(st.just("sync"), CODES),
            st.tuples(st.just("heartbeat"), CODES),
            st.tuples(st.just("disconnect"), CODES),
            st.tuples(st.just("leave"), CODES),
            st.tuples(st.just("commit"), CODES),
        ),
        max_size=30,
    )
)
def test_a_member_can_join_again_after_any_responses(
    steps: list[tuple[str, ErrorCode]],
) -> None:
    member = membership()
    for step, code in steps:
        try:
            if step == "join":
                member.join_request(["t"], [], 0)
                answer = joined()
                answer.error_code = code
                member.joined(answer)
            elif step == "sync":
                member.synced(SyncGroupResponse(error_code=code), 0)
            elif step == "heartbeat":
                member.heartbeat_answered(code, member.generation_id, 0)
            elif step == "commit":
                member.commit_refused(code, member.identity)
            elif step == "disconnect":
                member.disconnected()
            else:
                member.leave_request("")
        except IllegalStateError:
            continue
    if member.state in (MemberState.JOINING, MemberState.SYNCING):
        member.disconnected()
    member.join_request(["t"], [], 0)
    assert member.joined(joined(9)) is Reaction.CONTINUE
    assert member.synced(synced(ONE), 0) == (Reaction.CONTINUE, (ONE,))
