"""Epochs that run out, and the memory of 100,000 transactional ids."""

from __future__ import annotations

import sys

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH
from tests.server.resident import resident_growth
from tests.server.transaction.driver import P0, Driver


def test_e10_new_instances_rotate_the_producer_id_once_after_the_last_epoch() -> None:
    driver = Driver(compares=False)
    seen = set()
    ids = []
    for _ in range(LAST_PRODUCER_EPOCH + 2):
        response = driver.init().value
        assert response.code is ErrorCode.NONE
        assert (response.producer_id, response.producer_epoch) not in seen
        seen.add((response.producer_id, response.producer_epoch))
        if response.producer_id not in ids:
            ids.append(response.producer_id)
        del driver.log[:]
        driver.committed = 0
    assert ids == [1_000, 1_001]
    assert driver.metadata.producer_epoch == 0
    assert max(epoch for _, epoch in seen) == LAST_PRODUCER_EPOCH


def test_e2_every_transaction_bumps_the_epoch_until_the_producer_id_rotates() -> None:
    driver = Driver(compares=False)
    producer = (lambda producer: (producer.producer_id, producer.producer_epoch))(
        driver.init().value
    )
    seen = {producer}
    while producer[0] == 1_000:
        driver.add(*producer, P0)
        response = driver.end(*producer, committed=True).value
        assert response.code is ErrorCode.NONE
        producer = response.producer_id, response.producer_epoch
        assert producer not in seen
        seen.add(producer)
        del driver.log[:], driver.markers[:]
        driver.committed = 0
    assert len(seen) == LAST_PRODUCER_EPOCH + 2
    assert producer == (1_001, 0)


def hundred_thousand_ids() -> Driver:
    """Return a coordinator with 100,000 transactional ids. Each has a producer id but no
    transaction."""
    driver = Driver(compares=False)
    for number in range(100_000):
        driver.init(transactional_id=f"client-application-{number:08d}")
        del driver.log[:]
        driver.committed = 0
    return driver


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_d10_h61_a_hundred_thousand_idle_transactional_ids_take_less_than_a_kibibyte_each() -> None:
    assert resident_growth(hundred_thousand_ids) / 100_000 < 1_024
