"""Raw requests of zombies: a newer instance has fenced these producers, and they do not know it
(scenarios Z)."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.conformance.conftest import Target
from tests.conformance.differences import COMMIT_AFTER_ABORT
from tests.harness.batches import raw
from tests.harness.broker import Oncelog
from tests.harness.driving import create, end_offset, values
from tests.harness.transacting import (
    add_partitions,
    commit_offset,
    committed_offset,
    last_stable_offset,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)

STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = int(QUICK["transaction.state.log.num.partitions"])


def code(error_code: int) -> str:
    return ErrorCode(error_code).name


def recorded(wire: Wire, transactional_id: str) -> int:
    """Return the number of the id's records in the transaction log. Other ids do not count, because
    transactions of other tests may be aborted at any time."""
    return sum(
        bytes(found).count(transactional_id.encode())
        for partition in range(STATE_PARTITIONS)
        for found in raw(wire, STATE_TOPIC, partition)
    )


@pytest.fixture
def zombie(wire: Wire, topic: str) -> Identity:
    """Return a producer after a newer instance has aborted its transaction in partition 0."""
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    assert (
        produce(wire, topic, batch(producer, 0, value=b"zombie"), producer=producer).error_code == 0
    )
    heir = new_identity(wire, topic)
    assert heir.producer_epoch > producer.producer_epoch
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    return producer


def test_z1_a_newer_instance_waits_for_the_abort_and_the_old_one_cannot_commit(
    wire: Wire, topic: str
) -> None:
    old = new_identity(wire, topic)
    assert (
        produce(wire, topic, batch(old, 0, value=b"old"), producer=old).error_code == ErrorCode.NONE
    )
    assert code(init_producer_id(wire, topic).error_code) == "CONCURRENT_TRANSACTIONS"
    heir = new_identity(wire, topic)
    assert heir.producer_id == old.producer_id
    assert heir.producer_epoch > old.producer_epoch
    assert code(end_transaction(wire, old, commit=True).error_code) == "PRODUCER_FENCED"
    assert produce(wire, topic, batch(heir, 0, value=b"heir"), producer=heir).error_code == 0
    assert end_transaction(wire, heir, commit=True).error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, topic) == (4, 4), "the commit marker")
    assert values(wire, topic) == [b"heir"]


@pytest.mark.parametrize("version", [9, 11, 12])
def test_z2_a_zombie_cannot_write_to_a_partition_with_its_abort_marker(
    wire: Wire, topic: str, zombie: Identity, version: int
) -> None:
    late = produce(wire, topic, batch(zombie, 1), producer=zombie, version=version)
    assert code(late.error_code) == "INVALID_PRODUCER_EPOCH"
    assert last_stable_offset(wire, topic) == (2, 2)


@pytest.mark.parametrize("version", [9, 11, 12])
def test_z3_a_zombie_cannot_write_to_a_partition_without_its_records(
    wire: Wire, topic: str, zombie: Identity, version: int
) -> None:
    """The partition does not know the zombie, but the transaction coordinator does."""
    late = produce(wire, topic, batch(zombie, 0), producer=zombie, partition=2, version=version)
    assert code(late.error_code) == "INVALID_PRODUCER_EPOCH"
    assert end_offset(wire, topic, 2) == 0


def test_z4_a_zombie_cannot_add_partitions_or_offsets(
    wire: Wire, topic: str, zombie: Identity
) -> None:
    before = recorded(wire, topic)
    assert before > 0
    assert [code(add_partition) for add_partition in add_partitions(wire, zombie, (topic, 1))] == [
        "PRODUCER_FENCED"
    ]
    request = AddOffsetsToTxnRequest(topic, zombie.producer_id, zombie.producer_epoch, topic)
    assert code(wire.call(request, 3).error_code) == "PRODUCER_FENCED"
    assert recorded(wire, topic) == before


@pytest.mark.parametrize("version", [3, 5])
def test_z5_offsets_of_a_zombie_do_not_become_pending(
    wire: Wire, topic: str, zombie: Identity, version: int
) -> None:
    refused = commit_offset(wire, zombie, topic, 41, version=version)
    assert code(refused) == "INVALID_PRODUCER_EPOCH"
    assert committed_offset(wire, topic, stable=True) == (-1, ErrorCode.NONE)


def taken_by_many(
    address: str, topic: str, disturb: threading.Event | None = None
) -> set[Identity]:
    """Return the results of 20 clients that initialize the same id at the same time. `disturb`: an
    event to set when the first client has its result. With it, clients retry after any error, for
    30 s."""
    found: list[Identity] = []
    failures: list[BaseException] = []

    def take() -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                with Wire(address) as wire:
                    found.append(new_identity(wire, topic))
                    return
            except Exception as error:  # the broker is down for a moment
                if disturb is None or time.monotonic() > deadline:
                    failures.append(error)
                    return

    threads = [threading.Thread(target=take) for _ in range(20)]
    for thread in threads:
        thread.start()
    if disturb is not None:
        wait_until(lambda: found, "a client has the id")
        disturb.set()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    assert len(found) == len(set(found)) == 20
    return set(found)


def only_the_last_may_write(wire: Wire, topic: str, producers: set[Identity]) -> None:
    *older, last = sorted(
        producers, key=lambda producer: (producer.producer_id, producer.producer_epoch)
    )
    for producer in older:
        late = produce(wire, topic, batch(producer, 0), producer=producer)
        assert code(late.error_code) == "INVALID_PRODUCER_EPOCH"
    assert produce(wire, topic, batch(last, 0), producer=last).error_code == ErrorCode.NONE
    assert end_transaction(wire, last, commit=True).error_code == ErrorCode.NONE


def test_z8_only_the_last_of_many_concurrent_instances_may_write(
    target: Target, wire: Wire, topic: str
) -> None:
    only_the_last_may_write(wire, topic, taken_by_many(target.address, topic))


def test_z8_only_the_last_instance_may_write_although_the_coordinator_was_killed(
    tmp_path: Path,
) -> None:
    """No two producers get the same epoch."""
    broker = Oncelog(tmp_path, QUICK)
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "t")
        new_identity(wire, "t")
    killed = threading.Event()

    def kill() -> None:
        killed.wait(30)
        broker.kill()
        broker.start()

    killer = threading.Thread(target=kill)
    killer.start()
    producers = taken_by_many(broker.address, "t", killed)
    killer.join(60)
    with Wire(broker.address) as wire:
        only_the_last_may_write(wire, "t", producers)
    broker.stop()


HUNG = """
import asyncio, sys
from oncelog_client import Producer, KafkaError

