"""Cases that take half a minute, at the same time on both brokers. A transaction times out at the
last epoch of its producer id (scenarios E6 and E7). A request stops in the middle (H6)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from tests.conformance.conftest import Target
from tests.conformance.differences import (
    BUMP_TO_THE_LAST_EPOCH,
    CLOSED,
    COMMIT_AFTER_ABORT,
    RETRY_AT_THE_LAST_EPOCH,
    STANDING_FRAME,
)
from tests.harness.broker import Oncelog
from tests.harness.driving import values
from tests.harness.kafka.kafka import Kafka
from tests.harness.quick import QUICK
from tests.harness.transacting import add_partitions, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.wire import Wire
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
# A frame may make no progress for 30 s. oncelog checks every few seconds.
STANDS_S = 45.0
# An ApiVersions request, and the position at which it stops.
_BODY = struct.pack(">hhih", 18, 0, 77, -1)
FRAME = struct.pack(">i", len(_BODY)) + _BODY
HALF = 6


def code(error_code: int) -> str:
    return ErrorCode(error_code).name


@pytest.fixture(scope="module", autouse=True)
def standing(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Wire]]:
    """Half a request. It is sent to oncelog and to Kafka before the first test of this file."""
    with (
        Oncelog(tmp_path_factory.mktemp("standing"), QUICK) as broker,
        Wire(broker.address) as ours,
        Wire(kafka.address) as theirs,
    ):
        for wire in (theirs, ours):
            wire.socket.sendall(FRAME[:HALF])
            wire.socket.settimeout(STANDS_S)
        yield ours, theirs


def worn_out(wire: Wire, transactional_id: str, last: int = LAST) -> Identity:
    """Return the producer after enough new instances to reach the epoch `last`."""
    producer = new_identity(wire, transactional_id, timeout_ms=TIMEOUT_MS)
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    epoch = producer.producer_epoch
    while epoch < last:
        window = min(WINDOW, last - epoch)
        for _ in range(window):
            wire.send(request, 5)
        # On Kafka, requests that overlap may get CONCURRENT_TRANSACTIONS.
        epochs = [wire.answer().producer_epoch for _ in range(window)]
        epoch = max(epoch, *epochs)
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
    (found,) = wire.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states
    return str(found.transaction_state)


def test_e6_e7_of_a_client_with_an_epoch_for_each_transaction(
    target: Target, wire: Wire, topic: str
) -> None:
    """EndTxn returns a new producer id, and a retry gets the same id. The old id has no producer
    any more (KAFKA-20090)."""
    producer = worn_out(wire, topic)
    timed_out(wire, producer, topic, 12)
    refused = end_transaction(wire, producer, commit=True)
    assert code(refused.error_code) == COMMIT_AFTER_ABORT.expected(target.name)
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
    wait_until(lambda: values(wire, topic) == [b"v"], "it goes on")


def test_e6_e7_of_a_client_that_keeps_its_epoch(target: Target, wire: Wire, topic: str) -> None:
    """Such a client asks for its next epoch and id itself. A retry gets the same response at the
    last epoch but one (B10) and at the last epoch. Kafka fails at the former, and does not
    recognize the retry at the latter."""
    before = worn_out(wire, topic, LAST - 1)
    timed_out(wire, before, topic, 11)
    for _ in range(2):
        bumped = init_producer_id(wire, topic, current=before, timeout_ms=TIMEOUT_MS)
        assert code(bumped.error_code) == BUMP_TO_THE_LAST_EPOCH.expected(target.name)
        if target.name == "oncelog":
            assert (bumped.producer_id, bumped.producer_epoch) == (before.producer_id, LAST)
    producer = before.aged(1) if target.name == "oncelog" else worn_out(wire, topic)
    assert producer.producer_epoch == LAST
    timed_out(wire, producer, topic, 11, end=4)
    for identity in (producer, producer.aged(1)):
        for commit in (True, False):
            ended = end_transaction(wire, identity, commit=commit, version=3)
            assert code(ended.error_code) == "INVALID_PRODUCER_ID_MAPPING"
    heir = new_identity(wire, topic, current=producer)
    assert heir.producer_id != producer.producer_id
    assert heir.producer_epoch == 0
    again = init_producer_id(wire, topic, current=producer)
    assert code(again.error_code) == RETRY_AT_THE_LAST_EPOCH.expected(target.name)
    if target.name == "oncelog":
        assert (again.producer_id, again.producer_epoch) == (heir.producer_id, 0)


# so that this test is the last test of the file
@pytest.mark.parametrize("target", ["kafka"], indirect=True)
def test_h6_a_request_that_stands_still_in_its_middle(
    target: Target, standing: tuple[Wire, Wire]
) -> None:
    """The client sends the second half after oncelog has closed the connection. Kafka still accepts
    the second half."""
    ours, theirs = standing
    ended = {"oncelog": CLOSED if ours.is_closed() else "answered"}
    theirs.socket.sendall(FRAME[HALF:])
    ended["kafka"] = "NONE" if theirs.socket.recv(4) else CLOSED
    assert ended == {name: STANDING_FRAME.expected(name) for name in ended}
