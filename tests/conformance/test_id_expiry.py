"""Transactional ids that expire, on oncelog and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.harness.broker import Oncelog
from tests.harness.driving import create, list_offset, values
from tests.harness.kafka.kafka import Kafka
from tests.harness.transacting import add_partitions
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
)

SETTINGS = {
    **QUICK,
    "transactional.id.expiration.ms": "400",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def forgetful(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Wire]:
    """A connection to a broker with a transactional.id.expiration.ms of 400."""
    folder: Path = tmp_path_factory.mktemp("forgetful")
    broker: Oncelog | Kafka
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
        broker = Kafka(folder, SETTINGS)
    else:
        broker = Oncelog(folder, SETTINGS)
    with broker, Wire(broker.address) as wire:
        create(wire, "t")
        # Kafka responds before its broker knows the topic.
        wait_until(
            lambda: list_offset(wire, "t", -1)[0] == ErrorCode.NONE, "the leader of t responds"
        )
        yield wire


def is_known(wire: Wire, transactional_id: str) -> bool:
    (state,) = wire.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states
    assert state.error_code in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return bool(state.error_code == ErrorCode.NONE)


def forgotten(wire: Wire, transactional_id: str) -> Identity:
    """Return a producer with an expired transactional id."""
    producer = new_identity(wire, transactional_id)
    wait_until(lambda: not is_known(wire, transactional_id), "the id expires")
    return producer


def opened(wire: Wire, transactional_id: str) -> Identity:
    """Return a producer with a record in an open transaction. If the id expires before the write,
    because the computer pauses, try another producer."""
    found: list[Identity] = []

    def is_written() -> bool:
        found.append(new_identity(wire, transactional_id))
        data = batch(found[-1], 0, value=transactional_id.encode())
        written = produce(wire, "t", data, producer=found[-1])
        assert written.error_code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return written.error_code == ErrorCode.NONE

    wait_until(is_written, "a transaction is open")
    return found[-1]


def test_x1_the_producer_of_an_expired_transactional_id_is_refused(forgetful: Wire) -> None:
    producer = forgotten(forgetful, "x1")
    assert add_partitions(forgetful, producer, ("t", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    ended = end_transaction(forgetful, producer, commit=True)
    assert ended.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_x2_the_producer_of_an_expired_transactional_id_gets_a_new_producer_id(
    forgetful: Wire,
) -> None:
    producer = forgotten(forgetful, "x2")
    again = init_producer_id(forgetful, "x2", current=producer)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, 0)
    assert again.producer_id != producer.producer_id


def test_x3_a_transactional_id_with_an_open_transaction_does_not_expire(forgetful: Wire) -> None:
    producer = opened(forgetful, "x3")
    for number in range(3):
        forgotten(forgetful, f"x3-{number}")
    assert is_known(forgetful, "x3")
    assert end_transaction(forgetful, producer, commit=True).error_code == ErrorCode.NONE
    wait_until(
        lambda: not is_known(forgetful, "x3"), "the id expires after the end of its transaction"
    )
    assert b"x3" in values(forgetful, "t")
