"""OffsetCommit, TxnOffsetCommit and OffsetDelete: the members that may write, and the records."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.codecs import encode
from oncelog_protocol.internal.group_metadata import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_offset_commit_value,
)
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from oncelog_server.coordinator.shard import TransactionOfRecords
from tests.server.group.driver import GROUP, WALL_MS, Driver
from tests.server.group.entries import Appended, subscription


def last_value(driver: Driver) -> tuple[int, OffsetCommitValue]:
    """Return (version, value) of the last record."""
    entry = driver.log[-1]
    assert isinstance(entry, Appended)
    assert entry.record.value is not None
    version = int.from_bytes(entry.record.value[:2], "big")
    return version, decode_offset_commit_value(entry.record.value)


def delete_offsets(driver: Driver, *topics: str, group: str = GROUP) -> OffsetDeleteResponse:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition()])
            for name in topics
        ],
    )
    return driver.delete_offsets(request).value


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, 0),
        ({"generation_id": 0}, 22),
        ({"generation_id": 2}, 22),
        ({"generation_id": -1}, 22),
        ({"member_id": "unknown"}, 25),
        ({"member_id": ""}, 25),
        ({"member_id": "", "generation_id": -1}, 25),
        ({"instance": "i"}, 25),
        ({"group": "unknown"}, 69),
        ({"group": "unknown", "version": 8}, 22),
        ({"group": "unknown", "generation_id": -1}, 0),
        ({"group": "g" * 32_001, "generation_id": -1}, 24),
    ],
)
def test_producers_that_may_commit(options: dict[str, Any], code: int) -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a")
    written = len(driver.log)
    arguments: dict[str, Any] = {"member_id": member, "generation_id": generation_id, **options}
    codes = driver.commit(("t", 0, 5), ("u", 1, 6), **arguments)
    assert codes == [code, code]
    assert len(driver.log) == written + (2 if code == 0 else 0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, 0),
        ({"generation_id": 0}, 22),
        ({"member_id": "unknown"}, 25),
        ({"instance": "i"}, 25),
        ({"member_id": "", "generation_id": -1}, 0),
        ({"group": "unknown"}, 22),
        ({"group": "unknown", "generation_id": -1}, 0),
        ({"group": ""}, 24),
        ({"group": "g" * 32_001}, 24),
    ],
)
def test_transactional_commits_check_the_member_the_generation_and_the_group(
    options: dict[str, Any], code: int
) -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a")
    arguments: dict[str, Any] = {"member_id": member, "generation_id": generation_id, **options}
    codes = driver.txn_commit(7, ("t", 0, 5), ("u", 1, 6), **arguments)
    assert codes == [code, code]


def test_a_simple_group_begins_with_its_first_offset() -> None:
    driver = Driver()
    assert driver.commit(("t", 0, 5)) == [0]
    assert driver.fetch("t", 0) == (5, 0)
    assert driver.load().table.groups[GROUP].protocol_type is None


def test_an_empty_group_id_may_hold_offsets_as_in_kafka() -> None:
    driver = Driver()
    assert driver.commit(("t", 0, 5), group="") == [0]
    assert driver.fetch("t", 0, group="") == (5, 0)


def test_the_record_has_the_commit_time_by_the_wall_clock() -> None:
    driver = Driver(now_ms=42)
    driver.commit(("t", 3, 5), metadata="m")
    entry = driver.log[-1]
    assert isinstance(entry, Appended)
    assert decode_key(entry.record.key) == OffsetCommitKey(GROUP, "t", 3)
    version, value = last_value(driver)
    assert version == 3
    assert value == OffsetCommitValue(5, -1, "m", WALL_MS + 42)
    assert entry.transaction is None


def test_no_metadata_is_empty_metadata() -> None:
    driver = Driver()
    driver.commit(("t", 0, 5), metadata=None)
    assert last_value(driver)[1].metadata == ""


@pytest.mark.parametrize("retention_ms", [(1 << 63) - 1, -(1 << 63)])
def test_a_retention_beyond_the_largest_timestamp_is_accepted(retention_ms: int) -> None:
    """The expiry time is limited to an int64. A later time could not be encoded in the record. The
    fuzzer found this case."""
    driver = Driver()
    assert driver.commit(("t", 0, 5), retention_ms=retention_ms, version=4) == [0]


def test_a_retention_in_the_request_makes_a_record_of_version_1() -> None:
    driver = Driver()
    driver.commit(("t", 0, 5), retention_ms=1_000, version=4)
    version, value = last_value(driver)
    assert (version, value.expire_timestamp) == (1, driver.wall_ms + 1_000)


def test_records_of_a_transaction_are_written_for_its_producer() -> None:
    driver = Driver()
    driver.txn_commit(7, ("t", 0, 5))
    entry = driver.log[-1]
    assert isinstance(entry, Appended)
    assert entry.transaction == TransactionOfRecords(producer_id=7, producer_epoch=0)


def test_h68_an_offset_commit_accepts_metadata_up_to_the_limit() -> None:
    driver = Driver()
    assert driver.commit(("t", 0, 5), metadata="m" * 4_096) == [0]
    assert driver.commit(("t", 0, 6), metadata="m" * 4_097) == [12]
    assert driver.fetch("t", 0) == (5, 0)


@pytest.mark.parametrize(
    ("failure", "expected"), [(6, 16), (7, 15), (10, -1), (13, 14), (19, 15), (47, 47), (120, 120)]
)
def test_a_failed_commit_has_an_error_for_every_partition(failure: int, expected: int) -> None:
    driver = Driver(append_error=failure)
    assert driver.commit(("t", 0, 5), ("u", 0, 6)) == [expected, expected]
    assert driver.txn_commit(7, ("t", 0, 5), ("u", 0, 6)) == [expected, expected]
    assert driver.fetch("t", 0) == (-1, 0)


@pytest.mark.parametrize("version", [9, 10])
def test_a_response_names_its_topics_as_the_request_did(version: int) -> None:
    driver = Driver()
    topic = OffsetCommitRequestTopic(
        name="t", topic_id=b"\1" * 16, partitions=[OffsetCommitRequestPartition()]
    )
    request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
    response = driver.run(driver.shard.offset_commit(request, driver.caller(version)), version)
    assert (response.value.topics[0].name, response.value.topics[0].topic_id) == ("t", b"\1" * 16)
    assert encode(response.value, version)


def test_a_commit_gets_its_response_when_its_records_are_committed() -> None:
    driver = Driver(holds_commits=True)
    request = OffsetCommitRequest(group_id=GROUP)
    answer = driver.run(driver.shard.offset_commit(request, driver.caller(9)))
    assert answer.done  # The request writes no record, so its response waits for no commit.
    topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition()])
    request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
    answer = driver.run(driver.shard.offset_commit(request, driver.caller(9)))
    assert not answer.done
    driver.release_commits()
    assert answer.done


def test_offsets_of_unsubscribed_topics_can_be_deleted() -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a", protocols={"range": subscription("s")})
    driver.commit(("s", 0, 1), ("t", 0, 2), member_id=member, generation_id=generation_id)
    driver.txn_commit(7, ("u", 0, 3))
    written = len(driver.log)
    response = delete_offsets(driver, "s", "t", "u", "never")
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert codes == [86, 0, 0, 0]
    assert len(driver.log) == written + 2
    assert [driver.fetch(topic, 0)[0] for topic in "stu"] == [1, -1, -1]
    driver.end_transaction(7, committed=True)
    assert driver.fetch("u", 0) == (-1, 0)


def test_a_group_with_unreadable_subscriptions_counts_as_subscribed_to_every_topic() -> None:
    driver = Driver()
    driver.stable_group("a", protocols={"range": b"?"})
    assert delete_offsets(driver, "t").topics[0].partitions[0].error_code == 86


def test_offsets_of_groups_with_members_of_another_protocol_type_cannot_be_deleted() -> None:
    driver = Driver()
    driver.stable_group("a", protocol_type="connect", protocols={"eager": b""})
    assert delete_offsets(driver, "t").error_code == 68
    assert delete_offsets(driver, "t", group="").error_code == 24
    assert delete_offsets(driver, "t", group="unknown").error_code == 69


def test_a_failed_deletion_has_an_error() -> None:
    driver = Driver()
    driver.commit(("t", 0, 5))
    driver.append_error = 6
    assert delete_offsets(driver, "t").error_code == 16
    assert driver.fetch("t", 0) == (5, 0)
