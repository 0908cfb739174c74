"""A `Deferred` is a response that comes later. It completes at most once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog_server.deferred import Deferred, Order, Unheard, gather, then, then_ask


def test_listeners_added_before_and_after_the_response_get_it_once() -> None:
    answer: Deferred[int] = Deferred()
    got: list[int] = []
    answer.on_complete(got.append)
    answer.complete(1)
    answer.on_complete(got.append)
    assert got == [1, 1]
    assert answer.value == 1
    with pytest.raises(RuntimeError):
        answer.complete(2)


def test_the_value_none_is_a_response_and_different_from_no_response() -> None:
    answer: Deferred[None] = Deferred()
    with pytest.raises(LookupError):
        _ = answer.value
    answer.complete(None)
    assert (answer.done, answer.value) == (True, None)


def test_a_cancelled_wait_releases_its_state_and_calls_no_listener() -> None:
    answer: Deferred[int] = Deferred()
    events: list[object] = []
    answer.on_complete(events.append)
    answer.on_cancel(lambda: events.append("released"))
    answer.cancel()
    answer.cancel()
    answer.on_cancel(lambda: events.append("at once"))
    answer.complete(1)
    answer.on_complete(events.append)
    assert events == ["released", "at once"]


def test_cancelling_after_the_response_changes_nothing() -> None:
    answer: Deferred[int] = Deferred()
    events: list[str] = []
    answer.on_cancel(lambda: events.append("released"))
    answer.complete(1)
    answer.cancel()
    assert (events, answer.cancelled) == ([], False)


def test_listeners_are_called_if_the_response_is_abandoned() -> None:
    answer: Deferred[int] = Deferred()
    events: list[str] = []
    answer.on_abandon(lambda: events.append("before"))
    answer.abandon()
    answer.abandon()
    answer.on_abandon(lambda: events.append("after"))
    assert events == ["before", "after"]
    done: Deferred[int] = Deferred()
    done.complete(1)
    done.abandon()
    done.on_abandon(lambda: events.append("never"))
    assert not done.abandoned
    assert len(events) == 2


# --- failures


class Broken(Exception):
    """The exception of a defect in a callback."""


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Return the failures that had no listener."""
    failures: list[Exception] = []
    monkeypatch.setattr(Unheard, "take", failures.append)
    return failures


def broken(value: object) -> Any:
    raise Broken(value)


def abandoned_by(answer: object) -> list[Exception | None]:
    """Return a list that gets the failure when the response is abandoned."""
    assert isinstance(answer, Deferred)
    failures: list[Exception | None] = []
    answer.on_abandon(lambda: failures.append(answer.failure))
    return failures


@pytest.mark.parametrize("chain", [then, then_ask])
def test_a_callback_that_raises_fails_only_its_own_response(
    unheard: list[Exception], chain: Callable[..., Any]
) -> None:
    answer: Deferred[int] = Deferred()
    failures = abandoned_by(chain(answer, broken))
    beside = then(answer, double)
    answer.complete(2)
    assert isinstance(beside, Deferred)
    assert beside.value == 4
    assert [type(failure) for failure in failures] == [Broken]
    assert unheard == []


def test_a_failure_reaches_all_responses_derived_from_the_response(
    unheard: list[Exception],
) -> None:
    first: Deferred[int] = Deferred()
    parts: list[int | Deferred[int]] = [then(first, broken), Deferred()]
    whole = gather(parts)
    made = then_ask(whole, len)
    failures = abandoned_by(then(made, double))
    first.complete(1)
    assert [type(failure) for failure in failures] == [Broken]
    assert unheard == []


def test_a_failed_second_response_fails_the_response_of_the_chain(unheard: list[Exception]) -> None:
    first: Deferred[int] = Deferred()
    second: Deferred[int] = Deferred()

    def ask(_: int) -> Deferred[int]:
        return second

    failures = abandoned_by(then_ask(first, ask))
    first.complete(1)
    second.abandon(Broken())
    assert [type(failure) for failure in failures] == [Broken]
    assert unheard == []


def test_all_callbacks_are_called_whatever_one_of_them_raises(unheard: list[Exception]) -> None:
    answer: Deferred[int] = Deferred()
    got: list[int] = []
    answer.on_complete(broken)
    answer.on_complete(got.append)
    answer.complete(1)
    assert got == [1]
    assert [type(error) for error in unheard] == [Broken]


