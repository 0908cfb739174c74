"""Many partitions under one limit of bytes (KIP-74); a reader with a log that differs from the
broker's."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import FetchResult, PartitionResult, read_partitions
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.slices import at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition

SIZE = len(batch())
RU = Isolation.READ_UNCOMMITTED


def key(index: int) -> PartitionKey:
    return PartitionKey("topic", index)


def filled(count: int, batches: int) -> dict[PartitionKey, Partition]:
    found = {}
    for index in range(count):
        found[key(index)] = led = partition()
        for _ in range(batches):
            led.append(batch(), now_ms=NOW_MS)
    return found


def fetch(
    partitions: dict[PartitionKey, Partition], wanted: list[FetchedPartition], max_bytes: int
) -> FetchResult:
    def find(asked: PartitionKey) -> Partition:
        if asked not in partitions:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partitions[asked]

    return at_its_end(read_partitions(wanted, find, RU, max_bytes))


def sizes(result: FetchResult) -> list[int]:
    return [
        0
        if partition.read is None or partition.read.records is None
        else len(partition.read.records)
        for partition in result.partitions
    ]


@pytest.mark.parametrize(
    ("max_bytes", "each", "expected"),
    [
        pytest.param(10_000, 10_000, [3 * SIZE] * 3, id="both limits have room for all"),
        pytest.param(10_000, SIZE, [SIZE] * 3, id="the partition limit is one batch"),
        pytest.param(10_000, 1, [SIZE, 0, 0], id="the first batch exceeds the partition limit"),
        pytest.param(1, 10_000, [SIZE, 0, 0], id="the first batch exceeds the request limit"),
        pytest.param(0, 0, [SIZE, 0, 0], id="both limits are 0"),
        pytest.param(
            4 * SIZE, 10_000, [3 * SIZE, SIZE, 0], id="the second partition gets the rest"
        ),
        pytest.param(3 * SIZE + 1, 10_000, [3 * SIZE, 0, 0], id="the rest is less than a batch"),
    ],
)
def test_a_response_respects_the_limits_of_the_request_and_of_each_partition(
    max_bytes: int, each: int, expected: list[int]
) -> None:
    wanted = [FetchedPartition(key(index), 0, each) for index in range(3)]
    result = fetch(filled(3, 3), wanted, max_bytes)
    assert sizes(result) == expected
    assert (result.size, result.is_urgent) == (sum(expected), False)


def test_the_first_batch_may_exceed_the_limit_also_after_an_empty_partition() -> None:
    partitions = filled(2, 1)
    wanted = [FetchedPartition(key(0), 1, 1), FetchedPartition(key(1), 0, 1)]
    assert sizes(fetch(partitions, wanted, 1)) == [0, SIZE]


def test_every_partition_has_its_own_error_and_any_error_is_urgent() -> None:
    partitions = filled(3, 1)
    partitions[key(1)].become_follower(1, 1)
    wanted = [FetchedPartition(key(index), 0, 1_000) for index in range(4)]
    wanted[2].fetch_offset = 9
    result = fetch(partitions, wanted, 10_000)
    assert [partition.code for partition in result.partitions] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (result.is_urgent, sizes(result)) == (True, [SIZE, 0, 0, 0])


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.NONE), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_KIP_320_only_a_reader_with_another_leader_epoch_is_refused(
    epoch: int, code: ErrorCode
) -> None:
    partitions = filled(1, 1)
    partitions[key(0)].become_leader(0, 1, (0,), (0,))
    wanted = [FetchedPartition(key(0), 0, 1_000, current_leader_epoch=epoch)]
    assert fetch(partitions, wanted, 1_000).partitions[0].code is code


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        pytest.param(0, 2, None, id="the logs are equal"),
        pytest.param(0, 3, (0, 2), id="the reader has read more of epoch 0 than the log has"),
        pytest.param(1, 3, (0, 2), id="the reader has an epoch that the log never had"),
        pytest.param(5, 4, None, id="the newest epoch"),
        pytest.param(-1, 3, None, id="the request has no epoch"),
    ],
)
def test_KIP_595_a_reader_gets_the_offset_at_which_its_log_diverges(
    epoch: int, offset: int, expected: tuple[int, int] | None
) -> None:
    partitions = filled(1, 2)
    partitions[key(0)].become_leader(0, 5, (0,), (0,))
    for _ in range(2):
        partitions[key(0)].append(batch(), now_ms=NOW_MS)
    wanted = [FetchedPartition(key(0), offset, 1_000, last_fetched_epoch=epoch)]
    result = fetch(partitions, wanted, 1_000)
    (row,) = result.partitions
    assert row.diverging == expected
    assert result.is_urgent is (expected is not None)
    assert row.read is not None
    assert (row.read.records is None) is (expected is not None or offset == 4)


def test_KIP_320_logs_diverge_also_if_the_brokers_log_ends_before_the_position() -> None:
    """Without a diverging epoch in the response, the reader would get OFFSET_OUT_OF_RANGE and reset
    its position, or skip later records."""
    partitions = filled(1, 2)
    wanted = [FetchedPartition(key(0), 9, 1_000, last_fetched_epoch=0)]
    (response,) = fetch(partitions, wanted, 1_000).partitions
    assert (response.code, response.diverging) == (ErrorCode.NONE, (0, 2))


def test_KIP_320_an_offset_before_the_log_start_is_out_of_range_for_any_epoch() -> None:
    partitions = filled(1, 2)
    at_its_end(partitions[key(0)].delete_records_before(2, NOW_MS))
    wanted = [FetchedPartition(key(0), 1, 1_000, last_fetched_epoch=0)]
    (response,) = fetch(partitions, wanted, 1_000).partitions
    assert response.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_epoch_newer_than_the_logs_epochs_is_out_of_range() -> None:
    wanted = [FetchedPartition(key(0), 0, 1_000, last_fetched_epoch=9)]
    (response,) = fetch(filled(1, 1), wanted, 1_000).partitions
    assert response.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_KIP227_an_incremental_response_has_only_changes_since_the_last_response() -> None:
    partitions = filled(1, 1)
    (found,) = partitions.values()
    wanted = [FetchedPartition(key(0), 1, 10_000)]

    def read() -> PartitionResult:
        (result,) = fetch(partitions, wanted, 10_000).partitions
        return result

    assert read().is_news(), "the reader does not know the offsets yet"
    read().mark_sent()
    assert not read().is_news()
    found.append(batch(), now_ms=NOW_MS)
    assert read().is_news()
    wanted[0].fetch_offset = 2
    assert read().is_news(), "the high watermark is new"
    read().mark_sent()
    assert not read().is_news()
    at_its_end(found.delete_records_before(1, NOW_MS))
    assert read().is_news(), "the log start offset is new"


def test_KIP227_an_error_is_in_every_response_and_its_end_only_in_the_next_response() -> None:
    wanted = [FetchedPartition(key(0), 1, 10_000)]
    partitions = filled(1, 1)
    (before,) = fetch(partitions, wanted, 10_000).partitions
    before.mark_sent()
    for _ in range(2):
        (failed,) = fetch({}, wanted, 10_000).partitions
        assert failed.is_news()
        failed.mark_sent()
    (after,) = fetch(partitions, wanted, 10_000).partitions
    assert after.is_news()
    after.mark_sent()
    (again,) = fetch(partitions, wanted, 10_000).partitions
    assert not again.is_news()
