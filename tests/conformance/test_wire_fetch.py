"""Raw Fetch, ListOffsets and OffsetForLeaderEpoch: limits, sessions (KIP-227), waits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from oncelog_protocol.records.batch import build_batch, split_batches
from oncelog_protocol.records.record import NewRecord
from tests.conformance.conftest import KEPT, Target, create_topic
from tests.conformance.differences import UNKNOWN_ISOLATION
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    new_identity,
    produce,
    records,
    topic_id,
)

LARGE = 1 << 20


def place(
    topic: str, *partitions: tuple[int, int], epoch: int = -1, size: int = LARGE
) -> FetchTopic:
    """Return the partitions and offsets of one topic for a Fetch."""
    return FetchTopic(
        topic=topic,
        partitions=[
            FetchPartition(
                at, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=size
            )
            for at, offset in partitions
        ],
    )


def fetch(wire: Wire, *topics: FetchTopic, committed: bool = False) -> PartitionData:
    """Return the first partition of a response without a session."""
    request = FetchRequest(isolation_level=int(committed), topics=list(topics))
    response: FetchResponse = wire.call(request, 12)
    assert response.error_code == ErrorCode.NONE
    return response.responses[0].partitions[0]


def offsets_in(data: PartitionData) -> list[int]:
    """Return the base offsets of the fetched batches."""
    return [header.base_offset for _, header in split_batches(data.records or b"")]


def list_offset(
    wire: Wire, topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, version: int = 7
) -> ListOffsetsPartitionResponse:
    """Return the result of ListOffsets for one partition."""
    wanted = ListOffsetsPartition(partition, current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, [wanted])])
    response: ListOffsetsPartitionResponse = wire.call(request, version).topics[0].partitions[0]
    return response


def test_a_fetch_in_the_middle_and_at_the_ends(wire: Wire, topic: str) -> None:
    """The response begins with the whole batch that contains the offset. At the log end it is
    empty. An offset beyond the end, or a negative one, is out of range."""
    for _ in range(3):
        produce(wire, topic, build_batch(records(10)))
    assert offsets_in(fetch(wire, place(topic, (0, 15)))) == [10, 20]
    end = fetch(wire, place(topic, (0, 30)))
    assert (end.error_code, len(end.records or b""), end.high_watermark) == (ErrorCode.NONE, 0, 30)
    for offset in (31, -5):
        refused = fetch(wire, place(topic, (0, offset)))
        assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, offset


def test_a_batch_larger_than_the_limit_is_sent_all_the_same(wire: Wire, topic: str) -> None:
    """KIP-74: the first batch of the first partition is always returned, so that a reader
    advances."""
    for _ in range(2):
        produce(wire, topic, build_batch(records(1, b"x" * 5_000)))
        produce(wire, topic, build_batch(records(1, b"x" * 5_000)), partition=1)
    request = FetchRequest(max_bytes=100, topics=[place(topic, (0, 0), (1, 0), size=100)])
    response: FetchResponse = wire.call(request, 12)
    first, second = response.responses[0].partitions
    assert offsets_in(first) == [0]
    assert len(second.records or b"") < 5_000


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, "NONE"), (7, "UNKNOWN_LEADER_EPOCH"), (-1, "NONE")]
)
def test_leader_epochs_are_compared(wire: Wire, topic: str, epoch: int, code: str) -> None:
    """KIP-320: a client with a newer leader epoch than the broker's gets an error."""
    assert ErrorCode(fetch(wire, place(topic, (0, 0), epoch=epoch)).error_code).name == code
    assert ErrorCode(list_offset(wire, topic, -1, epoch=epoch).error_code).name == code


def test_unknown_partitions_and_ids(wire: Wire, topic: str) -> None:
    """An unknown name gets UNKNOWN_TOPIC_OR_PARTITION, and an unknown id UNKNOWN_TOPIC_ID. The
    other topics of the request are served."""
    request = FetchRequest(topics=[place(f"{topic}-no", (0, 0)), place(topic, (9, 0), (1, 0))])
    answer = wire.call(request, 12)
    codes = {
        (response.topic, part.partition_index): part.error_code
        for response in answer.responses
        for part in response.partitions
    }
    assert codes == {(f"{topic}-no", 0): 3, (topic, 9): 3, (topic, 1): 0}
    unknown, known = place(topic, (0, 0)), place(topic, (0, 0))
    unknown.topic_id, known.topic_id = bytes(range(16)), topic_id(wire, topic)
    answer = wire.call(FetchRequest(topics=[unknown, known]), 13)
    by_id = {response.topic_id: response.partitions[0].error_code for response in answer.responses}
    assert by_id == {unknown.topic_id: ErrorCode.UNKNOWN_TOPIC_ID, known.topic_id: ErrorCode.NONE}


