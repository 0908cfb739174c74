"""A follower appends batches unchanged from the leader, or refuses them."""

from __future__ import annotations

import pytest

from oncelog_protocol.records.batch import read_header
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.log.errors import UnexpectedBatch
from tests.server.log.driver import (
    ANY_EPOCH,
    NOW_MS,
    Driver,
    busy,
    check_invariants,
    logs_in,
)
from tests.server.log.followers import COMPACTED, KINDS, batches_in, files_of, follow, placed, state


@pytest.mark.parametrize("at_once", [1, 4, 1_000])
def test_a_follower_has_the_bytes_and_the_state_of_its_leader(at_once: int) -> None:
    leader = busy()
    follower = follow(batches_in(leader.files), at_once)
    assert len(logs_in(follower.files)) > 2
    assert files_of(follower) == files_of(leader)
    assert state(follower.log) == state(leader.log)
    check_invariants(follower.log, follower.files)
    leader.stop()
    follower.stop()
    assert files_of(follower, (*KINDS, ".snapshot")) == files_of(leader, (*KINDS, ".snapshot"))


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    first, second, *_ = batches_in(busy().files)
    log = Driver().log
    assert (
        log.append_replicated(first + second[:-1], leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
        == read_header(first).next_offset
    )
    assert (
        log.append_replicated(second, leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
        == read_header(second).next_offset
    )


def corrupt(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (placed(5, 3), UnexpectedBatch, "offsets 5..6 leave a gap: 4..4 are missing"),
        (placed(3, 3), UnexpectedBatch, "offsets 3..4 overlap the log, which ends at 4"),
        (placed(0, 3), UnexpectedBatch, "offsets 0..1 overlap"),
        (placed(4, 2), UnexpectedBatch, "leader epoch 2, but the log already has epoch 3"),
        (corrupt(placed(4, 3)), CorruptRecords, "CRC of the batch at offset 4"),
        (placed(4, 3) + placed(4, 3), UnexpectedBatch, "overlap the log, which ends at 6"),
        (placed(4, 4) + placed(6, 3), UnexpectedBatch, "leader epoch 3"),
    ],
)
def test_batches_that_do_not_continue_the_log_change_nothing(
    data: bytearray, error: type[Exception], reason: str
) -> None:
    follower = Driver()
    follower.log.append_replicated(
        placed(0, 3) + placed(2, 3), leader_epoch=ANY_EPOCH, now_ms=NOW_MS
    )
    before = state(follower.log), files_of(follower)
    with pytest.raises(error, match=reason):
        follower.log.append_replicated(data, leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    assert (state(follower.log), files_of(follower)) == before
    follower.log.append_replicated(placed(4, 3), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)


def test_compaction_may_have_left_gaps() -> None:
    follower = Driver(COMPACTED)
    data = placed(3, 1) + placed(9, 1)
    assert follower.log.append_replicated(data, leader_epoch=ANY_EPOCH, now_ms=NOW_MS) == 11


def test_an_epoch_in_which_this_broker_led_and_appended_nothing_is_forgotten() -> None:
    follower = Driver()
    follower.log.append_replicated(placed(0, 3), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    follower.log.assign_leader_epoch(5)
    follower.log.write_leader_epochs()
    follower.log.append_replicated(
        placed(2, 4) + placed(4, 5), leader_epoch=ANY_EPOCH, now_ms=NOW_MS
    )
    assert list(follower.log.leader_epochs) == [(3, 0), (4, 2), (5, 4)]
    assert list(follower.kill().leader_epochs) == [(3, 0), (4, 2), (5, 4)]


def test_KAFKA_18723_batches_above_the_followed_epoch_are_left_out() -> None:
    follower = Driver()
    data = placed(0, 4) + placed(2, 5) + placed(4, 6) + placed(6, 6)
    assert follower.log.append_replicated(data, now_ms=NOW_MS, leader_epoch=5) == 4
    assert follower.log.append_replicated(placed(4, 6), now_ms=NOW_MS, leader_epoch=5) == 4
    assert list(follower.log.leader_epochs) == [(4, 0), (5, 2)]
    assert follower.log.append_replicated(placed(4, 6), now_ms=NOW_MS, leader_epoch=6) == 6
    assert list(follower.kill().leader_epochs) == [(4, 0), (5, 2), (6, 4)]
