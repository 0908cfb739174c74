"""A task reads the log for which its offsets were planned, and never another log of the same
name."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import InputPartition

from oncelog_client import Admin, NewTopic, Producer, TopicPartition
from oncelog_client.config import ConsumerSettings, consumer_config
from oncelog_client.io.connection import _NEWEST_USED, Connection
from oncelog_client.spark.source import range_reader
from oncelog_client.spark.source.partition_reads import PartitionReads, Task
from oncelog_client.spark.source.plan.data_loss import DataLossError
from oncelog_client.spark.source.plan.splits import OffsetRange
from oncelog_client.spark.source.range_reader import (
    NO_TOPIC_ID,
    ReadSettings,
    TopicRecreated,
    read_range,
)
from oncelog_protocol.apis import ApiKey
from tests.harness.broker import Oncelog

PARTITION = TopicPartition("t", 0)
MESSAGE = (
    "topic t, partition 0 was deleted and created again while it was read: the records of the old"
    " log from offset 3 to 6 may not have been read"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with Oncelog(tmp_path_factory.mktemp("oncelog")) as running:
        yield running


async def create(broker: Oncelog, value: bytes) -> bytes:
    """Create the topic, again if it exists, with six records of this value. Return its id."""
    async with Admin(broker.address) as admin, Producer(broker.address) as producer:
        if PARTITION.topic in await admin.list_topics():
            await admin.delete_topics([PARTITION.topic])
        await admin.create_topics([NewTopic(PARTITION.topic, 1, 1)])
        for _ in range(6):
            await producer.send(PARTITION.topic, value, partition=0)
        await producer.flush()
        (described,) = (await admin.describe_topics([PARTITION.topic])).values()
        return described.topic_id


def settings(broker: Oncelog, name: str) -> ReadSettings:
    given: ConsumerSettings = {"client_id": name, "isolation_level": "read_committed"}
    return ReadSettings(consumer=consumer_config(broker.address, given), poll_timeout_ms=20_000)


def values(
    settings: ReadSettings, start: int, end: int, topic_id: bytes = NO_TOPIC_ID
) -> list[bytes]:
    batches = read_range(settings, PARTITION, start, end, ["value"], topic_id)
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("is_known", [True, False], ids=["known-leader", "new-process"])
async def test_a_range_of_a_deleted_log_has_no_records_of_the_new_log(
    broker: Oncelog, is_known: bool
) -> None:
    old = await create(broker, b"old")
    mine = settings(broker, f"by-id-{is_known}")
    if is_known:
        assert values(mine, 0, 3, old) == [b"old"] * 3
    new = await create(broker, b"new")
    with pytest.raises(TopicRecreated):
        values(mine, 3, 6, old)
    assert values(mine, 3, 6, new) == [b"new"] * 3


async def test_stale_metadata_are_not_taken_for_a_new_log(broker: Oncelog) -> None:
    """The process knows the old log, and the range was planned with the new log."""
    old = await create(broker, b"old")
    mine = settings(broker, "stale")
    assert values(mine, 0, 3, old) == [b"old"] * 3
    new = await create(broker, b"new")
    assert values(mine, 3, 6, new) == [b"new"] * 3


async def test_a_broker_without_fetch_by_id_is_checked_when_the_leader_is_looked_up(
    broker: Oncelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = Connection.version

    def version(self: Connection, request: object, versions: range = range(1 << 15)) -> int:
        return spoken(self, request, versions if versions[0] < 13 else range(1 << 14, 1 << 15))

    monkeypatch.setattr(Connection, "version", version)
    old = await create(broker, b"old")
    new = await create(broker, b"new")
    mine = settings(broker, "by-name")
    with pytest.raises(TopicRecreated):
        values(mine, 3, 6, old)
    assert values(mine, 3, 6, new) == [b"new"] * 3
    (versions,) = {key[3] for key in range_reader._idle if key[1] == mine.consumer}
    assert versions.fetch == _NEWEST_USED[ApiKey.FETCH]


async def test_a_range_without_a_topic_id_is_read_by_name(broker: Oncelog) -> None:
    await create(broker, b"any")
    assert values(settings(broker, "no-id"), 3, 6) == [b"any"] * 3


async def test_a_new_log_is_an_error_or_a_warning(
    broker: Oncelog, caplog: pytest.LogCaptureFixture
) -> None:
    old = await create(broker, b"old")
    await create(broker, b"new")
    task = InputPartition(Task(OffsetRange(PARTITION, 3, 6), old))
    with pytest.raises(DataLossError, match=MESSAGE):
        list(PartitionReads(settings(broker, "fails"), ("value",), True).read(task))
    with caplog.at_level(logging.WARNING):
        lenient = PartitionReads(settings(broker, "warns"), ("value",), False)
        assert list(lenient.read(task)) == []
    assert MESSAGE in caplog.text