def test_a_session_says_only_what_changed(wire: Wire, topic: str) -> None:
    """KIP-227: the session has a full response, incremental responses, added and forgotten
    partitions, and a close."""
    first = wire.call(FetchRequest(session_epoch=0, topics=[place(topic, (0, 0), (1, 0))]), 12)
    session = first.session_id
    assert session != 0
    assert len(first.responses[0].partitions) == 2

    def incremental(epoch: int, **what: list[FetchTopic] | list[ForgottenTopic]) -> FetchResponse:
        request = FetchRequest(session_id=session, session_epoch=epoch)
        for name, value in what.items():
            setattr(request, name, value)
        response: FetchResponse = wire.call(request, 12)
        return response

    assert incremental(1).responses == []
    produce(wire, topic, build_batch(records()), partition=1)
    changed = incremental(2).responses
    assert [partition.partition_index for partition in changed[0].partitions] == [1]
    produce(wire, topic, build_batch(records()), partition=2)
    gone = [ForgottenTopic(topic=topic, partitions=[1])]
    response = incremental(3, topics=[place(topic, (2, 0))], forgotten_topics_data=gone)
    assert [partition.partition_index for partition in response.responses[0].partitions] == [2]
    assert incremental(3).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert incremental(-1).session_id == 0
    assert incremental(4).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_that_is_fetched_and_forgotten_is_forgotten(wire: Wire, topic: str) -> None:
    """If the session ends with it, the response is as without a session."""
    for partition in (0, 1):
        produce(wire, topic, build_batch(records()), partition=partition)
    request = FetchRequest(session_epoch=0, topics=[place(topic, (0, 0))])
    session = wire.call(request, 12).session_id
    found = []
    for epoch, partition in ((1, 1), (2, 0)):
        request = FetchRequest(
            session_id=session,
            session_epoch=epoch,
            topics=[place(topic, (partition, 0))],
            forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[partition])],
        )
        response = wire.call(request, 12)
        fetched = [part.partition_index for row in response.responses for part in row.partitions]
        found.append((response.session_id == session, fetched))
    assert found == [(True, [0]), (False, [0])]


def test_a_fetch_waits_for_records(target: Target, wire: Wire, topic: str) -> None:
    """With min_bytes 1 the first record ends the wait. Without records, `max_wait_ms` ends it."""
    request = FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=[place(topic, (0, 0))])
    wire.send(request, 12)
    with Wire(target.address) as other:
        produce(other, topic, build_batch(records()))
    response = wire.answer()
    assert offsets_in(response.responses[0].partitions[0]) == [0]
    start = time.monotonic()
    request = FetchRequest(max_wait_ms=300, min_bytes=1, topics=[place(topic, (0, 1))])
    assert offsets_in(wire.call(request, 12).responses[0].partitions[0]) == []
    assert 0.25 < time.monotonic() - start < 5


