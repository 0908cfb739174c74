"""A network that duplicates requests, and delays or reorders requests on different connections,
during transactions of current clients (transaction version 2). Also an old client that closes its
connection."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.proxy import Delay, Direction, Duplicate, Fate, Frame, Proxy
from oncelog.testing.wire import Wire
from oncelog_client import KafkaError, Producer
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest
from tests.harness.broker import Oncelog
from tests.harness.driving import (
    QUICK,
    create,
    end_offset,
    events,
    last_stable_offset,
    merged,
    state,
    values,
)
from tests.harness.transacting import add_partitions
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, batch, end_transaction, new_identity, produce

PARTITIONS = range(3)
TRANSACTIONS = 60
# In the test with delayed requests and responses: the transactions of each writer, and the number
# of writers.
LATE_TRANSACTIONS, LATE_WRITERS = 9, 6
LATEST_S = 2.0
SEED = 7
# The requests that are not delayed, because a client needs their responses before any other
# request.
LEFT_ALONE = {ApiKey.API_VERSIONS, ApiKey.METADATA}


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as proxy:
        yield proxy


@pytest.fixture
def broker(tmp_path: Path, proxy: Proxy) -> Iterator[Oncelog]:
    advertised = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
    with Oncelog(tmp_path, merged(QUICK, advertised)) as broker:
        proxy.target = broker.address
        yield broker
        events(broker)


class Writer:
    """A writer of transactions with one record in each partition. It aborts every third
    transaction. The log must have the values in `committed` and may have those in `unknown`."""

    def __init__(self, address: str, name: str, transactions: int) -> None:
        self._address = address
        self._name = name
        self._transactions = transactions
        self.committed: list[bytes] = []
        self.unknown: list[bytes] = []

    async def run(self) -> None:
        number = 0
        while number < self._transactions:
            try:
                async with Producer(self._address, transactional_id=self._name) as producer:
                    await producer.init_transactions()
                    while number < self._transactions:
                        number += 1
                        await self._write(producer, number)
            except KafkaError:
                continue  # fenced by a duplicate of InitProducerId: the next instance continues

    async def _write(self, producer: Producer, number: int) -> None:
        value = f"{self._name}-{number}".encode()
        await producer.begin_transaction()
        for partition in PARTITIONS:
            await producer.send("t", value=value, partition=partition)
        if number % 3 == 0:
            await producer.abort_transaction()
            return
        self.unknown.append(value)
        await producer.commit_transaction()
        self.unknown.remove(value)
        self.committed.append(value)


async def write_all(
    address: str, *, writers: int = 3, transactions: int = TRANSACTIONS
) -> list[Writer]:
    """Run this number of writers at once."""
    writers_ = [Writer(address, f"writer-{number}", transactions) for number in range(writers)]
    await asyncio.gather(*(writer.run() for writer in writers_))
    return writers_


def check(broker: Oncelog, writers: list[Writer]) -> None:
    """Check that transactions are complete or absent, without duplicates, in order, and decided."""
    with Wire(broker.address) as wire:
        for partition in PARTITIONS:
            wait_for_decision(wire, partition)
        found = [values(wire, "t", partition=partition) for partition in PARTITIONS]
    for writer in writers:
        name = writer._name.encode()
        mine = [[value for value in part if value.rpartition(b"-")[0] == name] for part in found]
        assert mine[0] == mine[1] == mine[2]
        certain = [value for value in mine[0] if value not in writer.unknown]
        assert certain == writer.committed
        assert len(set(mine[0])) == len(mine[0])


def wait_for_decision(wire: Wire, partition: int) -> None:
    wait_until(
        lambda: last_stable_offset(wire, "t", partition) == end_offset(wire, "t", partition),
        f"partition {partition} is decided",
    )


def test_n7_requests_duplicated_on_other_connections_break_no_transaction(
    broker: Oncelog, proxy: Proxy
) -> None:
    """The network duplicates one in twenty requests of any API, and the first Produce and
    EndTxn."""
    randomness = random.Random(SEED)
    doubled: list[Frame] = []
    certain = {ApiKey.PRODUCE, ApiKey.END_TXN}

    def decide(frame: Frame) -> Fate | None:
        if frame.direction is Direction.RESPONSE:
            return None
        if frame.api in certain:
            certain.discard(frame.api)
        elif randomness.random() >= 0.05:
            return None
        doubled.append(frame)
        return Duplicate()

    with Wire(broker.address) as wire:
        create(wire, "t", partitions=len(PARTITIONS))
    proxy.always(decide)
    writers = asyncio.run(write_all(proxy.address))
    check(broker, writers)
    assert {frame.api for frame in doubled} >= {ApiKey.PRODUCE, ApiKey.END_TXN}


def test_n8_requests_reordered_across_connections_break_no_transaction(
    broker: Oncelog, proxy: Proxy
) -> None:
    """The network delays one in ten requests and responses by up to two seconds. Later requests
    then arrive first."""
    randomness = random.Random(SEED)
    late: list[tuple[Frame, float]] = []

    def decide(frame: Frame) -> Fate | None:
        if frame.api in LEFT_ALONE or randomness.random() >= 0.1:
            return None
        late.append((frame, randomness.uniform(0, LATEST_S)))
        return Delay(late[-1][1])

    with Wire(broker.address) as wire:
        create(wire, "t", partitions=len(PARTITIONS))
    proxy.always(decide)
    writers = asyncio.run(
        write_all(proxy.address, writers=LATE_WRITERS, transactions=LATE_TRANSACTIONS)
    )
    check(broker, writers)
    assert all(len(writer.committed) == LATE_TRANSACTIONS * 2 // 3 for writer in writers)
    assert {frame.direction for frame, _ in late} == {Direction.REQUEST, Direction.RESPONSE}
    assert {frame.api for frame, _ in late} >= {ApiKey.PRODUCE, ApiKey.END_TXN}
    assert max(seconds for _, seconds in late) > LATEST_S * 0.9
    assert any(overtaken(proxy, frame) for frame, seconds in late if seconds > LATEST_S / 2)


def overtaken(proxy: Proxy, late: Frame) -> bool:
    """Return True if one of the ten frames after the delayed frame is from another connection."""
    following = proxy.frames[proxy.frames.index(late) + 1 :][:10]
    return any(frame.connection != late.connection for frame in following)


def test_r7v1_an_end_txn_from_a_closed_connection_is_not_executed(broker: Oncelog) -> None:
    """The real case of KAFKA-17754. While the broker is paused, an old client sends EndTxn and
    closes the connection. The resumed broker does not serve this EndTxn. The client then ends the
    transaction on another connection, with the opposite result."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        producer = new_identity(wire, "t")
        assert add_partitions(wire, producer, ("t", 0)) == [ErrorCode.NONE]
        first = produce(
            wire, "t", batch(producer, 0, value=b"first"), producer=producer, version=11
        )
        assert first.error_code == ErrorCode.NONE
        given_up = Wire(broker.address)
        given_up.call(_ending(Identity(producer.producer_id, 99, "t")), 3)
        broker._running().send_signal(signal.SIGSTOP)
        wait_until(lambda: state(broker.pid) == "T", "the broker pauses")
        given_up.send(_ending(producer), 3)
        given_up.socket.close()
        broker._running().send_signal(signal.SIGCONT)
        # The EndTxn from the closed connection would have ended the transaction.
        assert last_stable_offset(wire, "t") == 0
        ended = end_transaction(wire, producer, commit=False, version=3)
        assert ended.error_code == ErrorCode.NONE
        assert values(wire, "t") == []


def _ending(producer: Identity) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
