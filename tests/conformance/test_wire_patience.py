"""Cases that take half a minute, or thousands of requests. A transaction times out at the last
epoch of its producer id (scenarios E6 and E7). A request stops in the middle (H6)."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from oncelog_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
)
from oncelog_protocol.messages.describe_transactions import (
    TransactionState as TransactionDescription,
)
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.coordinator.routing import java_string_hash
from tests.conformance.differences import (
    BUMP_TO_THE_LAST_EPOCH,
    CLOSED,
    COMMIT_AFTER_ABORT,
    RETRY_AT_THE_LAST_EPOCH,
    STANDING_FRAME,
)
from tests.harness.broker import Oncelog
from tests.harness.driving import create, values
from tests.harness.kafka.fixtures import QUIET
from tests.harness.kafka.kafka import Kafka
from tests.harness.transacting import add_partitions, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
)

LAST = 32_766
TIMEOUT_MS = 3_000
ENDED = {"CompleteAbort", "Empty"}
# Number of requests in flight.
WINDOW = 64
# Kafka opens its internal topics to clients with this client id.
MAY_WRITE_INTERNAL_TOPICS = "__admin_client"
STATE_PARTITIONS = int(QUICK["transaction.state.log.num.partitions"])
# oncelog closes the connection of a frame that makes no progress for 30 s. It checks every few
# seconds.
STANDS_S = 45.0
# An ApiVersions request, and the position at which it stops.
_BODY = struct.pack(">hhih", 18, 0, 77, -1)
FRAME = struct.pack(">i", len(_BODY)) + _BODY
HALF = 6


def code(error_code: int) -> str:
    return ErrorCode(error_code).name


@pytest.fixture(scope="module", autouse=True)
def standing(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Wire]]:
    """Connections to oncelog and to Kafka. On each, the first half of a request is sent before the
    first test of this file."""
    with (
        Oncelog(tmp_path_factory.mktemp("standing"), QUICK) as broker,
        Wire(broker.address) as ours,
        Wire(kafka.address) as theirs,
    ):
        for wire in (theirs, ours):
            wire.socket.sendall(FRAME[:HALF])
            wire.socket.settimeout(STANDS_S)
        yield ours, theirs


class Worn(NamedTuple):
    """A broker and its producers near the last epoch, by transactional id. Each id is also the name
    of a topic."""

    broker: str
    wire: Wire
    producers: Mapping[str, Identity]


# The transactional ids and epochs of the producers. KEPT begins at the last epoch but one. Kafka
# fails to bump it to the last epoch, so with Kafka the test at the last epoch uses
# KEPT_AT_THE_LAST.
BY_TRANSACTION: Final = "patient-by-transaction"
KEPT: Final = "patient-kept"
KEPT_AT_THE_LAST: Final = "patient-kept-at-the-last"
EPOCHS: Final = {BY_TRANSACTION: LAST, KEPT: LAST - 1, KEPT_AT_THE_LAST: LAST}


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def worn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worn]:
    """oncelog after the thousands of requests that lead to EPOCHS, then Apache Kafka after a load
    of the same state."""
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
        with aged_kafka(tmp_path_factory.mktemp("worn")) as (wire, producers):
            yield Worn(request.param, wire, producers)
        return
    broker: Oncelog = request.getfixturevalue("running_oncelog")
    with Wire(broker.address) as wire:
        ids = (BY_TRANSACTION, KEPT)
        create(wire, *ids)
        yield Worn(request.param, wire, {name: worn_out(wire, name, EPOCHS[name]) for name in ids})


@contextmanager
def aged_kafka(directory: Path) -> Iterator[tuple[Wire, Mapping[str, Identity]]]:
    """A Kafka with producers near the last epoch. Its coordinator loads them from records in its
    log, because 98,000 requests for the same state take more than a minute."""
    kafka = Kafka(directory, QUICK | QUIET)
    try:
        kafka.start()
        with Wire(kafka.address, MAY_WRITE_INTERNAL_TOPICS) as wire:
            create(wire, *EPOCHS)
            young = {name: new_identity(wire, name, timeout_ms=TIMEOUT_MS) for name in EPOCHS}
            old = {
                name: replace(producer, producer_epoch=EPOCHS[name])
                for name, producer in young.items()
            }
            for name, producer in old.items():
                write_state(wire, name, producer)
        kafka.stop()
        kafka.start()
        with Wire(kafka.address) as wire:
            wait_until(
                lambda: {name: described(wire, name).producer_epoch for name in EPOCHS} == EPOCHS,
                "the coordinator has loaded the producers",
            )
            wait_until(
                lambda: {last_stable_offset(wire, name) for name in EPOCHS} == {(0, 0)},
                "all topics have a leader",
            )
            yield wire, old
    finally:
        kafka.stop()


def write_state(wire: Wire, transactional_id: str, producer: Identity) -> None:
    """Append the producer, without a transaction, to Kafka's `__transaction_state`."""
    value = TransactionLogValue(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_status=TransactionState.EMPTY,
    )
    record = NewRecord(
        int(time.time() * 1000),
        encode_transaction_log_key(TransactionLogKey(transactional_id)),
        encode_transaction_log_value(value),
    )
    # Kafka's Utils.abs
    partition = abs(java_string_hash(transactional_id)) % STATE_PARTITIONS
    written = produce(wire, "__transaction_state", build_batch([record]), partition=partition)
    assert written.error_code == ErrorCode.NONE


