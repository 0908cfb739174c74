"""A transaction that times out at the last epoch of its producer id, by hand on both brokers
(scenarios E6 and E7)."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from tests.conformance.conftest import Target
from tests.conformance.differences import COMMIT_AFTER_ABORT, RETRY_AT_THE_LAST_EPOCH
from tests.conformance.transacting import add_partitions, last_stable_offset
from tests.conformance.waiting import wait_until
from tests.conformance.wire import Wire
from tests.conformance.writing import (
    Identity,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
)
from tests.faults.driving import values

LAST = 32_766
TIMEOUT_MS = 3_000
# Requests on their way at a time.
WINDOW = 64


def code(answer: int) -> str:
    return ErrorCode(answer).name


def worn_out(wire: Wire, transactional_id: str) -> Identity:
    """The producer after as many instances as its id has epochs."""
    who = new_identity(wire, transactional_id, timeout_ms=TIMEOUT_MS)
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    epoch = who.producer_epoch
    while epoch < LAST:
        window = min(WINDOW, LAST - epoch)
        for _ in range(window):
            wire.send(request, 5)
        # Where they meet on Kafka, one is told to come again.
        epochs = [wire.answer().producer_epoch for _ in range(window)]
        epoch = max(epoch, *epochs)
    return who.aged(LAST - who.producer_epoch)


def timed_out(wire: Wire, who: Identity, topic: str, version: int) -> None:
    if version < 12:
        assert add_partitions(wire, who, (topic, 0)) == [ErrorCode.NONE]
    written = produce(wire, topic, batch(who, 0), who=who, version=version)
    assert written.error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")


def test_e6_e7_of_a_client_with_an_epoch_for_each_transaction(
    target: Target, wire: Wire, topic: str
) -> None:
    """Its end is told the id to go on with, once, and the old one is nobody's (KAFKA-20090)."""
    who = worn_out(wire, topic)
    timed_out(wire, who, topic, 12)
    refused = end_transaction(wire, who, commit=True)
    assert code(refused.error_code) == COMMIT_AFTER_ABORT.expected(target.name)
    heirs = []
    for _ in range(2):
        told = end_transaction(wire, who, commit=False)
        assert (told.error_code, told.producer_epoch) == (ErrorCode.NONE, 0)
        heirs.append(Identity(told.producer_id, told.producer_epoch, topic))
    heir = heirs[0]
    assert heirs == [heir, heir]
    assert heir.producer_id != who.producer_id
    for one in (who, who.aged(1)):
        told = end_transaction(wire, one, commit=False, version=3)
        assert code(told.error_code) == "INVALID_PRODUCER_ID_MAPPING"
    assert add_partitions(wire, who, (topic, 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert produce(wire, topic, batch(heir, 0), who=heir).error_code == ErrorCode.NONE
    assert end_transaction(wire, heir, commit=True).error_code == ErrorCode.NONE
    wait_until(lambda: values(wire, topic) == [b"v"], "it goes on")


def test_e6_e7_of_a_client_that_keeps_its_epoch(target: Target, wire: Wire, topic: str) -> None:
    """It asks for its next id by itself; Kafka does not know a retry of that."""
    who = worn_out(wire, topic)
    timed_out(wire, who, topic, 11)
    for one in (who, who.aged(1)):
        for commit in (True, False):
            told = end_transaction(wire, one, commit=commit, version=3)
            assert code(told.error_code) == "INVALID_PRODUCER_ID_MAPPING"
    heir = new_identity(wire, topic, current=who)
    assert heir.producer_id != who.producer_id
    assert heir.producer_epoch == 0
    again = init_producer_id(wire, topic, current=who)
    assert code(again.error_code) == RETRY_AT_THE_LAST_EPOCH.expected(target.name)
    if target.name == "oncelog":
        assert (again.producer_id, again.producer_epoch) == (heir.producer_id, 0)
