"""When the broker opens a log, it notices if the log is newer than the metadata."""

from __future__ import annotations

import pytest

from oncelog_server.newer_logs import NewerLogs
from tests.server.log.driver import Driver
from tests.server.partition.partitions import held_by


@pytest.fixture
def driver() -> Driver:
    driver = Driver(leader_epoch=4)
    driver.send(1_999, 0)
    return driver


@pytest.mark.parametrize(
    ("next_producer_id", "leader_epoch", "expected"),
    [
        (2_000, 4, []),
        (3_000, 9, []),
        (1_999, 4, ["producer id 1999"]),
        (1_000, 4, ["producer id 1999"]),
        (2_000, 3, ["leader epoch 4"]),
        (0, 0, ["leader epoch 4", "producer id 1999"]),
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_logs_newer_than_the_metadata_are_found(
    driver: Driver, next_producer_id: int, leader_epoch: int, expected: list[str], clean: bool
) -> None:
    if clean:
        driver.log.close(clean=True)
    newer = NewerLogs(next_producer_id)
    newer.look_at(held_by(driver.open(clean=clean)), leader_epoch)
    assert len(newer.found) == len(expected)
    assert all(words in found for words, found in zip(expected, newer.found, strict=True))


def test_a_marker_with_a_newer_producer_id_does_not_make_the_log_newer(driver: Driver) -> None:
    driver.mark(5_000)
    newer = NewerLogs(2_000)
    newer.look_at(held_by(driver.log), 4)
    assert newer.found == []