def worn_out(wire: Wire, transactional_id: str, last: int) -> Identity:
    """Initialize the id again and again, until its epoch is `last`. Return the producer with that
    epoch."""
    producer = new_identity(wire, transactional_id, timeout_ms=TIMEOUT_MS)
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    epoch = producer.producer_epoch
    while epoch < last:
        window = min(WINDOW, last - epoch)
        for _ in range(window):
            wire.send(request, 5)
        epoch = max(wire.answer().producer_epoch for _ in range(window))
    return producer.aged(last - producer.producer_epoch)


def timed_out(wire: Wire, producer: Identity, topic: str, version: int, end: int = 2) -> None:
    """Let a transaction of one record time out. Wait until the log ends at `end` and the
    coordinator has written COMPLETE, which Kafka writes after the marker. The transactional id is
    `topic`."""
    if version < 12:
        assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
    written = produce(wire, topic, batch(producer, 0), producer=producer, version=version)
    assert written.error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, topic) == (end, end), "the abort marker")
    wait_until(lambda: state(wire, topic) in ENDED, "the end of the transaction")


def state(wire: Wire, transactional_id: str) -> str:
    return str(described(wire, transactional_id).transaction_state)


def described(wire: Wire, transactional_id: str) -> TransactionDescription:
    (found,) = wire.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states
    assert isinstance(found, TransactionDescription)
    return found


def test_e6_e7_a_v2_client_gets_a_new_producer_id_after_a_timeout_at_the_last_epoch(
    worn: Worn,
) -> None:
    """EndTxn returns a new producer id, and a retry gets the same id. Other requests with the old
    id get INVALID_PRODUCER_ID_MAPPING (KAFKA-20090)."""
    wire, topic = worn.wire, BY_TRANSACTION
    producer = worn.producers[topic]
    timed_out(wire, producer, topic, 12)
    refused = end_transaction(wire, producer, commit=True)
    assert code(refused.error_code) == COMMIT_AFTER_ABORT.expected(worn.broker)
    heirs = []
    for _ in range(2):
        ended = end_transaction(wire, producer, commit=False)
        assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, 0)
        heirs.append(Identity(ended.producer_id, ended.producer_epoch, topic))
    heir = heirs[0]
    assert heirs == [heir, heir]
    assert heir.producer_id != producer.producer_id
    for identity in (producer, producer.aged(1)):
        ended = end_transaction(wire, identity, commit=False, version=3)
        assert code(ended.error_code) == "INVALID_PRODUCER_ID_MAPPING"
    assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert produce(wire, topic, batch(heir, 0), producer=heir).error_code == ErrorCode.NONE
    assert end_transaction(wire, heir, commit=True).error_code == ErrorCode.NONE
    wait_until(lambda: values(wire, topic) == [b"v"], "the new producer writes")


def test_e6_e7_a_v1_client_gets_a_new_producer_id_after_a_timeout_at_the_last_epoch(
    worn: Worn,
) -> None:
    """EndTxn does not bump the epoch of this client. After the timeout, the client requests the
    next epoch or the next producer id with InitProducerId. A retry gets the same response at the
    last epoch but one and at the last epoch. Kafka fails at the last epoch but one, and does not
    recognize the retry at the last epoch."""
    wire, topic = worn.wire, KEPT
    before = worn.producers[topic]
    timed_out(wire, before, topic, 11)
    for _ in range(2):
        bumped = init_producer_id(wire, topic, current=before, timeout_ms=TIMEOUT_MS)
        assert code(bumped.error_code) == BUMP_TO_THE_LAST_EPOCH.expected(worn.broker)
        if worn.broker == "oncelog":
            assert (bumped.producer_id, bumped.producer_epoch) == (before.producer_id, LAST)
    if worn.broker == "oncelog":
        producer, end = before.aged(1), 4
    else:
        producer, end = worn.producers[KEPT_AT_THE_LAST], 2
        topic = KEPT_AT_THE_LAST
    assert producer.producer_epoch == LAST
    timed_out(wire, producer, topic, 11, end)
    for identity in (producer, producer.aged(1)):
        for commit in (True, False):
            ended = end_transaction(wire, identity, commit=commit, version=3)
            assert code(ended.error_code) == "INVALID_PRODUCER_ID_MAPPING"
    heir = new_identity(wire, topic, current=producer)
    assert heir.producer_id != producer.producer_id
    assert heir.producer_epoch == 0
    again = init_producer_id(wire, topic, current=producer)
    assert code(again.error_code) == RETRY_AT_THE_LAST_EPOCH.expected(worn.broker)
    if worn.broker == "oncelog":
        assert (again.producer_id, again.producer_epoch) == (heir.producer_id, 0)


# the last test of the file: the others run while the request stands still
def test_h6_a_half_sent_request_closes_its_connection_at_the_deadline(
    standing: tuple[Wire, Wire],
) -> None:
    """oncelog closes the connection before it gets the second half of the request. Kafka still
    accepts the second half."""
    ours, theirs = standing
    ended = {"oncelog": CLOSED if ours.is_closed() else "answered"}
    theirs.socket.sendall(FRAME[HALF:])
    ended["kafka"] = "NONE" if theirs.socket.recv(4) else CLOSED
    assert ended == {name: STANDING_FRAME.expected(name) for name in ended}
