"""Offsets that expire, offsets that never expire, and the amount of work in each step."""

from __future__ import annotations

import pytest

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    encode_group_metadata_key,
    encode_group_metadata_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.sweep_limits import SweepLimits
from tests.server.group.driver import GROUP, Driver
from tests.server.group.entries import Appended, subscription

HOUR_MS = 3_600_000
CHECK_MS = 600_000


def retention(**settings: int) -> Driver:
    return Driver(GroupConfig(offsets_retention_ms=HOUR_MS, **settings))


def keep_alive(driver: Driver, ms: int, generation_id: int, *members: str) -> None:
    for _ in range(ms // 500_000):
        driver.advance(500_000)
        for member in members:
            assert driver.heartbeat(member, generation_id) == 0


def test_the_retention_in_a_simple_group_counts_from_the_commit() -> None:
    driver = retention()
    driver.commit(("t", 0, 1))
    driver.advance(HOUR_MS // 2)
    driver.commit(("t", 1, 1))
    driver.advance(HOUR_MS // 2 + CHECK_MS)
    assert driver.fetch("t", 0) == (-1, 0)
    assert driver.fetch("t", 1) == (1, 0)
    driver.advance(HOUR_MS)
    assert driver.fetch("t", 1) == (-1, 0)
    assert driver.state() is GroupState.DEAD
    assert driver.load().table.groups == {}


def test_the_retention_in_a_group_counts_from_the_time_it_became_empty() -> None:
    driver = retention()
    generation_id, (member,) = driver.stable_group("a", session_ms=600_000)
    driver.commit(("t", 0, 1), member_id=member, generation_id=generation_id)
    keep_alive(driver, 2 * HOUR_MS, generation_id, member)
    assert driver.fetch("t", 0) == (-1, 0)  # No member is subscribed to the topic.
    driver.commit(("t", 0, 2), member_id=member, generation_id=generation_id)
    driver.leave(member)
    driver.advance(HOUR_MS - CHECK_MS)
    assert driver.fetch("t", 0) == (2, 0)
    driver.advance(2 * CHECK_MS)
    assert driver.fetch("t", 0) == (-1, 0)
    assert driver.state() is GroupState.DEAD


def test_offsets_of_subscribed_topics_never_expire_in_a_stable_group() -> None:
    driver = retention()
    options = {"protocols": {"range": subscription("s")}, "session_ms": 600_000}
    generation_id, (member,) = driver.stable_group("a", **options)
    driver.commit(("s", 0, 1), ("t", 0, 2), member_id=member, generation_id=generation_id)
    keep_alive(driver, 3 * HOUR_MS, generation_id, member)
    assert driver.fetch("s", 0) == (1, 0)
    assert driver.fetch("t", 0) == (-1, 0)


@pytest.mark.parametrize(
    ("protocol_type", "metadata"), [("consumer", b"?"), ("connect", subscription("t"))]
)
def test_offsets_never_expire_while_subscriptions_cannot_be_read(
    protocol_type: str, metadata: bytes
) -> None:
    driver = retention()
    generation_id, (member,) = driver.stable_group(
        "a", protocol_type=protocol_type, protocols={"p": metadata}, session_ms=600_000
    )
    driver.commit(("t", 0, 2), member_id=member, generation_id=generation_id)
    keep_alive(driver, 3 * HOUR_MS, generation_id, member)
    assert driver.fetch("t", 0) == (2, 0)


def test_a_retention_in_the_request_counts_from_the_commit_in_any_state_of_the_group() -> None:
    driver = retention()
    generation_id, (member,) = driver.stable_group("a", session_ms=600_000)
    driver.commit(
        ("t", 0, 2), member_id=member, generation_id=generation_id, retention_ms=1, version=4
    )
    driver.commit(
        ("u", 0, 2),
        member_id=member,
        generation_id=generation_id,
        retention_ms=5 * HOUR_MS,
        version=4,
    )
    keep_alive(driver, 2 * HOUR_MS, generation_id, member)
    assert driver.fetch("t", 0) == (-1, 0)
    assert driver.fetch("u", 0) == (2, 0)


def test_an_offset_with_a_pending_commit_does_not_expire_and_keeps_its_group() -> None:
    driver = retention()
    driver.commit(("t", 0, 1))
    driver.txn_commit(7, ("t", 0, 2), ("u", 0, 3))
    driver.advance(10 * HOUR_MS)
    assert driver.fetch("t", 0) == (1, 0)
    assert driver.state() is GroupState.EMPTY
    driver.end_transaction(7, committed=False)
    driver.advance(CHECK_MS)
    assert driver.fetch("t", 0) == (-1, 0)
    assert driver.state() is GroupState.DEAD


def test_a_group_with_nothing_but_an_open_transaction_stays() -> None:
    driver = retention()
    driver.txn_commit(7, ("t", 0, 2))
    driver.advance(10 * HOUR_MS)
    assert driver.state() is GroupState.EMPTY
    driver.end_transaction(7, committed=True)
    assert driver.fetch("t", 0) == (2, 0)
    assert driver.state() is GroupState.EMPTY


def test_a_group_without_offsets_is_deleted_once_it_is_empty() -> None:
    driver = retention()
    given = driver.join(session_ms=1_500_000).value
    driver.advance(CHECK_MS)
    # A member id was assigned, and its member may still join.
    assert driver.state() is GroupState.EMPTY
    assert given.error_code == 79
    driver.advance(3 * CHECK_MS)
    assert driver.state() is GroupState.DEAD


def test_a_sweep_is_done_in_slices_and_ends() -> None:
    driver = retention(cleanup_records_max=10, cleanup_groups_max=4)
    for number in range(7):
        driver.commit(*(("t", partition, 1) for partition in range(25)), group=f"g{number}")
    driver.now_ms += 2 * HOUR_MS
    sizes = []
    while driver.shard.table.groups:
        sizes += [len(decision.records) for decision in driver.expire()]
        driver.now_ms += 1
    assert max(sizes) <= 11
    assert sum(sizes) == 7 * 26
    next_timer = driver.shard.next_timer()
    assert next_timer is not None
    assert next_timer > driver.now_ms + CHECK_MS - 100


def test_a_sweep_that_cannot_be_written_waits_for_the_next_one() -> None:
    driver = retention(cleanup_records_max=1)
    driver.commit(("t", 0, 1), ("t", 1, 1))
    driver.append_error = 6
    driver.advance(2 * HOUR_MS)
    assert driver.fetch("t", 0) == (1, 0)
    driver.append_error = None
    driver.advance(CHECK_MS + 10)
    assert driver.fetch("t", 0) == (-1, 0)
    assert driver.state() is GroupState.DEAD


def test_a_sweep_that_failed_begins_again_with_the_first_group() -> None:
    driver = retention(cleanup_groups_max=1)
    driver.commit(("t", 0, 1), group="g")
    driver.commit(("t", 0, 1), group="h")
    driver.now_ms += 2 * HOUR_MS
    driver.append_error = 6
    driver.advance(0)
    driver.append_error = None
    driver.advance(CHECK_MS + 10)
    assert driver.shard.table.groups == {}


def test_long_ids_of_groups_do_not_make_a_batch_that_the_log_refuses() -> None:
    driver = retention()
    for number in range(40):
        driver.commit(("t", 0, 1), group=f"{number}".ljust(32_000, "x"))
    driver.commit(("t", 0, 1), group="last")
    driver.advance(2 * HOUR_MS)
    assert driver.shard.table.groups == {}
    assert driver.load().table.groups == {}


@pytest.mark.parametrize("bytes_max", [100, 1_000])
def test_a_sweep_uses_smaller_batches_for_a_log_that_accepts_no_larger_ones(
    bytes_max: int,
) -> None:
    driver = retention()
    long_id = "x" * 2_000
    driver.commit(("t", 0, 1), group=long_id)
    for number in range(30):
        driver.commit(*(("t", partition, 1) for partition in range(9)), group=f"g{number}")
    driver.append_bytes_max = bytes_max
    driver.advance(2 * HOUR_MS)
    assert driver.shard.table.groups.keys() == {long_id}
    limits = driver.shard._expiry._limits
    assert limits == SweepLimits(limits.bytes_max, frozenset({long_id}))
    assert limits.bytes_max < driver.config.cleanup_bytes_max
    driver.append_bytes_max = 1 << 20
    driver.advance(CHECK_MS + 10)
    assert driver.shard.table.groups == {}


def test_offsets_of_a_deleted_topic_are_deleted_in_batches_that_the_log_accepts() -> None:
    driver = Driver()
    ids = [f"{number}".ljust(32_000, "x") for number in range(40)] + ["last"]
    for group in ids:
        driver.commit(("t", 0, 1), group=group)
    driver.topics_deleted("t")
    assert [driver.fetch("t", 0, group=group)[0] for group in ids] == [-1] * 41


@pytest.mark.parametrize(("early_ms", "offset"), [(1, 1), (0, -1)])
def test_an_offset_expires_at_its_time_and_not_before(early_ms: int, offset: int) -> None:
    written = retention()
    written.commit(("t", 0, 1))
    due_ms = written.now_ms + HOUR_MS
    driver = Driver(written.config, now_ms=due_ms - early_ms - CHECK_MS, log=written.log)
    driver.advance(CHECK_MS)
    assert driver.fetch("t", 0) == (offset, 0)


def test_the_retention_counts_from_the_commit_if_the_groups_record_has_no_time() -> None:
    driver = retention()
    key = encode_group_metadata_key(GroupMetadataKey(GROUP))
    value = GroupMetadataValue(protocol_type="consumer", protocol=None, leader=None)
    record = CoordinatorRecord(key, encode_group_metadata_value(value, 1))
    driver.log.append(Appended(record, None))
    driver.crash()
    driver.commit(("t", 0, 1))
    driver.advance(CHECK_MS)
    assert driver.fetch("t", 0) == (1, 0)
    driver.advance(HOUR_MS)
    assert driver.fetch("t", 0) == (-1, 0)


def test_offsets_of_deleted_topics_are_deleted_also_in_a_transaction() -> None:
    driver = Driver(GroupConfig(cleanup_records_max=3))
    driver.commit(*(("t", partition, 1) for partition in range(5)), ("u", 0, 1))
    driver.txn_commit(7, ("t", 0, 2), ("t", 9, 2), ("u", 0, 2), group="h")
    decisions = driver.topics_deleted("t")
    assert [len(decision.records) for decision in decisions] == [3, 3, 1]
    driver.end_transaction(7, committed=True)
    assert [driver.fetch("t", partition)[0] for partition in range(5)] == [-1] * 5
    assert driver.fetch("u", 0) == (1, 0)
    assert driver.fetch("t", 0, group="h") == (-1, 0)
    assert driver.fetch("u", 0, group="h") == (2, 0)
    assert driver.load().table.offsets.snapshot() == driver.shard.table.offsets.snapshot()
    assert GROUP in driver.shard.table.groups


def test_the_offset_of_a_sink_never_expires_and_keeps_its_group() -> None:
    driver = retention()
    driver.commit(("__oncelog_sink", 0, 7), ("t", 0, 1))
    driver.advance(1000 * HOUR_MS)
    assert driver.fetch("__oncelog_sink", 0) == (7, 0)
    assert driver.fetch("t", 0) == (-1, 0)
    assert driver.load().table.groups.keys() == {GROUP}
