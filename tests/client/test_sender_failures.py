"""Whatever goes wrong inside a producer, no future and no call waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_client import FatalError, KafkaError, Producer, TopicPartition
from oncelog_protocol.records.record import EncodedRecords
from tests.broker import Oncelog
from tests.client.conftest import QUICK
from tests.client.reading import DEADLINE_S, read_values

TOO_LATE = 1 << 70


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield broker.address


async def test_what_no_record_can_hold_is_refused_and_the_producer_goes_on(
    producer: Producer, topic: str
) -> None:
    wrong: Any = "text"
    for fields in (
        {"value": wrong},
        {"key": wrong},
        {"headers": [(b"h", b"")]},
        {"partition": 1.0},
    ):
        with pytest.raises(TypeError):
            await producer.send(topic, **fields)
    with pytest.raises(ValueError, match="timestamp_ms"):
        await producer.send(topic, b"", timestamp_ms=1 << 63)
    for name in (7, "\ud800"):
        unnamed: Any = name
        with pytest.raises((TypeError, ValueError), match="topic"):
            await producer.send(unnamed, b"")
    await producer.partitions_for(topic)
    async with asyncio.timeout(DEADLINE_S):
        await (await producer.send(topic, b"good"))


async def test_a_batch_that_cannot_be_encoded_fails_alone(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    good = [await producer.send(topic, b"before", partition=0)]
    bad = await producer.send_encoded(partition, EncodedRecords(b"", 1, TOO_LATE, TOO_LATE))
    good.append(await producer.send(topic, b"after", partition=0))
    async with asyncio.timeout(DEADLINE_S):
        await producer.flush()
    assert isinstance(bad.exception(), KafkaError)
    assert [future.result().offset for future in good] == [0, 1]
    assert await read_values(bootstrap, topic, committed=False) == [b"before", b"after"]


async def test_a_transaction_with_one_is_aborted(bootstrap: str, topic: str, name: str) -> None:
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"aborted", partition=1)
        bad = EncodedRecords(b"", 1, TOO_LATE, TOO_LATE)
        await producer.send_encoded(TopicPartition(topic, 0), bad)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(KafkaError, match="cannot be encoded"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"committed", partition=0)
    assert await read_values(bootstrap, topic, committed=True) == [b"committed"]


def break_sender(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its next turn."""

    def broken(now_ms: float) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(producer._accumulator, "expire", broken)


async def test_a_sender_that_ends_fails_all_there_is_and_all_that_comes(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(DEADLINE_S), Producer(bootstrap, linger_ms=60_000) as producer:
        pending = await producer.send(topic, b"never written")
        break_sender(producer, monkeypatch)
        await producer.flush()
        with pytest.raises(FatalError, match="a defect"):
            await pending
        for call in (producer.send(topic, b""), producer.flush(), producer.partitions_for(topic)):
            with pytest.raises(FatalError, match="a defect"):
                await call


async def test_a_commit_without_a_sender_does_not_succeed(
    bootstrap: str, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        Producer(bootstrap, transactional_id=name, linger_ms=60_000) as producer,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"never written")
        break_sender(producer, monkeypatch)
        with pytest.raises(FatalError, match="a defect"):
            await producer.commit_transaction()
