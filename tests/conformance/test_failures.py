"""The failures in the list of the transaction deep dive, one by one, with their outcomes.

The list for idempotence has a lost response and a restarted producer. The list for transactions has
producers and consumers that die or hang. It also has kill -9 of a broker: of the coordinator of the
transaction, of the leader of the data, and of the coordinator of the group.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pytest
from confluent_kafka.admin import AdminClient

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from tests.conformance.clients import Client, Record
from tests.conformance.conftest import create_topic
from tests.conformance.polling import read
from tests.harness.broker import Oncelog
from tests.harness.kafka.fixtures import QUICK_RESTART
from tests.harness.kafka.kafka import Kafka
from tests.harness.transacting import commit_offset, committed_offset, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
    records,
)


class Mortal(Protocol):
    """A broker that a test can kill."""

    @property
    def address(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mortal]:
    """A broker for this module alone."""
    directory = tmp_path_factory.mktemp(f"mortal-{request.param}")
    if request.param == "oncelog":
        with Oncelog(directory, QUICK) as oncelog:
            yield oncelog
        return
    request.getfixturevalue("kafka_jars")
    with Kafka(directory / "kafka", {**QUICK, **QUICK_RESTART}) as kafka:
        yield kafka


@pytest.fixture
def topic(broker: Mortal, name: str) -> str:
    """A new topic of three partitions."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    create_topic(admin, name, partitions=3)
    return name


def send_again(wire: Wire, topic: str, data: bytearray, producer: Identity | None = None) -> int:
    """Retry a batch until the partition has a leader again. Return the batch's offset."""
    offsets: list[int] = []

    def answered() -> bool:
        response = produce(wire, topic, data, producer=producer)
        offsets.append(response.base_offset)
        return response.error_code == ErrorCode.NONE

    wait_until(answered, "the batch is acknowledged")
    return offsets[-1]


@pytest.mark.parametrize("transactional", [False, True])
def test_r1_a_batch_retried_after_a_lost_response_is_not_duplicated(
    broker: Mortal, topic: str, transactional: bool
) -> None:
    """A retry gets the offset of the first attempt and writes no duplicate."""
    with Wire(broker.address) as wire:
        producer = new_identity(wire, topic if transactional else None)
        data = batch(producer, 0, 3)
        place = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, data)])
        request = ProduceRequest(producer.transactional_id, -1, 10_000, [place])
        wire.send(request, 12)
        with Wire(broker.address) as other:
            wait_until(lambda: last_stable_offset(other, topic)[1] == 3, "the batch is written")
    with Wire(broker.address) as wire:
        assert send_again(wire, topic, batch(producer, 0, 3), producer) == 0
        assert send_again(wire, topic, batch(producer, 3), producer) == 3


def test_a_restarted_idempotent_producer_writes_the_record_twice(
    broker: Mortal, topic: str
) -> None:
    """The broker does not know the records of the old producer id under the new one, so the record
    is written twice."""
    with Wire(broker.address) as wire:
        assert send_again(wire, topic, batch(new_identity(wire), 0)) == 0
        assert send_again(wire, topic, batch(new_identity(wire), 0)) == 1


def test_a_dead_and_a_hung_transactional_producer(
    broker: Mortal, python_clients: dict[str, Client], topic: str
) -> None:
    """The next instance aborts the old instance's open transaction, and fences the old instance in
    case it resumes."""
    with Wire(broker.address) as wire:
        hung = new_identity(wire, topic)
        send_again(wire, topic, batch(hung, 0), hung)
        heir = new_identity(wire, topic)
        assert heir.producer_id == hung.producer_id
        assert heir.producer_epoch > hung.producer_epoch
        late = produce(wire, topic, batch(hung, 1), producer=hung)
        assert ErrorCode(late.error_code).name == "INVALID_PRODUCER_EPOCH"
        ended = end_transaction(wire, hung, commit=True)
        assert ErrorCode(ended.error_code).name == "PRODUCER_FENCED"
        send_again(wire, topic, batch(heir, 0, value=b"heir"), heir)
        assert end_transaction(wire, heir, commit=True).error_code == ErrorCode.NONE
    reader = python_clients["confluent-kafka"].consumer(
        broker.address, topic, partitions=[0], read_committed=True
    )
    assert [record.value for record in read(reader, 1)] == [b"heir"]


