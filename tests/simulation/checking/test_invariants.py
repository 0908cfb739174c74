"""Files written by hand: the checkers find each violation, and none in correct files."""

from __future__ import annotations

import pytest

from tests.simulation.checking.handmade import GROUPS, TXN, Hand
from tests.simulation.checking.internal_records import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from tests.simulation.checking.invariants import check_files, check_settled
from tests.simulation.checking.live import (
    LiveBroker,
    LivePartition,
    LiveTransaction,
    check_live,
)
from tests.simulation.checking.logs import AbortedRow, Producer
from tests.simulation.checking.promises import check_reads

A, B, G = ("a", 0), ("b", 0), (GROUPS, 0)
PRODUCER, BUMPED = (7, 0), (7, 1)


def found(hand: Hand) -> set[str]:
    return {violation.invariant for violation in check_files(hand.partitions())}


def begun(*partitions: tuple[str, int], hand: Hand | None = None) -> Hand:
    """Begin a transaction with a record in each of these partitions."""
    hand = hand or Hand()
    hand.state("t", EMPTY, PRODUCER)
    hand.state("t", ONGOING, PRODUCER, *partitions)
    for topic, partition in partitions:
        if topic == GROUPS:
            hand.offset(PRODUCER, 5)
        else:
            hand.data(f"{topic}-{partition}", PRODUCER, 0)
    return hand


def ended(hand: Hand, *partitions: tuple[str, int], committed: bool = True) -> Hand:
    """End a transaction as KIP-890 does: with a decision that bumps the epoch."""
    hand.state("t", PREPARE_COMMIT if committed else PREPARE_ABORT, BUMPED, *partitions)
    for topic, partition in partitions:
        offset = hand.marker(f"{topic}-{partition}", BUMPED, committed)
        if not committed:
            hand.rows(f"{topic}-{partition}", (7, 0, offset, offset + 1))
    hand.state("t", COMPLETE_COMMIT if committed else COMPLETE_ABORT, BUMPED)
    return hand


@pytest.mark.parametrize("committed", [True, False])
def test_a_whole_transaction_violates_nothing(committed: bool) -> None:
    hand = ended(begun(A, B, G), A, B, G, committed=committed)
    assert check_files(hand.partitions()) == []
    assert check_settled(hand.partitions()) == []


def test_a_marker_that_was_compacted_away_after_its_data_violates_nothing() -> None:
    hand = Hand()
    hand.emptied_marker("table-0", BUMPED)
    hand.data("table-0", BUMPED, 0, plain=True)
    assert check_files(hand.partitions()) == []
    assert check_settled(hand.partitions()) == []


def test_a_marker_that_was_compacted_away_before_its_data_is_found() -> None:
    hand = begun(("table", 0))
    hand.emptied_marker("table-0", PRODUCER)
    assert "I8" in {violation.invariant for violation in check_settled(hand.partitions())}


@pytest.mark.parametrize("committed", [True, False])
def test_before_kip_890_two_transactions_of_one_epoch_violate_nothing(committed: bool) -> None:
    hand = Hand()
    hand.state("t", EMPTY, PRODUCER)
    for turn in (0, 1):
        hand.state("t", ONGOING, PRODUCER, A)
        hand.data("a-0", PRODUCER, turn)
        hand.state("t", PREPARE_COMMIT if committed else PREPARE_ABORT, PRODUCER, A)
        hand.marker("a-0", PRODUCER, committed)
        hand.marker("a-0", PRODUCER, committed)  # the response was lost
        hand.state("t", COMPLETE_COMMIT if committed else COMPLETE_ABORT, PRODUCER)
    if not committed:
        hand.rows("a-0", (7, 0, 1, 2), (7, 3, 4, 5))
    assert check_files(hand.partitions()) == []


def test_i3_a_sequence_twice_and_a_gap() -> None:
    hand = Hand()
    hand.data("a-0", PRODUCER, 0, b"x", b"y", plain=True)
    hand.data("a-0", PRODUCER, 1, b"y", plain=True)
    assert found(hand) == {"I3"}
    hand = Hand()
    hand.data("a-0", PRODUCER, 0, plain=True)
    hand.data("a-0", PRODUCER, 2, plain=True)
    assert found(hand) == {"I3"}
    assert check_files(hand.partitions(), forgetful=True) == []


def test_i3_a_sequence_that_wraps_is_sound() -> None:
    hand = Hand()
    hand.data("a-0", PRODUCER, 2**31 - 1, b"x", b"y", plain=True)
    hand.data("a-0", PRODUCER, 1, plain=True)
    assert check_files(hand.partitions(), forgetful=True) == []


def test_i4_data_outside_of_the_open_transaction() -> None:
    hand = begun(A)
    hand.data("a-0", PRODUCER, 1, plain=True)
    assert found(hand) == {"I4"}


