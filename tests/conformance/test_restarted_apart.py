"""Files are lost or changed while the broker is down. oncelog detects the change, Apache Kafka does
not (docs/semantics.md, last section). The last test shows by which clock each broker expires
producers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.conformance.differences import DAMAGED_COORDINATOR
from tests.harness.broker import Oncelog
from tests.harness.driving import create, end_offset, list_offset, values
from tests.harness.kafka.kafka import Kafka
from tests.harness.transacting import last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    BUSY,
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)

# `producer.id.expiration.ms`. The test waits for it on oncelog. On Kafka it is longer than the
# test.
EXPIRES_MS = {"oncelog": 2_000, "kafka": 120_000}
HOUR_MS = 3_600_000
SETTINGS = {
    **QUICK,
    "transaction.state.log.num.partitions": "1",
    "producer.id.expiration.check.interval.ms": "100",
}


@dataclass(frozen=True, slots=True)
class Restarted:
    """A broker that lost files after a clean stop, the producer of the records, and a second
    producer with a damaged coordinator record."""

    name: str
    wire: Wire
    writer: Identity
    damaged: Identity


def led(wire: Wire, topic: str) -> None:
    wait_until(lambda: list_offset(wire, topic, -1)[0] == ErrorCode.NONE, f"{topic} is led")


def made(wire: Wire, topic: str) -> None:
    """Create a topic, and wait for its leader."""
    create(wire, topic)
    led(wire, topic)


def filled(wire: Wire) -> tuple[Identity, Identity]:
    """Write a batch of an idempotent producer to one topic, and an aborted and a non-transactional
    record to another. Return the idempotent producer, and a transactional producer that has been
    initialized three times."""
    made(wire, "snapshot")
    made(wire, "txnindex")
    writer = new_identity(wire)
    assert produce(wire, "snapshot", batch(writer, 0)).base_offset == 0
    aborts = new_identity(wire, "aborts")
    written = produce(wire, "txnindex", batch(aborts, 0, value=b"aborted"), producer=aborts)
    assert written.error_code == ErrorCode.NONE
    assert end_transaction(wire, aborts, commit=False).error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, "txnindex") == (2, 2), "the abort marker")
    assert produce(wire, "txnindex", batch(writer, 0, value=b"sound")).base_offset == 2
    assert values(wire, "txnindex") == [b"sound"]
    for _ in range(3):
        damaged = new_identity(wire, "damaged-id")
    return writer, damaged


def spoil(data: Path) -> None:
    """Delete the snapshot, empty the index of aborted transactions, and change a transactional id
    in the coordinator's log."""
    for path in data.glob("snapshot-0/*.snapshot"):
        path.unlink()
    for path in data.glob("txnindex-0/*.txnindex"):
        path.write_bytes(b"")
    (log,) = data.glob("__transaction_state-0/*.log")
    content = log.read_bytes()
    assert b"damaged-id" in content
    log.write_bytes(content.replace(b"damaged-id", b"damaged-ix"))


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def restarted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restarted]:
    folder = tmp_path_factory.mktemp("apart")
    broker: Oncelog | Kafka = Oncelog(folder, SETTINGS)
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
        expires = {"producer.id.expiration.ms": str(EXPIRES_MS["kafka"])}
        broker = Kafka(folder / "kafka", SETTINGS | expires)
    broker.start()
    with Wire(broker.address) as wire:
        writer, damaged = filled(wire)
    broker.stop()
    spoil(broker.data)
    broker.start()
    with Wire(broker.address) as wire:
        for topic in ("snapshot", "txnindex"):
            led(wire, topic)
        yield Restarted(request.param, wire, writer, damaged)
    broker.stop()


def test_s5_a_lost_producer_snapshot_is_rebuilt_from_the_log(restarted: Restarted) -> None:
    """Kafka appends a resent batch a second time."""
    again = produce(restarted.wire, "snapshot", batch(restarted.writer, 0))
    is_kafka = restarted.name == "kafka"
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 1 if is_kafka else 0)
    assert end_offset(restarted.wire, "snapshot") == (2 if is_kafka else 1)


def test_s7_a_lost_row_of_the_transaction_index_is_rebuilt(restarted: Restarted) -> None:
    """In Kafka a read_committed reader gets the aborted record."""
    seen = [b"aborted", b"sound"] if restarted.name == "kafka" else [b"sound"]
    assert values(restarted.wire, "txnindex") == seen


def test_s14_a_coordinator_with_a_damaged_log_refuses_its_ids(restarted: Restarted) -> None:
    """To Kafka the transactional id is new, so its former producer is not fenced."""
    responses = []

    def is_answered() -> bool:
        find_coordinator(restarted.wire, "damaged-id")
        responses.append(init_producer_id(restarted.wire, "damaged-id"))
        return restarted.name == "oncelog" or responses[-1].error_code not in BUSY

    wait_until(is_answered, "a response to InitProducerId")
    answered = ErrorCode(responses[-1].error_code).name
    assert answered == DAMAGED_COORDINATOR.expected(restarted.name)
    assert responses[-1].producer_id != restarted.damaged.producer_id


@pytest.fixture
def forgetful(restarted: Restarted, tmp_path: Path) -> Iterator[Wire]:
    """A broker that checks for expired producers all the time, with the topic `old`."""
    if restarted.name == "kafka":
        made(restarted.wire, "old")
        yield restarted.wire
        return
    expires = {"producer.id.expiration.ms": str(EXPIRES_MS["oncelog"])}
    with Oncelog(tmp_path, SETTINGS | expires) as broker, Wire(broker.address) as wire:
        made(wire, "old")
        yield wire


def test_k5_x7_old_record_timestamps_do_not_expire_a_producer(
    restarted: Restarted, forgetful: Wire
) -> None:
    """Kafka uses the timestamps of records as the time of the producer's last write."""
    producer = new_identity(forgetful)
    old = NewRecord(int(time.time() * 1000) - HOUR_MS, None, b"old")
    data = build_batch(
        [old],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
    )
    began = time.monotonic()
    assert produce(forgetful, "old", data).error_code == ErrorCode.NONE
    request = DescribeProducersRequest([TopicRequest("old", [0])])
    wait_until(
        lambda: not forgetful.call(request, 0).topics[0].partitions[0].active_producers,
        "the producer has expired",
    )
    lived_ms = (time.monotonic() - began) * 1000
    has_expired = lived_ms >= EXPIRES_MS[restarted.name]
    assert has_expired is (restarted.name == "oncelog")
