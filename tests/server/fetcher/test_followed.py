"""A response continues a follower's log only if nothing has changed since its request."""

from __future__ import annotations

import pytest

from oncelog_server.fetcher.followed import Followed, Phase
from oncelog_server.fetcher.leader_fetcher import key_of
from oncelog_server.partition.follower_log import FollowerLog
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition


def followed() -> Followed:
    found = partition(isr=(0, 1), replicas=(0, 1))
    found.append(batch(3), now_ms=NOW_MS)
    found.become_follower(1, 2)
    return Followed(key_of(found), FollowerLog(found), 2)


def test_a_row_has_the_state_of_the_log() -> None:
    row = followed().row(100)
    assert (row.partition, row.current_leader_epoch, row.partition_max_bytes) == (0, 2, 100)
    assert (row.fetch_offset, row.last_fetched_epoch, row.log_start_offset) == (3, 0, 0)
    assert row.high_watermark == 0


def test_a_response_to_the_present_row_is_taken() -> None:
    found = followed()
    assert found.is_answered_by(found.row(100))
    assert not found.is_answered_by(None)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.FETCHING])
def test_a_response_that_comes_in_another_phase_is_not_taken(phase: Phase) -> None:
    found = followed()
    row = found.row(100)
    found.phase = phase
    assert not found.is_answered_by(row)


def test_a_response_of_an_earlier_leader_or_for_an_earlier_end_is_not_taken() -> None:
    found = followed()
    row = found.row(100)
    row.current_leader_epoch = 1
    assert not found.is_answered_by(row)
    row = found.row(100)
    row.fetch_offset = 2
    assert not found.is_answered_by(row)


def test_the_leaders_watermarks_are_followed_up_to_the_own_end() -> None:
    found = followed()
    found.high_watermark, found.log_start_offset = 5, 2
    found.follow_leader(NOW_MS)
    partition = found.log.partition
    assert (partition.high_watermark, partition.log_start_offset, found.lag) == (3, 2, 2)
    found.high_watermark = 1  # a new leader may not know the high watermark yet
    found.follow_leader(NOW_MS)
    assert partition.high_watermark == 3