def test_i4_a_second_transaction_of_a_newer_epoch_while_one_is_open() -> None:
    hand = begun(A)
    hand.data("a-0", BUMPED, 0)
    assert "I4" in found(hand)


def test_i5_a_marker_is_missing_on_one_partition() -> None:
    hand = begun(A, B)
    hand.state("t", PREPARE_COMMIT, BUMPED, A, B)
    hand.marker("a-0", BUMPED, True)
    assert found(hand) == set()
    assert {violation.invariant for violation in check_settled(hand.partitions())} == {"I8"}
    hand.state("t", COMPLETE_COMMIT, BUMPED)
    assert found(hand) == {"I5"}


def test_i5_before_kip_890_the_second_marker_of_one_epoch_is_missing() -> None:
    hand = Hand()
    hand.state("t", EMPTY, PRODUCER)
    for _ in range(2):
        hand.state("t", ONGOING, PRODUCER, A)
        hand.state("t", PREPARE_COMMIT, PRODUCER, A)
        hand.state("t", COMPLETE_COMMIT, PRODUCER)
    hand.marker("a-0", PRODUCER, True)
    assert found(hand) == {"I5"}


def test_i5_records_of_a_transaction_that_the_coordinator_does_not_know() -> None:
    hand = begun(A)
    hand.data("b-0", PRODUCER, 0)
    assert found(hand) == {"I5"}


def test_i5_the_decision_lacks_a_partition() -> None:
    hand = begun(A, B)
    hand.state("t", PREPARE_COMMIT, BUMPED, A)
    assert found(hand) == {"I5"}


def test_i6_a_marker_without_a_decision() -> None:
    hand = begun(A)
    hand.marker("a-0", PRODUCER, True)
    assert found(hand) == {"I6"}


def test_i6_a_marker_of_a_coordinator_older_than_the_decision() -> None:
    hand = begun(A)
    hand.state("t", PREPARE_COMMIT, BUMPED, A, leader_epoch=3)
    hand.marker("a-0", BUMPED, True, coordinator_epoch=2)
    assert found(hand) == {"I6"}


def test_i7_an_abort_marker_of_a_commit_on_one_partition() -> None:
    hand = begun(A, B)
    hand.state("t", PREPARE_COMMIT, BUMPED, A, B)
    hand.marker("a-0", BUMPED, True)
    hand.marker("b-0", BUMPED, False)
    hand.rows("b-0", (7, 0, 1, 2))
    assert found(hand) == {"I7"}


def test_i7_a_commit_that_is_completed_as_an_abort() -> None:
    hand = begun()
    hand.state("t", PREPARE_COMMIT, BUMPED)
    hand.state("t", COMPLETE_ABORT, BUMPED)
    assert found(hand) == {"I7"}


def test_i7_a_marker_of_the_transaction_before_ends_the_next_one() -> None:
    hand = Hand()
    hand.state("t", EMPTY, PRODUCER)
    hand.state("t", ONGOING, PRODUCER, A)
    hand.data("a-0", PRODUCER, 0)
    hand.state("t", PREPARE_COMMIT, PRODUCER, A)
    hand.marker("a-0", PRODUCER, True)
    hand.state("t", COMPLETE_COMMIT, PRODUCER)
    hand.state("t", ONGOING, PRODUCER, A)
    hand.data("a-0", PRODUCER, 1)
    hand.marker("a-0", PRODUCER, True)
    assert found(hand) == {"I6"}


def compacted(decisions: int, version: int) -> Hand:
    """Return a coordinator's log that lacks its first records. It has `decisions` commits: the last
    one is prepared, the others are complete. Partition a-0 has an ABORT, then a COMMIT for each
    complete commit, so it has `decisions` markers."""
    hand = Hand()
    hand.ends[TXN, 0] = 3
    hand.marker("a-0", PRODUCER, False)
    for n in range(decisions):
        hand.state("t", PREPARE_COMMIT, PRODUCER, A, version=version)
        if n < decisions - 1:
            hand.marker("a-0", PRODUCER, True)
            hand.state("t", COMPLETE_COMMIT, PRODUCER, version=version)
    return hand


@pytest.mark.parametrize("decisions", [1, 2, 3])
def test_a_decision_that_was_compacted_away_violates_nothing(decisions: int) -> None:
    assert check_files(compacted(decisions, version=1).partitions()) == []