def test_a_fetch_gets_the_aborted_transactions(wire: Wire, topic: str) -> None:
    """read_committed returns all records up to the last stable offset, with the list of aborted
    transactions."""

    def transaction(producer: Identity, commit: bool) -> Identity:
        assert (
            produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
        # The test sends EndTxn twice. Kafka responds to the second when the transaction is complete
        # and the next may begin.
        for _ in range(2):
            assert end_transaction(wire, producer, commit=commit).error_code == ErrorCode.NONE
        return producer.aged(1)

    producer = new_identity(wire, topic)
    for commit in (True, False, False):
        producer = transaction(producer, commit)
    wait_until(lambda: fetch(wire, place(topic, (0, 0))).last_stable_offset == 6, "LSO = HW")
    found = fetch(wire, place(topic, (0, 0)), committed=True)
    aborted = found.aborted_transactions or []
    assert [(transaction.producer_id, transaction.first_offset) for transaction in aborted] == [
        (producer.producer_id, 2),
        (producer.producer_id, 4),
    ]
    assert offsets_in(found) == list(range(6))
    assert fetch(wire, place(topic, (0, 0))).aborted_transactions is None
    late = fetch(wire, place(topic, (0, 4)), committed=True).aborted_transactions or []
    assert [producer.first_offset for producer in late] == [4]


def test_every_version_of_fetch(wire: Wire, topic: str) -> None:
    """Versions 4 to 17 return the same batch. The newer versions name the topic by its id."""
    produce(wire, topic, build_batch(records(3)))
    for version in range(4, 18):
        where = place(topic, (0, 0))
        where.topic_id = topic_id(wire, topic)
        response = wire.call(FetchRequest(topics=[where]), version)
        assert offsets_in(response.responses[0].partitions[0]) == [0], version


def test_offsets_by_time(wire: Wire, admin: Any, name: str) -> None:
    """The result is the first offset at or after a time, across batches and with unordered
    timestamps (KIP-79, KIP-734)."""
    topic = name
    create_topic(admin, topic, config=KEPT)
    for stamps in ((10, 50, 30), (20, 40), (60,)):
        produce(wire, topic, build_batch([NewRecord(stamp, None, b"v") for stamp in stamps]))
    found = {
        at: (list_offset(wire, topic, at).offset, list_offset(wire, topic, at).timestamp)
        for at in (0, 10, 11, 50, 51, 60, 61, -1, -2, -3)
    }
    assert found == {
        0: (0, 10),
        10: (0, 10),
        11: (1, 50),
        50: (1, 50),
        51: (5, 60),
        60: (5, 60),
        61: (-1, -1),
        -1: (6, -1),
        -2: (0, -1),
        -3: (5, 60),
    }
    unknown = list_offset(wire, f"{topic}-no", -1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_negative_timestamps_stand_for_special_offsets(wire: Wire, topic: str) -> None:
    """Negative timestamps stand for the start and the end of the log, the start of the local log,
    and two offsets of tiered storage, which is missing (KIP-405)."""
    produce(wire, topic, build_batch(records(3)))
    found = {
        at: (record.error_code, record.offset)
        for at in (-1, -2, -4, -5, -6)
        for record in [list_offset(wire, topic, at, version=11)]
    }
    assert found == {-1: (0, 3), -2: (0, 0), -4: (0, 0), -5: (0, -1), -6: (0, -1)}


def test_a_partition_named_twice_in_list_offsets_is_refused(wire: Wire, topic: str) -> None:
    wanted = [ListOffsetsPartition(index, timestamp=-1) for index in (0, 1, 0)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, wanted)])
    response = wire.call(request, 9).topics[0].partitions
    codes = {partition.partition_index: partition.error_code for partition in response}
    assert codes == {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NONE}


def test_an_isolation_level_that_does_not_exist_is_refused(
    target: Target, wire: Wire, topic: str
) -> None:
    expected = UNKNOWN_ISOLATION.expected(target.name)
    fetched = wire.call(FetchRequest(isolation_level=2, topics=[place(topic, (0, 0))]), 12)
    assert ErrorCode(fetched.error_code).name == expected
    wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=2, topics=[wanted])
    (partition,) = wire.call(request, 9).topics[0].partitions
    assert ErrorCode(partition.error_code).name == expected


def test_the_highest_timestamp_of_an_open_transaction(wire: Wire, topic: str) -> None:
    """KIP-734 and KIP-98: for a read_committed client, records of the open transaction do not
    count."""
    producer = new_identity(wire, topic)
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    wanted = [ListOffsetsPartition(0, timestamp=-3)]
    for isolation, offset in ((0, 0), (1, -1)):
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(topic, wanted)]
        )
        (partition,) = wire.call(request, 9).topics[0].partitions
        assert (partition.error_code, partition.offset) == (ErrorCode.NONE, offset)
    assert end_transaction(wire, producer, commit=False).error_code == ErrorCode.NONE


def test_the_end_of_an_epoch(wire: Wire, topic: str) -> None:
    """OffsetForLeaderEpoch: the current epoch ends at the log end, a future epoch is unknown."""
    produce(wire, topic, build_batch(records(4)))
    found = []
    for epoch in (0, 5):
        partition = OffsetForLeaderPartition(0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, [partition])])
        for version in (2, 3, 4):
            response = wire.call(request, version).topics[0].partitions[0]
            found.append((response.error_code, response.leader_epoch, response.end_offset))
    assert found == [(0, 0, 4)] * 3 + [(0, -1, -1)] * 3
