"""Histories written by hand: the checker finds each anomaly, and none in a correct history. The
names of the anomalies are those of jepsen.tests.kafka. G1a is a read of an aborted value, G0 a
cycle of writes, G1c a cycle of writes and reads."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.checking.anomalies import check_history
from tests.simulation.checking.history import (
    Assigned,
    History,
    MicroOperation,
    Operation,
    Outcome,
    Poll,
    Send,
)

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


def reads(**records: list[tuple[int, int]]) -> Poll:
    return Poll({key: tuple(found) for key, found in records.items()})


class Story:
    """A history of operations. An operation completes every 10 us, and lasts 5 us by default."""

    def __init__(self) -> None:
        self.history = History()
        self.now = 0

    def does(
        self,
        *steps: MicroOperation,
        process: int = 0,
        outcome: Outcome = OK,
        plain: bool = False,
        offsets: Mapping[tuple[str, str], int] | None = None,
        rebalanced: frozenset[str] = frozenset(),
        invoked: int | None = None,
    ) -> Story:
        self.now += 10
        self.history.add(
            Operation(
                process,
                outcome,
                steps,
                self.now - 5 if invoked is None else invoked,
                self.now,
                is_transaction=not plain,
                group_offsets=offsets or {},
                rebalanced=rebalanced,
            )
        )
        return self

    def assigned(self, *keys: str, process: int = 0, subscribed: bool = False) -> Story:
        self.history.add(Assigned(process, frozenset(keys), subscribed))
        return self

    def errors(self) -> set[str]:
        return {found.name for found in check_history(self.history) if not found.allowed}

    def allowed(self) -> set[str]:
        return {found.name for found in check_history(self.history) if found.allowed}


def test_a_history_without_faults_shows_nothing() -> None:
    story = Story().assigned("a", "b", process=1)
    story.does(Send("a", 1, 0), Send("b", 1, 0), offsets={("g", "in"): 3})
    story.does(Send("a", 2, 2), outcome=FAIL)
    story.does(Send("a", 3, 4), Send("a", 4, 5))
    story.does(Send("b", 2, None), outcome=INFO)
    story.does(reads(a=[(0, 1), (4, 3)], b=[(0, 1)]), process=1)
    story.does(reads(a=[(5, 4)], b=[(2, 2)]), process=1)
    story.history.complete |= {"a", "b"}
    story.history.final_offsets["g", "in"] = 3
    assert check_history(story.history) == []


def test_an_aborted_read_is_g1a() -> None:
    story = Story().does(Send("a", 1, 0), outcome=FAIL).does(reads(a=[(0, 1)]), process=1)
    assert story.errors() == {"G1a"}


def test_an_aborted_value_polled_by_a_failed_operation_is_no_anomaly() -> None:
    story = Story().does(Send("a", 1), outcome=FAIL).does(reads(a=[(0, 1)]), outcome=FAIL)
    assert story.errors() == set()


def test_a_transaction_that_reads_its_own_value_is_a_precommitted_read() -> None:
    assert Story().does(Send("a", 1, 0), reads(a=[(0, 1)])).errors() == {"precommitted-read"}


def test_a_value_that_was_never_written_is_a_phantom() -> None:
    assert Story().does(reads(a=[(0, 9)])).errors() == {"phantom"}


def test_two_values_at_one_offset_are_inconsistent() -> None:
    story = Story().does(Send("a", 1, 0)).does(Send("a", 2, 1))
    story.does(reads(a=[(0, 1)]), process=1).does(reads(a=[(0, 2)]), process=2)
    assert "inconsistent-offsets" in story.errors()


def test_one_value_at_two_offsets_is_a_duplicate_even_if_one_offset_is_a_wrong_zero() -> None:
    story = Story().does(Send("a", 1, 7)).does(reads(a=[(7, 1), (8, 1)]), process=1)
    assert "duplicate" in story.errors()
    story = Story().does(Send("a", 1, 0)).does(reads(a=[(7, 1)]), process=1)
    (found,) = [entry for entry in check_history(story.history) if entry.name == "duplicate"]
    assert "spurious zero" in found.what


def test_an_acknowledged_write_is_lost_if_a_reader_read_only_a_later_one() -> None:
    story = Story().does(Send("a", 1, 0)).does(Send("a", 2, 1))
    assert story.does(reads(a=[(1, 2)]), process=1).errors() == {"lost-write"}


def test_a_write_with_an_unknown_outcome_that_was_never_read_is_not_lost() -> None:
    story = Story().does(Send("a", 1, 0), outcome=INFO).does(Send("a", 2, 1))
    assert story.does(reads(a=[(1, 2)]), process=1).errors() == set()


def test_a_half_visible_transaction_with_an_unknown_outcome_is_torn() -> None:
    story = Story().does(Send("a", 1, 0), Send("b", 1, 0), outcome=INFO).does(Send("b", 2, 1))
    story.does(reads(a=[(0, 1)], b=[(1, 2)]), process=1)
    assert {"torn-txn", "lost-write"} <= story.errors()


def test_a_transaction_is_torn_if_one_of_its_records_is_missing_after_the_final_reads() -> None:
    story = Story().does(Send("a", 1), Send("b", 1), outcome=INFO)
    story.does(reads(a=[(0, 1)]), process=1)
    assert story.errors() == set()
    story.history.complete |= {"a", "b"}
    assert story.errors() == {"torn-txn"}


def test_group_offsets_of_an_aborted_transaction_are_torn() -> None:
    story = Story().does(Send("a", 1), outcome=FAIL, offsets={("g", "in"): 5})
    story.history.final_offsets["g", "in"] = 5
    assert story.errors() == {"torn-txn"}


def test_group_offsets_older_than_those_of_a_committed_transaction_are_torn() -> None:
    story = Story().does(Send("a", 1, 0), offsets={("g", "in"): 5})
    story.history.final_offsets["g", "in"] = -1
    assert story.errors() == {"torn-txn"}


def test_group_offsets_without_the_records_are_torn() -> None:
    story = Story().does(Send("a", 1), outcome=INFO, offsets={("g", "in"): 5})
    story.history.final_offsets["g", "in"] = 5
    assert story.errors() == {"torn-txn"}
    story.does(reads(a=[(0, 1)]), process=1)
    assert story.errors() == set()


def test_an_acknowledged_value_that_the_final_reads_do_not_return_is_unseen() -> None:
    story = Story().does(Send("a", 1, 0))
    assert story.errors() == set()
    story.history.complete.add("a")
    assert story.errors() == {"unseen"}


def three_values() -> Story:
    return Story().does(Send("a", 1, 0)).does(Send("a", 2, 1)).does(Send("a", 3, 2))


def test_a_skip_or_a_step_back_inside_one_poll_is_an_error() -> None:
    middle = reads(a=[(1, 2)])
    story = three_values().does(reads(a=[(0, 1), (2, 3)]), process=1).does(middle, process=2)
    assert story.errors() == {"int-poll-skip"}
    story = three_values().does(reads(a=[(0, 1), (1, 2), (0, 1), (1, 2), (2, 3)]), process=1)
    assert story.errors() == {"int-nonmonotonic-poll"}
    story = three_values().does(middle, process=2)
    story.does(reads(a=[(0, 1), (2, 3)]), process=1, rebalanced=frozenset("a"))
    assert story.errors() == set()


def test_a_skip_or_a_step_back_between_polls_is_an_error() -> None:
    story = three_values().assigned("a", process=1).does(reads(a=[(0, 1)]), process=1)
    story.does(reads(a=[(2, 3)]), process=1).does(reads(a=[(1, 2)]), process=2)
    assert story.errors() == {"poll-skip"}
    story = three_values().assigned("a", process=1).does(reads(a=[(0, 1), (1, 2)]), process=1)
    assert story.does(reads(a=[(1, 2), (2, 3)]), process=1).errors() == {"nonmonotonic-poll"}


def test_a_step_back_is_allowed_with_subscribe_and_after_a_new_assignment() -> None:
    story = three_values().assigned("a", process=1, subscribed=True)
    story.does(reads(a=[(0, 1), (1, 2)]), process=1).does(reads(a=[(1, 2)]), process=1)
    assert story.errors() == set()
    assert story.allowed() == {"nonmonotonic-poll", "consumed-again"}
    story = three_values().assigned("a", process=1).does(reads(a=[(0, 1), (1, 2)]), process=1)
    story.assigned("b", process=1).assigned("a", process=1).does(reads(a=[(0, 1)]), process=1)
    assert check_history(story.history) == []


def test_a_reader_may_read_the_records_of_a_failed_poll_again() -> None:
    story = three_values().assigned("a", process=1).does(reads(a=[(0, 1)]), process=1)
    story.does(reads(a=[(1, 2)]), process=1, outcome=FAIL)
    assert story.does(reads(a=[(1, 2), (2, 3)]), process=1).errors() == set()


def test_sends_out_of_order_are_nonmonotonic() -> None:
    readers = reads(a=[(0, 2), (1, 1)])
    story = Story().does(Send("a", 1, 1)).does(Send("a", 2, 0)).does(readers, process=1)
    assert story.errors() == {"nonmonotonic-send"}
    story = Story().does(Send("a", 1, 1), Send("a", 2, 0)).does(readers, process=1)
    assert story.errors() == {"int-nonmonotonic-send", "nonmonotonic-send"}


def test_interleaved_writers_are_reported_as_allowed_anomalies() -> None:
    story = Story().does(Send("a", 1, 0), Send("a", 3, 2), Send("b", 1, 1))
    story.does(Send("a", 2, 1), Send("b", 2, 0), process=2)
    story.does(reads(a=[(0, 1), (1, 2), (2, 3)], b=[(0, 2), (1, 1)]), process=1)
    assert story.errors() == set()
    assert story.allowed() == {"int-send-skip", "G0", "G1c"}


def test_two_transactions_that_read_each_other_are_g1c() -> None:
    story = Story().does(Send("a", 1, 0), reads(b=[(0, 1)]), invoked=0)
    story.does(Send("b", 1, 0), reads(a=[(0, 1)]), process=1, invoked=1)
    assert story.errors() == {"G1c"}


def test_a_value_read_before_its_transaction_began_is_g1c() -> None:
    story = Story().does(reads(a=[(0, 1)]), process=1).does(Send("a", 1, 0))
    assert story.errors() == {"G1c"}
