"""Requests parked on a partition complete in order, each once."""

from __future__ import annotations

from functools import partial

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.waiting import CommitWaiters, ParkedRequests


def _complete(completed: list[tuple[int, ErrorCode]], offset: int, code: ErrorCode) -> None:
    completed.append((offset, code))


def test_requests_parked_for_the_high_watermark_complete_in_order_and_once() -> None:
    completed: list[tuple[int, ErrorCode]] = []
    waiters = CommitWaiters()
    for offset in (3, 3, 5, 9):
        waiters.wait(offset, partial(_complete, completed, offset))
    waiters.advance(2)
    assert completed == []
    waiters.advance(5)
    waiters.advance(5)
    assert completed == [(3, ErrorCode.NONE), (3, ErrorCode.NONE), (5, ErrorCode.NONE)]
    waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert completed[3:] == [(9, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert len(waiters) == 0


def test_a_callback_that_parks_again_waits_for_the_next_event() -> None:
    waiters = CommitWaiters()
    completed: list[ErrorCode] = []
    waiters.wait(1, lambda code: waiters.wait(2, completed.append))
    waiters.advance(1)
    assert completed == []
    waiters.advance(2)
    assert completed == [ErrorCode.NONE]


def test_readers_are_woken_in_their_order_until_they_leave() -> None:
    woken: list[str] = []
    waiters = ParkedRequests()
    assert not waiters

    def first() -> None:
        woken.append("first")
        waiters.discard(second)

    def second() -> None:
        woken.append("second")

    waiters.add(first)
    waiters.add(second)
    assert waiters
    waiters.wake_all()
    waiters.wake_all()
    assert woken == ["first", "second", "first"]
    waiters.discard(first)
    waiters.discard(first)
    assert not waiters


@pytest.mark.parametrize("how", ["advance", "fail"])
def test_all_callbacks_run_although_one_of_them_raises(how: str) -> None:
    completed: list[tuple[int, ErrorCode]] = []
    waiters = CommitWaiters()
    code = ErrorCode.NONE if how == "advance" else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def broken(code: ErrorCode) -> None:
        raise LookupError(code)

    def tell_all() -> None:
        if how == "advance":
            waiters.advance(9)
        else:
            waiters.fail(code)

    waiters.wait(1, broken)
    waiters.wait(2, partial(_complete, completed, 2))
    with pytest.raises(LookupError):
        tell_all()
    assert completed == [(2, code)]
    waiters.wait(3, broken)
    waiters.wait(4, broken)
    waiters.wait(5, partial(_complete, completed, 5))
    with pytest.raises(ExceptionGroup) as several:
        tell_all()
    assert len(several.value.exceptions) == 2
    assert completed == [(2, code), (5, code)]


def test_all_readers_are_woken_although_one_of_them_raises() -> None:
    woken: list[str] = []
    waiters = ParkedRequests()

    def broken() -> None:
        raise LookupError

    waiters.add(broken)
    waiters.add(lambda: woken.append("second"))
    with pytest.raises(LookupError):
        waiters.wake_all()
    assert woken == ["second"]
