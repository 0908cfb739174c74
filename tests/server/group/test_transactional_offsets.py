"""Offsets in transactions: the group coordinator's part of scenarios O1 to O11."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.config import GroupConfig
from tests.server.group.driver import GROUP, Driver


def both(driver: Driver, topic: str, partition: int) -> set[tuple[int, int]]:
    """Return the results of OffsetFetch now and after a restart."""
    before = driver.fetch(topic, partition)
    driver.crash()
    return {before, driver.fetch(topic, partition)}


def test_O1_a_pending_offset_is_unstable_with_require_stable_and_invisible_without_it() -> None:
    driver = Driver()
    driver.commit(("t", 0, 5))
    driver.txn_commit(7, ("t", 0, 10))
    assert driver.fetch("t", 0, require_stable=True) == (-1, 88)
    assert driver.fetch("t", 0) == (5, 0)
    # The pending offset does not affect the offsets of other partitions.
    assert driver.fetch("t", 1, require_stable=True) == (-1, 0)


def test_O1_the_first_offset_of_a_partition_is_unstable_while_it_is_pending() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 10))
    assert driver.fetch("t", 0, require_stable=True) == (-1, 88)
    assert driver.fetch("t", 0) == (-1, 0)


def test_O2_an_abort_leaves_the_old_offset() -> None:
    driver = Driver()
    driver.commit(("t", 0, 5))
    driver.txn_commit(7, ("t", 0, 10))
    driver.end_transaction(7, committed=False)
    assert driver.fetch("t", 0, require_stable=True) == (5, 0)
    assert both(driver, "t", 0) == {(5, 0)}


def test_O3_the_later_commit_record_wins_live_and_after_replay() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 10))
    driver.commit(("t", 0, 7))
    driver.end_transaction(7, committed=True)
    assert both(driver, "t", 0) == {(7, 0)}


def test_O3_the_later_record_of_two_transactions_wins_whichever_ends_first() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 10))
    driver.txn_commit(8, ("t", 0, 20))
    driver.end_transaction(8, committed=True)
    assert driver.fetch("t", 0, require_stable=True) == (-1, 88)
    driver.end_transaction(7, committed=True)
    assert driver.fetch("t", 0, require_stable=True) == (20, 0)
    assert both(driver, "t", 0) == {(20, 0)}


def test_O3_the_last_offset_committed_in_a_transaction_wins() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 10))
    driver.txn_commit(7, ("t", 0, 11), ("u", 0, 1))
    driver.end_transaction(7, committed=True)
    assert both(driver, "t", 0) == {(11, 0)}
    assert both(driver, "u", 0) == {(1, 0)}


def test_O4_the_sweep_of_expired_offsets_keeps_pending_offsets() -> None:
    driver = Driver(GroupConfig(offsets_retention_ms=1_000))
    driver.commit(("t", 0, 5), ("old", 0, 5))
    driver.txn_commit(7, ("t", 0, 10))
    driver.advance(1_200_000)
    assert driver.fetch("old", 0) == (-1, 0)
    assert driver.state() is GroupState.EMPTY
    driver.end_transaction(7, committed=True)
    assert both(driver, "t", 0) == {(10, 0)}


@pytest.mark.parametrize("code", [47, 48, 120])
def test_O5_O6_a_refused_append_leaves_no_pending_offset(code: int) -> None:
    # The log refuses the append, because the producer is fenced or has no open transaction in this
    # partition of `__consumer_offsets`.
    driver = Driver()
    driver.commit(("t", 0, 5))
    driver.append_error = code
    assert driver.txn_commit(7, ("t", 0, 10)) == [code]
    driver.append_error = None
    assert driver.fetch("t", 0, require_stable=True) == (5, 0)
    assert not driver.shard.table.offsets.is_group_in_transaction(GROUP)


@pytest.mark.parametrize(("committed", "offset"), [(True, 10), (False, 5)])
def test_O7_pending_offsets_are_pending_again_after_a_fail_over(
    committed: bool, offset: int
) -> None:
    driver = Driver()
    driver.commit(("t", 0, 5))
    driver.txn_commit(7, ("t", 0, 10))
    driver.crash()
    assert driver.fetch("t", 0, require_stable=True) == (-1, 88)
    driver.end_transaction(7, committed=committed)
    assert driver.fetch("t", 0, require_stable=True) == (offset, 0)


def test_O8_a_repeated_marker_changes_no_offset() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 10))
    driver.end_transaction(7, committed=True)
    driver.commit(("t", 0, 11))
    driver.end_transaction(7, committed=True)
    driver.end_transaction(99, committed=False)
    assert both(driver, "t", 0) == {(11, 0)}


def test_O9_offset_commits_of_zombie_members_are_refused_and_change_no_offset() -> None:
    driver = Driver()
    generation_id, (member, other) = driver.stable_group("a", "b")
    driver.txn_commit(7, ("t", 0, 5), member_id=member, generation_id=generation_id)
    driver.end_transaction(7, committed=True)
    zombies: list[tuple[dict[str, Any], int]] = [
        ({"member_id": member, "generation_id": generation_id - 1}, 22),
        ({"member_id": "gone", "generation_id": generation_id}, 25),
        ({"member_id": other, "generation_id": generation_id, "instance": "i"}, 25),
    ]
    for identity, code in zombies:
        assert driver.txn_commit(8, ("t", 0, 99), **identity) == [code]
    assert driver.fetch("t", 0, require_stable=True) == (5, 0)


def test_O9_an_older_owner_of_a_static_instance_is_fenced() -> None:
    driver = Driver()
    old = driver.join(instance="i")
    driver.advance(3_000)
    driver.sync(old.value.member_id, 1, {}, instance="i")
    driver.join(instance="i")
    codes = driver.txn_commit(
        7, ("t", 0, 9), member_id=old.value.member_id, generation_id=1, instance="i"
    )
    assert codes == [82]


def test_O10_a_group_with_a_pending_commit_is_not_deleted() -> None:
    driver = Driver()
    driver.commit(("t", 0, 5))
    driver.txn_commit(7, ("t", 0, 10))
    (refused,) = driver.delete(GROUP).value
    assert refused.error_code == 68
    driver.end_transaction(7, committed=True)
    assert both(driver, "t", 0) == {(10, 0)}
    (deleted,) = driver.delete(GROUP).value
    assert deleted.error_code == 0


def test_O11_oversized_offset_metadata_fails_only_its_partition() -> None:
    driver = Driver()
    commits = [("t", 0, 1), ("t", 1, 2), ("t", 2, 3)]
    codes = driver.txn_commit(7, *commits, metadata={commits[1]: "m" * 4_097})
    assert codes == [0, 12, 0]
    driver.end_transaction(7, committed=True)
    assert [driver.fetch("t", partition)[0] for partition in range(3)] == [1, -1, 3]


def test_two_groups_in_one_transaction_end_together() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 1), group="a")
    driver.txn_commit(7, ("t", 0, 2), group="b")
    driver.end_transaction(7, committed=True)
    assert driver.fetch("t", 0, group="a", require_stable=True) == (1, 0)
    assert driver.fetch("t", 0, group="b", require_stable=True) == (2, 0)


def test_producers_with_a_pending_offset_of_the_same_partition_are_concurrent() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 10), ("t", 1, 10))

    def others(producer_id: int, partition: int, generation_id: int = -1) -> frozenset[int]:
        rows = [TxnOffsetCommitRequestPartition(partition, 20)]
        return driver.shard.concurrent_producers(
            TxnOffsetCommitRequest(
                "t", GROUP, producer_id, 0, generation_id,
                topics=[TxnOffsetCommitRequestTopic("t", partitions=rows)],
            )
        )  # fmt: skip

    assert others(8, 1) == {7}
    assert others(8, 2) == others(7, 1) == frozenset()
    # The commit would be refused because of its generation, so it has no concurrent producers.
    assert others(8, 1, generation_id=5) == frozenset()
    driver.end_transaction(7, committed=True)
    assert others(8, 1) == frozenset()
