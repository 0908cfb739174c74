"""The index of a group's unfinished ids. InitProducerId asks it for the ids to abort."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import GroupedTransaction
from oncelog_server.transaction.unfinished import UnfinishedIds
from tests.server.transaction.driver import P0
from tests.server.transaction.grouped.driver import GROUP, IN0, IN1, IN2, GroupDriver


def index_of(driver: GroupDriver) -> UnfinishedIds:
    assert driver.shard.unfinished is not None
    return driver.shard.unfinished


def sharing(driver: GroupDriver, *partitions: TopicPartition, group_id: str = GROUP) -> set[str]:
    return index_of(driver).sharing_input(GroupAssignment(group_id, 9, frozenset(partitions)))


def open_before(driver: GroupDriver, generation_id: int) -> set[str]:
    return index_of(driver).open_before(GroupAssignment(GROUP, generation_id, frozenset()))


def test_only_ids_with_an_incomplete_transaction_are_found() -> None:
    driver = GroupDriver()
    a = driver.member("a", 1, IN0)
    driver.member("b", 1, IN0, IN1)
    assert sharing(driver, IN0, IN1) == set()
    driver.begin(a, P0)
    assert sharing(driver, IN0) == {"a"}
    assert sharing(driver, IN1) == set()
    assert sharing(driver, IN0, group_id="other") == set()
    assert (open_before(driver, 1), open_before(driver, 2)) == (set(), {"a"})


def test_an_id_with_a_pending_decision_is_unfinished_and_is_not_aborted() -> None:
    driver = GroupDriver(finishes=False)
    a = driver.member("a", 1, IN0)
    driver.begin(a, P0)
    driver.holds_commits = True
    driver.end(a.producer_id, a.producer_epoch, True, transactional_id="a")
    assert sharing(driver, IN0) == {"a"}
    assert open_before(driver, 2) == set()
    driver.release()
    assert sharing(driver, IN0) == {"a"}, "the markers are missing"
    driver.holds_commits = False
    driver.finish("a")
    assert sharing(driver, IN0) == set()


def test_the_index_after_a_crash_is_the_one_before() -> None:
    driver = GroupDriver()
    members = [driver.member(name, 1, IN0, IN1) for name in "abc"]
    driver.begin(members[0], P0)
    driver.begin(members[2], P0)
    driver.join("b", 2, IN2)
    before = index_of(driver)
    driver.crash()
    after = index_of(driver)
    assert before is not after
    for name in ("_places", "_assigned", "_open"):
        assert getattr(after, name) == getattr(before, name)


def test_an_id_in_another_group_is_found_there_only() -> None:
    driver = GroupDriver()
    a = driver.member("a", 1, IN0)
    driver.begin(a, P0)
    for _ in range(2):  # the first call aborts the transaction
        moved = driver.join("a", 1, IN1, group_id="other").value
    driver.begin(GroupedTransaction("a", moved.producer_id, moved.producer_epoch), P0)
    assert sharing(driver, IN0, IN1) == set()
    assert sharing(driver, IN1, group_id="other") == {"a"}
    assert open_before(driver, 2) == set()


def test_an_unfinished_id_with_a_new_assignment_is_found_by_that() -> None:
    driver = GroupDriver(finishes=False)
    driver.begin(driver.member("a", 1, IN0), P0)
    driver.join("a", 2, IN1)
    assert sharing(driver, IN0) == set()
    assert sharing(driver, IN1) == {"a"}
    driver.join("a", 3, IN2)  # the transaction is busy, so only the membership changes
    assert sharing(driver, IN1) == set()
    assert sharing(driver, IN2) == {"a"}
    for record in driver.shard.groups.removal(["a"]):
        driver.shard.groups.replay(record)
    assert sharing(driver, IN2) == set()


def lines_of(driver: GroupDriver, name: str, generation_id: int, partition: TopicPartition) -> int:
    """Return the number of lines of the product that InitProducerId executes."""
    return lines_in(lambda: driver.join(name, generation_id, partition))


def lines_in(call: Callable[[], object]) -> int:
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if "oncelog_server" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return count

    traced = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(traced)
    return lines


def in_partition(number: int) -> TopicPartition:
    return TopicPartition("in", number)


def grown(driver: GroupDriver, size: int, generation_id: int) -> list[GroupedTransaction]:
    """Return the members of a group with so many ids, each with an input partition of its own and
    an open transaction."""
    members = []
    for number in range(size):
        member = driver.member(f"id-{number}", generation_id, in_partition(number))
        driver.begin(member, P0)
        members.append(member)
    return members


def test_the_work_of_an_init_does_not_grow_with_the_group() -> None:
    driver = GroupDriver(compares=False)
    grown(driver, 10, 1)
    few = lines_of(driver, "new", 1, in_partition(1_000))
    grown(driver, 500, 1)
    many = lines_of(driver, "newer", 1, in_partition(1_001))
    assert many <= few + 10


def test_only_the_first_init_of_a_generation_looks_at_the_whole_group() -> None:
    """This also holds while the record of the first one is pending."""
    size = 1_000
    driver = GroupDriver(compares=False)
    for number in range(size):
        driver.member(f"id-{number}", 1, in_partition(number))
    assert lines_of(driver, "id-0", 2, in_partition(0)) > size
    assert lines_of(driver, "id-1", 2, in_partition(1)) < size
    driver.holds_commits = True
    assert lines_of(driver, "id-0", 3, in_partition(0)) > size
    assert lines_of(driver, "id-1", 3, in_partition(1)) < size
    driver.release()
    assert driver.shard.groups.newest_generation(GROUP) == 3


def test_the_work_of_a_departure_does_not_grow_with_the_group() -> None:
    driver = GroupDriver(compares=False)
    groups = driver.shard.groups
    grown(driver, 10, 1)
    few = lines_in(lambda: groups.removal(["id-0"]))
    grown(driver, 500, 1)
    assert lines_in(lambda: groups.removal(["id-0"])) <= few + 10
