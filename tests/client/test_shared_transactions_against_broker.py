"""Processes share a transaction without a group, on one oncelog, on three, and on Apache Kafka: one
process initializes, another writes, a third decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog.testing.broker import QUICK
from oncelog_client import (
    Admin,
    AuthorizationError,
    IllegalStateError,
    KafkaError,
    NewTopic,
    Producer,
    TransactionGoneError,
    TransactionGroup,
    TransactionMember,
    UnsupportedVersionError,
)
from oncelog_client.transaction import group_transactions
from oncelog_client.transaction.session import TransactionSession
from oncelog_protocol.apis import ApiKey
from tests.client.conftest import address_of
from tests.harness.broker import Oncelog
from tests.harness.client_reading import eventually, read_values
from tests.harness.kafka.kafka import Kafka
from tests.harness.lossy_proxy import LossyProxy

TWO_PHASE = {**QUICK, "transaction.two.phase.commit.enable": "true"}


@pytest.fixture(scope="session", params=["oncelog", "cluster", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of one oncelog, of three, then of Apache Kafka."""
    return address_of(request)


@pytest.fixture(params=[2, 1], ids=["tv2", "tv1"])
def transaction_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the `transaction.version` that clients use: 2 or 1. Brokers serve both."""
    version: int = request.param
    if version < 2:
        monkeypatch.setattr(TransactionSession, "cluster_version", version)
        monkeypatch.setattr(group_transactions, "_EPOCH_BUMPS", 1 << 15)
    return version


async def handed_over(
    bootstrap: str, admin: Admin, transactional_id: str, topic: str, *values: bytes
) -> TransactionMember:
    """Return the producer of a dead process. Its transaction is open and has these records."""
    made = await admin.init_producer(transactional_id)
    async with Producer(bootstrap, transactional_id=transactional_id) as producer:
        await producer.adopt_transactions(made)
        await producer.begin_transaction()
        for value in values:
            await producer.send(topic, value)
        handed = await producer.hand_over_transaction()
    assert handed == made
    return made


async def seen(bootstrap: str, topic: str, *values: bytes) -> None:
    """Check that exactly these records become visible. The check waits, because Kafka responds to
    EndTxn before it has written all markers."""

    async def are_there() -> bool:
        found = await read_values(bootstrap, topic, committed=True)
        assert set(found) <= set(values)
        return sorted(value or b"" for value in found) == sorted(values)

    await eventually(are_there)


@pytest.mark.usefixtures("transaction_version")
async def test_one_process_commits_the_records_of_another_and_may_repeat_the_commit(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    member = await handed_over(bootstrap, admin, name, topic, b"one")
    assert await read_values(bootstrap, topic, committed=True) == []
    for _ in range(3):
        await admin.end_transaction(member)
    await seen(bootstrap, topic, b"one")
    with pytest.raises(TransactionGoneError):
        await admin.end_transaction(member, committed=False)
    # The old producer must affect neither the id's next producer nor that producer's transaction.
    after = await handed_over(bootstrap, admin, name, topic, b"two")
    with pytest.raises(TransactionGoneError):
        await admin.end_transaction(member)
    await seen(bootstrap, topic, b"one")
    await admin.end_transaction(after)
    await seen(bootstrap, topic, b"one", b"two")


@pytest.mark.usefixtures("transaction_version")
async def test_another_process_aborts_the_transaction(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    member = await handed_over(bootstrap, admin, name, topic, b"one")
    for _ in range(2):
        await admin.end_transaction(member, committed=False)
    with pytest.raises(TransactionGoneError):
        await admin.end_transaction(member)
    assert await read_values(bootstrap, topic, committed=True) == []


@pytest.mark.usefixtures("transaction_version")
async def test_a_second_init_aborts_the_open_transaction(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    member = await handed_over(bootstrap, admin, name, topic, b"one")
    await admin.init_producer(name)
    with pytest.raises(TransactionGoneError):
        await admin.end_transaction(member)
    assert await read_values(bootstrap, topic, committed=True) == []


async def test_a_timed_out_transaction_cannot_be_committed(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    made = await admin.init_producer(name, transaction_timeout_ms=2_000)
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.adopt_transactions(made)
        await producer.begin_transaction()
        await producer.send(topic, b"late")
        await producer.hand_over_transaction()

    async def is_over() -> bool:
        return (await admin.describe_transactions([name]))[name].state != "Ongoing"

    await eventually(is_over)
    with pytest.raises(TransactionGoneError):
        await admin.end_transaction(made)
    assert await read_values(bootstrap, topic, committed=True) == []


async def test_the_producer_writes_nothing_after_the_end_of_its_transaction(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    """A producer may resume after another process has ended its transaction. The end has bumped the
    epoch (KIP-890), so the producer is fenced."""
    member = await handed_over(bootstrap, admin, name, topic, b"one")
    await admin.end_transaction(member)
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.adopt_transactions(member)
        await producer.begin_transaction()
        await producer.send(topic, b"late")
        with pytest.raises(KafkaError):
            await producer.commit_transaction()
    await seen(bootstrap, topic, b"one")


async def test_a_producer_without_records_hands_over_no_transaction(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    made = await admin.init_producer(name)
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.adopt_transactions(made)
        await producer.begin_transaction()
        assert await producer.hand_over_transaction() is None


async def test_a_lost_answer_is_asked_for_again(tmp_path: Path, name: str) -> None:
    with LossyProxy() as proxy, Oncelog(tmp_path, QUICK | proxy.advertised) as broker:
        proxy.target = broker.address
        async with Admin(proxy.address) as admin:
            await admin.create_topics([NewTopic(name, 1, 1)])
            proxy.to_lose[ApiKey.INIT_PRODUCER_ID] = 1
            member = await handed_over(proxy.address, admin, name, name, b"one")
            proxy.to_lose[ApiKey.END_TXN] = 2
            await admin.end_transaction(member)
            assert proxy.lost == 3
            await seen(proxy.address, name, b"one")


async def test_a_two_phase_transaction_waits_for_its_decision_without_a_timeout(
    tmp_path: Path, name: str
) -> None:
    settings = TWO_PHASE | {
        "transaction.max.timeout.ms": "300",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    }
    with Oncelog(tmp_path, settings) as broker:
        async with Admin(broker.address) as admin:
            await admin.create_topics([NewTopic(name, 1, 1)])
            made = await admin.init_producer(name, two_phase_commit=True)
            ordinary = await admin.init_producer(f"{name}-o", transaction_timeout_ms=300)
            for instance in (made, ordinary):
                async with Producer(broker.address, transactional_id=instance[0]) as producer:
                    await producer.adopt_transactions(instance)
                    await producer.begin_transaction()
                    await producer.send(name, instance[0].encode())
                    await producer.hand_over_transaction()

            async def timed_out() -> bool:
                (row,) = (await admin.describe_transactions([ordinary[0]])).values()
                return row.state != "Ongoing"

            await eventually(timed_out)
            await admin.end_transaction(made)
            with pytest.raises(TransactionGoneError):
                await admin.end_transaction(ordinary)
            await seen(broker.address, name, name.encode())


async def test_a_broker_without_two_phase_commit_refuses_it(
    oncelog_and_kafka: list[tuple[str, type[Exception]]], name: str
) -> None:
    for address, error in oncelog_and_kafka:
        async with Admin(address) as admin:
            with pytest.raises(error):
                await admin.init_producer(name, two_phase_commit=True)
            with pytest.raises(IllegalStateError):
                await admin.init_producer(
                    name, TransactionGroup(name, 1, frozenset()), two_phase_commit=True
                )


@pytest_asyncio.fixture
async def oncelog_and_kafka(
    tmp_path: Path, kafka: Kafka
) -> AsyncIterator[list[tuple[str, type[Exception]]]]:
    """Yield oncelog with two-phase commit disabled, and Kafka, which does not implement it, each
    with its error."""
    with Oncelog(tmp_path, QUICK) as broker:
        yield [(broker.address, AuthorizationError), (kafka.address, UnsupportedVersionError)]
