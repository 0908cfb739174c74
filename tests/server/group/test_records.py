"""Records in Kafka's format, and groups that are loaded from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    decode_group_metadata_value,
    decode_key,
    encode_group_metadata_key,
    encode_group_metadata_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.classic.subscriptions import subscribed_topics
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.records import group_tombstone, offset_tombstone
from oncelog_server.group.shard import GroupShard
from tests.server.group.driver import GROUP, WALL_MS, Driver, groups_of
from tests.server.group.entries import Appended, subscription


def group_values(driver: Driver) -> list[GroupMetadataValue | None]:
    """Return the values of all group records in the log."""
    records = [entry.record for entry in driver.log if isinstance(entry, Appended)]
    return [
        None if record.value is None else decode_group_metadata_value(record.value)
        for record in records
        if isinstance(decode_key(record.key), GroupMetadataKey)
    ]


def shard() -> GroupShard:
    return GroupShard(GroupConfig(), new_member_id=str)


def replay_group(loading: GroupShard, value: GroupMetadataValue) -> None:
    key = encode_group_metadata_key(GroupMetadataKey(GROUP))
    record = CoordinatorRecord(key, encode_group_metadata_value(value))
    loading.replay(record, offset=0, transaction=None)


def test_a_group_writes_a_record_when_it_begins_is_assigned_and_becomes_empty() -> None:
    driver = Driver()
    metadata = subscription("t")
    _, (member,) = driver.stable_group("a", protocols={"range": metadata}, session_ms=10_000)
    driver.leave(member)
    begun, stable, empty = group_values(driver)
    assert begun == GroupMetadataValue(
        protocol=None, leader=None, current_state_timestamp=WALL_MS + 1_000
    )
    assert stable == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=member,
        current_state_timestamp=WALL_MS + 4_000,
        members=[
            MemberMetadata(
                member_id=member,
                group_instance_id=None,
                client_id="a",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=metadata,
                assignment=member.encode(),
            )
        ],
    )
    assert empty == GroupMetadataValue(
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        current_state_timestamp=WALL_MS + 4_000,
    )


def test_values_are_of_version_3_and_keys_of_type_2() -> None:
    driver = Driver()
    driver.stable_group("a")
    for entry in driver.log:
        assert isinstance(entry, Appended)
        assert entry.record.key[:2] == b"\0\2"
        assert entry.record.value is not None
        assert entry.record.value[:2] == b"\0\3"


def test_tombstones_have_the_key_of_their_record_and_no_value() -> None:
    assert group_tombstone(GROUP) == CoordinatorRecord(b"\0\2\0\1g", None)
    assert offset_tombstone(GROUP, "t", 3) == CoordinatorRecord(b"\0\1\0\1g\0\1t\0\0\0\3", None)


def test_old_values_without_a_rebalance_timeout_load_with_the_session_timeout() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="gone",
        members=[MemberMetadata(member_id="m", session_timeout=7_000)],
    )
    loading = shard()
    replay_group(loading, value)
    group = groups_of(loading)[GROUP]
    assert group.state is GroupState.STABLE
    assert group.members["m"].rebalance_timeout_ms == 7_000
    # The recorded leader is not a member, so a member becomes the leader.
    assert group.leader_id == "m"


def test_the_last_record_of_a_group_is_the_one_that_counts() -> None:
    loading = shard()
    member = MemberMetadata(member_id="m", session_timeout=7_000)
    replay_group(loading, GroupMetadataValue("consumer", 1, "range", "m", members=[member]))
    replay_group(loading, GroupMetadataValue("consumer", 2, None, None))
    group = groups_of(loading)[GROUP]
    assert (group.state, group.generation_id) == (GroupState.EMPTY, 2)
    loading.replay(group_tombstone(GROUP), offset=1, transaction=None)
    loading.replay(group_tombstone(GROUP), offset=2, transaction=None)
    assert loading.table.groups == {}
    loading.on_loaded(0, WALL_MS)
    assert len(loading.table.timers) == 1


def test_records_of_newer_group_protocols_are_skipped() -> None:
    loading = shard()
    loading.replay(CoordinatorRecord(b"\0\3\0\1g", b"\0\0????"), offset=0, transaction=None)
    assert loading.table.groups == {}


@pytest.mark.parametrize(
    "record",
    [
        CoordinatorRecord(b"", b""),
        CoordinatorRecord(b"\0\2\0\5g", b"\0\3"),
        CoordinatorRecord(b"\0\2\0\1g", b"\0\3\0"),
        CoordinatorRecord(b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\3\0"),
        CoordinatorRecord(b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\x63\0"),
    ],
)
def test_the_replay_of_a_record_that_cannot_be_decoded_fails(record: CoordinatorRecord) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # each codec has its own message
        shard().replay(record, offset=0, transaction=None)


@given(st.lists(st.text(max_size=20), max_size=5), st.binary(max_size=8))
def test_topics_are_read_from_subscriptions_of_later_versions(
    topics: list[str], later_fields: bytes
) -> None:
    metadata = b"\0\7" + subscription(*topics)[2:] + later_fields
    assert subscribed_topics(metadata) == frozenset(topics)


@given(st.binary(max_size=60))
def test_a_damaged_subscription_raises_no_error(metadata: bytes) -> None:
    topics = subscribed_topics(metadata)
    assert topics is None or isinstance(topics, frozenset)