def test_i5_beside_a_decision_that_was_compacted_away_the_others_need_their_markers() -> None:
    hand = compacted(3, version=1)
    hand.logs[A] = hand.logs[A][: len(hand.logs[A]) // 3]  # only the ABORT
    hand.state("t", COMPLETE_COMMIT, PRODUCER, version=1)
    assert found(hand) == {"I5"}


def test_i7_from_transaction_version_2_on_no_decision_of_the_epoch_is_compacted_away() -> None:
    assert found(compacted(1, version=2)) == {"I7"}


def test_i10_one_producer_id_for_two_transactional_ids() -> None:
    hand = Hand()
    hand.state("t", EMPTY, PRODUCER)
    hand.state("u", EMPTY, PRODUCER)
    assert found(hand) == {"I10"}


def test_i11_epochs_that_go_back() -> None:
    hand = Hand()
    hand.state("t", EMPTY, BUMPED)
    hand.state("t", EMPTY, PRODUCER)
    assert found(hand) == {"I11"}
    hand = Hand()
    hand.data("a-0", BUMPED, 0, plain=True)
    hand.data("a-0", PRODUCER, 0, plain=True)
    assert found(hand) == {"I11"}
    hand = Hand()
    hand.append("a-0", [(None, b"")], leader_epoch=2)
    hand.append("a-0", [(None, b"")], leader_epoch=1)
    assert found(hand) == {"I11"}


def test_i11_a_marker_of_an_older_coordinator() -> None:
    hand = Hand()
    hand.state("t", EMPTY, PRODUCER)
    hand.state("t", ONGOING, PRODUCER, A)
    hand.state("t", PREPARE_COMMIT, PRODUCER, A)
    hand.marker("a-0", PRODUCER, True, coordinator_epoch=4)
    hand.marker("a-0", PRODUCER, True, coordinator_epoch=3)
    assert found(hand) == {"I11"}


def test_i14_a_txnindex_row_that_is_missing_or_wrong_or_of_a_commit() -> None:
    hand = ended(begun(A), A, committed=False)
    del hand.extra[f"a-0/{0:020d}.txnindex"]
    assert found(hand) == {"I14"}
    hand.rows("a-0", (7, 1, 1, 2))
    assert found(hand) == {"I14"}
    hand = ended(begun(A), A)
    hand.rows("a-0", (7, 0, 1, 2))
    assert found(hand) == {"I14"}


def test_i14_another_open_transaction_holds_back_the_lso_of_a_txnindex_row() -> None:
    hand = begun(A)
    hand.state("u", EMPTY, (8, 0))
    hand.state("u", ONGOING, (8, 0), A)
    hand.data("a-0", (8, 0), 0)
    hand.state("u", PREPARE_ABORT, (8, 1), A)
    hand.marker("a-0", (8, 1), False)
    hand.rows("a-0", (8, 1, 2, 0))
    assert check_files(hand.partitions()) == []


def test_i15_a_snapshot_that_drops_the_open_transaction() -> None:
    hand = begun(A)
    hand.snapshot("a-0", 1, (7, 0, 0, 0, 0, 0, -1, 0))
    assert check_files(hand.partitions()) == []
    hand.snapshot("a-0", 1, (7, 0, 0, 0, 0, 0, -1, -1))
    assert found(hand) == {"I15"}
    hand.snapshot("a-0", 1)
    assert found(hand) == {"I15"}


def test_i15_a_snapshot_need_not_have_records_from_its_offset_on() -> None:
    hand = ended(begun(A), A)
    hand.snapshot("a-0", 1, (7, 0, 0, 0, 0, 0, -1, 0))
    hand.snapshot("a-0", 2, (7, 1, -1, -1, 0, 0, 0, -1))
    assert check_files(hand.partitions()) == []


def test_a_torn_batch_is_found() -> None:
    hand = begun(A)
    hand.logs[A] = hand.logs[A][:-1]
    assert found(hand) == {"I16"}
    hand = begun(A)
    hand.logs[A][-1] ^= 1
    assert found(hand) == {"I16"}


def test_i7_a_transactional_id_that_moves_between_two_logs_has_separate_states_in_each() -> None:
    hand = Hand()
    hand.state("t", EMPTY, PRODUCER)
    hand.state("t", DEAD, PRODUCER)
    hand.state("t", EMPTY, BUMPED, log=1)
    hand.state("t", DEAD, BUMPED, log=1)
    hand.state("t", EMPTY, (7, 2))
    assert check_files(hand.partitions()) == []
    hand.state("t", COMPLETE_COMMIT, (7, 2), log=1)
    assert found(hand) == {"I7"}


def test_t6_a_transaction_that_starts_again() -> None:
    hand = begun(A)
    hand.state("t", ONGOING, PRODUCER, A, B, start_ms=9)
    assert found(hand) == {"T6"}


def test_i1_a_reader_got_an_uncommitted_or_changed_record() -> None:
    hand = ended(begun(A), A)
    hand.data("a-0", BUMPED, 0, b"undecided")
    logs = hand.partitions()
    assert check_reads({A: [(0, b"v")]}, logs) == []
    assert [v.invariant for v in check_reads({A: [(2, b"undecided")]}, logs)] == ["I1"]
    assert [v.invariant for v in check_reads({A: [(0, b"w")]}, logs)] == ["I1"]
    aborted = ended(begun(A), A, committed=False).partitions()
    assert [v.invariant for v in check_reads({A: [(0, b"v")]}, aborted)] == ["I1"]


def live(hand: Hand, **partitions: tuple[int, int, int, int]) -> set[str]:
    broker = LiveBroker({(name, 0): LivePartition(*found) for name, found in partitions.items()})
    return {violation.invariant for violation in check_live(hand.partitions(), broker)} - {"I15"}


def test_i2_the_last_stable_offset_of_an_open_transaction() -> None:
    assert live(begun(A), a=(0, 0, 1, 1)) == set()
    assert live(begun(A), a=(0, 1, 1, 1)) == {"I2"}
    assert live(begun(A), a=(0, 0, 1, 2)) == {"I2"}


def test_i2_a_marker_above_the_high_watermark_decides_nothing() -> None:
    hand = ended(begun(A), A)
    assert live(hand, a=(0, 2, 2, 2)) == set()
    assert live(hand, a=(0, 0, 1, 2)) == set()
    assert live(hand, a=(0, 1, 1, 2)) == {"I2"}


def test_i14_i15_state_in_memory_is_compared_with_the_log() -> None:
    hand = ended(begun(A), A, committed=False)
    sound = LivePartition(
        0, 2, 2, 2, {7: Producer(1, 0, -1, -1, -1)}, aborted=(AbortedRow(7, 0, 1, 2),)
    )
    logs = hand.partitions()
    assert check_live(logs, LiveBroker({A: sound}), settled=True) == []
    older = LivePartition(0, 2, 2, 2, {7: Producer(0, 0, 0, 0, -1)}, aborted=())
    wrong = check_live(logs, LiveBroker({A: older}))
    assert [violation.invariant for violation in wrong] == ["I15", "I14"]


def test_i14_aborted_transactions_in_memory_are_compared_with_the_log() -> None:
    logs = ended(begun(A), A, committed=False).partitions()
    producers = {7: Producer(1, 0, -1, -1, -1)}
    row = AbortedRow(7, 0, 1, 2)
    for rows, wrong in (
        ({0: (row,)}, []),
        ({}, []),
        ({0: ()}, ["I14"]),
        ({0: (row, row)}, ["I14"]),
    ):
        live = LivePartition(0, 2, 2, 2, producers, aborted_by_segment=rows)
        found = check_live(logs, LiveBroker({A: live}))
        assert [violation.invariant for violation in found] == wrong


def test_i12_offsets_are_those_of_the_replayed_log() -> None:
    hand = begun(G)
    key = ("g", "in", 0)
    open_ = LiveBroker(group_offsets={}, pending_offsets=frozenset([key]))
    assert check_live(hand.partitions(), open_) == []
    # This record has a higher offset than the record of the transaction, so its value applies.
    hand.offset(None, 7)
    ended(hand, G)
    logs = hand.partitions()
    assert check_live(logs, LiveBroker(group_offsets={key: 7}, pending_offsets=frozenset())) == []
    for wrong in (
        LiveBroker(group_offsets={key: 5}),
        LiveBroker(group_offsets={}),
        LiveBroker(pending_offsets=frozenset([key])),
    ):
        assert [violation.invariant for violation in check_live(logs, wrong)] == ["I12"]


def test_i12_an_aborted_offset_and_an_offset_with_a_tombstone_do_not_exist() -> None:
    hand = ended(begun(G), G, committed=False)
    assert check_live(hand.partitions(), LiveBroker(group_offsets={})) == []
    hand.offset(None, 3)
    hand.offset(None, None)
    assert check_live(hand.partitions(), LiveBroker(group_offsets={})) == []


def test_i12_live_transactions_are_those_of_the_replayed_log() -> None:
    logs = begun(A).partitions()
    sound = LiveTransaction(7, 0, ONGOING, frozenset([A]))
    assert check_live(logs, LiveBroker(transactions={(0, "t"): sound})) == []
    for wrong in (
        {},
        {(0, "t"): LiveTransaction(7, 0, EMPTY)},
        {(0, "t"): sound, (0, "u"): sound},
        {(1, "t"): sound},
    ):
        found = check_live(logs, LiveBroker(transactions=wrong))
        assert {violation.invariant for violation in found} == {"I12"}


def test_directories_and_files_to_be_deleted_are_no_partitions() -> None:
    hand = begun(A)
    files = hand.files()
    files[f"a-0.0123456789abcdef0123456789abcdef-delete/{0:020d}.log"] = b"x"
    files[f"a-0/{0:020d}.log.deleted"] = b"x"
    files["a-0/leader-epoch-checkpoint"] = b"x"
    hand.extra = files
    assert sorted(hand.partitions()) == [(TXN, 0), A]