def test_a_failure_without_a_listener_is_still_reported(unheard: list[Exception]) -> None:
    Deferred[int]().abandon(Broken("not waited for"))
    given_up: Deferred[int] = Deferred()
    given_up.cancel()
    given_up.abandon(Broken("given up"))
    assert [str(error) for error in unheard] == ["not waited for", "given up"]


def test_outside_of_a_broker_a_failure_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Unheard, "take", None)
    with pytest.raises(Broken):
        Deferred[int]().abandon(Broken())
    answer: Deferred[int] = Deferred()
    answer.on_complete(broken)
    answer.on_complete(broken)
    with pytest.raises(ExceptionGroup):
        answer.complete(1)


# --- then


def double(value: int) -> int:
    return 2 * value


def test_then_changes_a_complete_response() -> None:
    answer: Deferred[int] = Deferred()
    answer.complete(2)
    assert then(1, double) == 2
    assert then(answer, double) == 4


def test_then_changes_a_later_response() -> None:
    answer: Deferred[int] = Deferred(order=Order.ORDERED)
    later = then(answer, double)
    assert isinstance(later, Deferred)
    assert later.order is Order.ORDERED
    answer.complete(2)
    assert later.value == 4


def test_then_passes_on_a_cancel_and_an_abandoned_response() -> None:
    answer: Deferred[int] = Deferred()
    later = then(answer, double)
    assert isinstance(later, Deferred)
    later.cancel()
    assert answer.cancelled
    answer = Deferred()
    later = then(answer, double)
    assert isinstance(later, Deferred)
    answer.abandon()
    assert later.abandoned


# --- gather


def test_gather_returns_responses_in_the_order_of_its_arguments() -> None:
    first: Deferred[int] = Deferred()
    third: Deferred[int] = Deferred()
    later = gather([first, 2, third])
    assert isinstance(later, Deferred)
    third.complete(3)
    assert not later.done
    first.complete(1)
    assert later.value == [1, 2, 3]


def test_gather_of_complete_responses_is_complete() -> None:
    answer: Deferred[int] = Deferred()
    answer.complete(2)
    assert gather([1, answer]) == [1, 2]
    nothing: list[int | Deferred[int]] = []
    assert gather(nothing) == []


def test_gather_passes_on_a_cancel_and_an_abandoned_response() -> None:
    answers: list[Deferred[int]] = [Deferred(), Deferred()]
    later: list[int] | Deferred[list[int]] = gather(answers)
    assert isinstance(later, Deferred)
    later.cancel()
    assert all(answer.cancelled for answer in answers)
    answers = [Deferred(), Deferred()]
    later = gather(answers)
    assert isinstance(later, Deferred)
    answers[1].abandon()
    assert later.abandoned


@pytest.mark.parametrize("first_is_late", [False, True])
@pytest.mark.parametrize("second_is_late", [False, True])
def test_both_the_first_and_the_second_response_may_come_later(
    first_is_late: bool, second_is_late: bool
) -> None:
    first: Deferred[int] = Deferred()
    second: Deferred[str] = Deferred()
    asked: list[int] = []

    def ask(value: int) -> str | Deferred[str]:
        asked.append(value)
        return second if second_is_late else "now"

    answer = then_ask(first if first_is_late else 1, ask)
    if first_is_late:
        assert not asked
        first.complete(1)
    assert asked == [1]
    if second_is_late:
        assert isinstance(answer, Deferred)
        assert not answer.done
        second.complete("later")
        assert answer.value == "later"
    else:
        assert (answer.value if isinstance(answer, Deferred) else answer) == "now"


def test_the_second_request_is_sent_even_if_the_caller_has_cancelled() -> None:
    first: Deferred[int] = Deferred()
    asked: list[int] = []
    waiting = then_ask(first, asked.append)
    assert isinstance(waiting, Deferred)
    waiting.cancel()
    first.complete(1)
    assert asked == [1]


def test_a_cancel_may_end_the_first_request_instead() -> None:
    first: Deferred[int] = Deferred()
    asked: list[int] = []
    waiting = then_ask(first, asked.append, cancels=True)
    assert isinstance(waiting, Deferred)
    waiting.cancel()
    assert first.cancelled
    first.complete(1)
    assert asked == []


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_wait_for_two_responses_is_abandoned_with_either_response(is_asked: bool) -> None:
    first: Deferred[int] = Deferred()
    second: Deferred[str] = Deferred()

    def ask(_: int) -> str | Deferred[str]:
        return second

    answer = then_ask(first, ask)
    assert isinstance(answer, Deferred)
    if is_asked:
        first.complete(1)
        second.abandon()
    else:
        first.abandon()
    assert answer.abandoned