async def main(address, name):
    async with Producer(address, transactional_id=name, transaction_timeout_ms=1000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(name, b"hung", partition=0))
        print("sent", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            await producer.commit_transaction()
            print("committed", flush=True)
        except KafkaError as error:
            print(error.code.name, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def hung(target: Target, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has sent a record and is suspended while its transaction is open."""
    process = subprocess.Popen(
        [sys.executable, "-c", HUNG, target.address, topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "sent\n"
    process.send_signal(signal.SIGSTOP)
    yield process
    process.send_signal(signal.SIGCONT)
    process.kill()
    process.communicate()


def test_z11_a_producer_resumed_after_its_timeout_cannot_commit(
    target: Target, wire: Wire, topic: str, hung: subprocess.Popen[str]
) -> None:
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    hung.send_signal(signal.SIGCONT)
    said, _ = hung.communicate("continue\n", timeout=30)
    assert said == f"{COMMIT_AFTER_ABORT.expected(target.name)}\n"
    assert values(wire, topic) == []


@pytest.mark.parametrize(("sequence", "expected"), [(1, "INVALID_TXN_STATE"), (9, None)])
def test_z15_a_plain_batch_with_the_producer_id_of_an_open_transaction_is_refused(
    wire: Wire, topic: str, sequence: int, expected: str | None
) -> None:
    """The broker checks the sequence number before it finds that the batch is not transactional."""
    producer = new_identity(wire, topic)
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    plain = Identity(producer.producer_id, producer.producer_epoch)
    refused = produce(wire, topic, batch(plain, sequence))
    assert code(refused.error_code) == (expected or "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert last_stable_offset(wire, topic) == (0, 1)
    assert produce(wire, topic, batch(producer, 1), producer=producer).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [9, 11, 12])
def test_z16_a_produce_with_the_producer_id_of_another_transactional_id_is_refused(
    wire: Wire, topic: str, version: int
) -> None:
    """A client with the right to one transactional id cannot write as the producer of another."""
    mine = new_identity(wire, f"{topic}-mine")
    theirs = new_identity(wire, topic)
    assert add_partitions(wire, theirs, (topic, 1)) == [ErrorCode.NONE]
    forged = Identity(theirs.producer_id, theirs.producer_epoch, mine.transactional_id)
    refused = produce(wire, topic, batch(forged, 0), producer=forged, partition=1, version=version)
    assert code(refused.error_code) == "INVALID_PRODUCER_ID_MAPPING"
    assert end_offset(wire, topic, 1) == 0
    accepted = produce(wire, topic, batch(theirs, 0), producer=theirs, partition=1, version=11)
    assert accepted.error_code == ErrorCode.NONE
    assert end_transaction(wire, theirs, commit=True).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [9, 12])
def test_z17_a_produce_with_batches_of_two_producers_is_refused(
    wire: Wire, topic: str, version: int
) -> None:
    first, other = new_identity(wire, topic), new_identity(wire, f"{topic}-other")
    for producer, partition in ((first, 0), (other, 1)):
        assert add_partitions(wire, producer, (topic, partition)) == [ErrorCode.NONE]
    rows = [PartitionProduceData(0, batch(first, 0)), PartitionProduceData(1, batch(other, 0))]
    request = ProduceRequest(topic, -1, 10_000, [TopicProduceData(name=topic, partition_data=rows)])
    responses = wire.call(request, version).responses[0].partition_responses
    assert {code(row.error_code) for row in responses} == {"INVALID_PRODUCER_ID_MAPPING"}
    assert [end_offset(wire, topic, partition) for partition in (0, 1)] == [0, 0]


def test_z18_an_end_txn_with_a_guessed_higher_epoch_is_fenced(wire: Wire, topic: str) -> None:
    producer = new_identity(wire, topic)
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    for commit in (True, False):
        refused = end_transaction(wire, producer.aged(1), commit=commit)
        assert code(refused.error_code) == "PRODUCER_FENCED"
    assert last_stable_offset(wire, topic) == (0, 1)
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