def test_the_records_of_a_consumer_that_dies_before_its_commit_are_read_again(
    broker: Mortal, python_clients: dict[str, Client], topic: str
) -> None:
    """The next consumer gets the same records again, so effects outside the log happen twice."""
    client = python_clients["confluent-kafka"]
    client.producer(broker.address).send(topic, [Record(b"%d" % at) for at in range(5)])
    for _ in range(2):
        reader = client.consumer(broker.address, topic, group=topic, read_committed=True)
        assert len(read(reader, 5)) == 5
        reader.close()


# The topics of the producers that were active before a crash. The transactional id or the group of
# a producer has the name of its topic.
OPEN, RETRIED, HALF = "open", "retried", "half"
PENDING = {True: "pending-commit", False: "pending-abort"}
# The open transactions must not time out before the last test.
LONG_MS = 600_000


class Crashed(NamedTuple):
    """A broker after a crash, and its producers from before the crash. `pending`: producers with
    pending offsets, by the outcome of their transactions."""

    broker: Mortal
    open: Identity
    idempotent: Identity
    pending: dict[bool, Identity]


@pytest.fixture(scope="module")
def crashed(broker: Mortal) -> Crashed:
    """All tests of a crash share one crash, because Kafka takes 10 s to start again."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    for topic in (OPEN, RETRIED, HALF, *PENDING.values()):
        create_topic(admin, topic)
    with Wire(broker.address) as wire, Wire(broker.address) as half:
        idempotent = new_identity(wire)
        for sequence in range(7):
            send_again(wire, RETRIED, batch(idempotent, sequence))
        producer = new_identity(wire, OPEN, timeout_ms=LONG_MS)
        send_again(wire, OPEN, batch(producer, 0), producer)
        pending = {}
        for outcome, topic in PENDING.items():
            find_coordinator(wire, topic, key_type=0)
            pending[outcome] = new_identity(wire, topic, timeout_ms=LONG_MS)
            assert commit_offset(wire, pending[outcome], topic, 42) == ErrorCode.NONE
        half.socket.sendall(struct.pack(">ihhi", 5_000, 0, 9, 1) + bytes(100))
        broker.kill()
    broker.start()
    return Crashed(broker, producer, idempotent, pending)


def test_the_coordinator_dies_during_a_transaction(crashed: Crashed) -> None:
    """The transaction continues after the restart, without an abort and without a duplicate."""
    producer = crashed.open
    with Wire(crashed.broker.address) as wire:
        find_coordinator(wire, OPEN)
        assert send_again(wire, OPEN, batch(producer, 1), producer) == 1
        assert last_stable_offset(wire, OPEN) == (0, 2)
        assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
        wait_until(lambda: last_stable_offset(wire, OPEN) == (3, 3), "the marker")


def test_r10_a_batch_retried_after_a_crash_of_the_leader_is_not_duplicated(
    crashed: Crashed,
) -> None:
    """The sequence numbers survive the crash: a retry is a duplicate, and a gap is refused."""
    producer = crashed.idempotent
    with Wire(crashed.broker.address) as wire:
        assert send_again(wire, RETRIED, batch(producer, 6)) == 6
        gap = produce(wire, RETRIED, batch(producer, 9))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send_again(wire, RETRIED, batch(producer, 7)) == 7
        assert send_again(wire, RETRIED, build_batch(records())) == 8


@pytest.mark.parametrize("commit", [True, False])
def test_o7_pending_offsets_survive_a_crash_of_the_group_coordinator(
    crashed: Crashed, commit: bool
) -> None:
    """The offsets are pending before and after the crash. They count when the transaction
    commits."""
    group, producer = PENDING[commit], crashed.pending[commit]
    with Wire(crashed.broker.address) as wire:
        find_coordinator(wire, group, key_type=0)
        find_coordinator(wire, group)
        wait_until(
            lambda: (
                committed_offset(wire, group, stable=True)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
            ),
            "the offset is pending after the restart",
        )
        assert end_transaction(wire, producer, commit=commit).error_code == ErrorCode.NONE
        wait_until(
            lambda: committed_offset(wire, group, stable=True) == (42 if commit else -1, 0),
            "the offset is decided",
        )


def test_half_a_request_before_the_crash(crashed: Crashed) -> None:
    """The broker never writes a batch that arrived only in part."""
    with Wire(crashed.broker.address) as wire:
        assert send_again(wire, HALF, build_batch(records())) == 0
