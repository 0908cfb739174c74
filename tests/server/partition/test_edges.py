"""Values at the limits of conditions. Generated mutants showed that other tests do not cover these
limits."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.appended_records import AppendedRecords
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import NAME, mark, partition, refusal, send


def test_records_can_be_deleted_up_to_the_high_watermark() -> None:
    replica = partition()
    replica.append(batch(3), now_ms=NOW_MS)
    assert at_its_end(replica.delete_records_before(0, NOW_MS)) == 0
    assert at_its_end(replica.delete_records_before(3, NOW_MS)) == 3


def test_a_transaction_with_a_marker_below_the_high_watermark_is_forgotten_without_a_read() -> None:
    replica = partition()
    send(replica, 1, 0)
    mark(replica, 1)
    assert not replica._log.producers.decided


def test_no_request_is_served_before_there_is_a_leader() -> None:
    led = partition()
    replica = Partition(NAME, bytes(16), led._log, lambda _: None)
    assert (replica.is_leader, replica.leader_id, replica.leader_epoch) == (False, -1, -1)
    assert refusal(replica.check_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.become_leader(0, 0, (0,), (0,))
    replica.check_leader()


def test_the_interval_of_flush_ms_begins_with_the_request_and_not_with_its_end() -> None:
    """Otherwise a slow disk would get a flush request for each append."""
    found = partition(flush_ms=100)
    found.append(batch(), now_ms=NOW_MS)
    assert not found.claim_flush(NOW_MS + 99)
    assert found.claim_flush(NOW_MS + 100)
    assert not found.claim_flush(NOW_MS + 199)
    assert found.claim_flush(NOW_MS + 200)


def test_an_update_with_the_current_leader_epoch_is_applied() -> None:
    """Such an update may remove replicas from the ISR, or make the leader a follower."""
    found = partition(replicas=(0, 1), isr=(0, 1))
    found.become_leader(0, 0, (0,), (0, 1))
    found.append(batch(), now_ms=NOW_MS)
    assert found.high_watermark == 1
    found.become_follower(1, 0)
    assert not found.is_leader


def test_the_first_segment_offset_follows_deletions() -> None:
    found = partition(segment_bytes=200, retention_ms=-1)
    for _ in range(3):
        found.append(batch(2), now_ms=NOW_MS)
    appended = AppendedRecords(found)
    assert appended.first_segment_offset == 0
    at_its_end(found.delete_records_before(3, NOW_MS))
    at_its_end(found.apply_retention(NOW_MS))
    assert (found.log_start_offset, appended.first_segment_offset) == (3, 2)


def test_isolations_have_their_codes() -> None:
    assert [*map(int, Isolation)] == [0, 1]
