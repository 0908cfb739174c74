"""The high watermark of a replica when its broker starts."""

from __future__ import annotations

import pytest

from oncelog_server.cluster.image import PartitionImage, TopicImage
from oncelog_server.hosting.last_stop import LastStop
from oncelog_server.hosting.log_opening import LogOpening
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RefusedWork
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.producer_id_quota import RefusedProducerIds
from tests.server.log.driver import NOW_MS, TOPIC_ID, Driver
from tests.server.manual_timers import ManualTimers

PLACE = TopicPartition("topic", 0)


def opening(driver: Driver, *, lost_nothing: bool) -> LogOpening:
    """Return an opening of the driver's log. The broker was killed, the log was synced up to
    offset 5, and the high watermark was 7."""
    stop = LastStop(
        was_clean=False,
        lost_nothing=lost_nothing,
        recovery_points={PLACE: 5},
        log_start_offsets={},
        closed_logs={},
        high_watermarks={PLACE: 7},
        cleaned_offsets={},
    )
    return LogOpening(
        Settings(),
        driver.files,
        Partitions(),
        stop,
        wall_ms=lambda: NOW_MS,
        request_flush=lambda partition: None,
        jitter=lambda most: 0,
        refused_ids=RefusedProducerIds(),
        is_given_id=lambda producer_id: True,
        refused_work=RefusedWork(ManualTimers(), lambda: 0),
        stop_following=lambda partition: None,
    )


def high_watermark(*replicas: int, lost_nothing: bool) -> int:
    """Return the high watermark of a replica at the start. Its log ends at offset 10."""
    driver = Driver()
    for _ in range(10):
        driver.plain()
    driver.files = driver.files.after_kill()
    image = PartitionImage(TOPIC_ID, 0, replicas, replicas, 2, 1, 1)
    topic = TopicImage(PLACE.topic, TOPIC_ID, "", {}, (image,), 1)
    partition = opening(driver, lost_nothing=lost_nothing).open(topic, PLACE, known=True)
    assert partition is not None
    assert partition.log_end_offset == 10
    return partition.high_watermark


@pytest.mark.parametrize(("lost_nothing", "expected"), [(True, 7), (False, 5)])
def test_after_a_power_failure_the_high_watermark_is_at_most_the_recovery_point(
    lost_nothing: bool, expected: int
) -> None:
    """The failure may undo the cut of a follower's log: records above the recovery point may be
    old records that were never committed (cluster seed 92029)."""
    assert high_watermark(2, 1, lost_nothing=lost_nothing) == expected


def test_the_whole_log_of_a_single_replica_is_committed() -> None:
    assert high_watermark(1, lost_nothing=False) == 10
