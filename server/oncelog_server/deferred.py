"""A response that is completed later, without a task or an event loop; its request is parked. The
package that produces the response keeps the `Deferred` and completes it. The connection that sends
the response registers a callback. Both run on one thread, so nothing is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar, overload

T = TypeVar("T")
R = TypeVar("R")


class Unheard:
    """Takes failures that no other code handles: the exceptions of callbacks, and the failures of
    abandoned responses without an `on_abandon` callback. The broker sets `take` to a function that
    logs a failure, so that a defect fails only its own request. Without `take` the failures are
    raised.
    """

    take: Callable[[Exception], None] | None = None

    @classmethod
    def give(cls, failures: Sequence[Exception]) -> None:
        take = cls.take
        if take is None:
            if len(failures) > 1:
                raise ExceptionGroup("several callbacks failed", failures)
            for failure in failures:
                raise failure
            return
        for failure in failures:
            take(failure)


class Order(Enum):
    """The requests that a connection serves while a response is pending, and the moment at which
    the response leaves."""

    PARKS = "parks"
    """The next request is served after the response."""
    ORDERED = "ordered"
    """The request has already taken effect, and only its response is pending. The next requests are
    served, and all responses leave in the order of the requests."""
    FREE = "free"
    """The next requests are served. The response leaves when it is complete (`UNORDERED` of
    `oncelog_protocol/apis.py`)."""


class Deferred(Generic[T]):
    """A response that `complete` sets exactly once. `on_complete` may be called before or after
    `complete`.

    `cancel` ends the wait, for example because the client has closed the connection. The
    `on_cancel` callbacks then release the resources of the wait, and a later `complete` is ignored.
    `order` says whether the connection may serve the next request.

    `complete` and `abandon` pass the exceptions of callbacks to `Unheard` after all callbacks have
    run. In a broker, which sets `Unheard.take`, the exceptions never reach the caller of `complete`
    or `abandon`. `failure` is the exception of an abandoned response, None if it is already logged
    or unknown.
    """

    __slots__ = (
        "_abandon_callbacks",
        "_callbacks",
        "_cancel_callbacks",
        "_value",
        "abandoned",
        "cancelled",
        "done",
        "failure",
        "order",
    )

    def __init__(self, *, order: Order = Order.PARKS) -> None:
        self.order = order
        self.done = False
        self.cancelled = False
        self._value: T | None = None
        self._callbacks: list[Callable[[T], None]] = []
        self._cancel_callbacks: list[Callable[[], None]] = []
        self._abandon_callbacks: list[Callable[[], None]] = []
        self.abandoned = False
        self.failure: Exception | None = None

    @property
    def value(self) -> T:
        """Return the response. Raises LookupError while it is pending."""
        if not self.done:
            raise LookupError("not completed yet")
        return self._value  # type: ignore[return-value]  # set, and T may allow None

    def complete(self, value: T) -> None:
        """Set the response and run the callbacks. Raises RuntimeError if it was set before."""
        if self.cancelled:
            return
        if self.done:
            raise RuntimeError("a deferred response is completed once")
        self.done = True
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        # The callbacks refer to this Deferred. Such a cycle would keep the value until a full
        # garbage collection.
        self._cancel_callbacks.clear()
        self._abandon_callbacks.clear()
        failures: list[Exception] = []
        for callback in callbacks:
            try:
                callback(value)
            except Exception as failure:
                failures.append(failure)
        if failures:
            Unheard.give(failures)

    def on_complete(self, callback: Callable[[T], None]) -> None:
        """Call `callback(value)` on completion, at once if that has happened."""
        if self.done:
            callback(self.value)
        elif not self.cancelled:
            self._callbacks.append(callback)

    def abandon(self, failure: Exception | None = None) -> None:
        """End the wait without a response, because of a defect.

        The `on_abandon` callbacks run, so that nothing waits forever. They pass `failure` on or log
        it. None means that the failure is logged already.
        """
        if self.done or self.cancelled or self.abandoned:
            if failure is not None:
                Unheard.give([failure])
            return
        self.abandoned = True
        self.failure = failure
        callbacks, self._abandon_callbacks = self._abandon_callbacks, []
        failures = [] if callbacks or failure is None else [failure]
        for callback in callbacks:
            try:
                callback()
            except Exception as another:
                failures.append(another)
        if failures:
            Unheard.give(failures)

    def on_abandon(self, callback: Callable[[], None]) -> None:
        """Call `callback()` if the response is abandoned, at once if that has happened."""
        if self.abandoned:
            callback()
        elif not self.done:
            self._abandon_callbacks.append(callback)

    def cancel(self) -> None:
        """End the wait from the waiting side. Nothing happens once the response is complete."""
        if self.done or self.cancelled:
            return
        self.cancelled = True
        self._callbacks.clear()
        self._abandon_callbacks.clear()
        callbacks, self._cancel_callbacks = self._cancel_callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback()` if the wait is cancelled, at once if that has happened."""
        if self.cancelled:
            callback()
        elif not self.done:
            self._cancel_callbacks.append(callback)


@overload
def then(response: Deferred[T], change: Callable[[T], R]) -> R | Deferred[R]: ...


@overload
def then(response: T | Deferred[T], change: Callable[[T], R]) -> R | Deferred[R]: ...


def then(response: T | Deferred[T], change: Callable[[T], R]) -> R | Deferred[R]:
    """Return `change(response)` if the response is complete, else a Deferred of it."""
    if not isinstance(response, Deferred):
        return change(response)
    if response.done:
        return change(response.value)
    later: Deferred[R] = Deferred(order=response.order)

    def completed(value: T) -> None:
        try:
            changed = change(value)
        except Exception as failure:
            later.abandon(failure)
            return
        later.complete(changed)

    response.on_complete(completed)
    response.on_abandon(lambda: later.abandon(response.failure))
    later.on_cancel(response.cancel)
    return later


def then_ask(
    response: T | Deferred[T], ask: Callable[[T], R | Deferred[R]], *, cancels: bool = False
) -> R | Deferred[R]:
    """Return `ask(response)`, which may be a Deferred. If `response` is pending, return a Deferred
    that gets the result later. `ask` is called even after a `cancel` of this Deferred, because work
    that has begun must be finished. With `cancels`, a `cancel` cancels `response` too, and `ask` is
    not called.
    """
    if not isinstance(response, Deferred):
        return ask(response)
    if response.done:
        return ask(response.value)
    later: Deferred[R] = Deferred()

    def asked(value: T) -> None:
        try:
            second = ask(value)
        except Exception as failure:
            later.abandon(failure)
            return
        pass_on(second, later)

    response.on_complete(asked)
    response.on_abandon(lambda: later.abandon(response.failure))
    if cancels:
        later.on_cancel(response.cancel)
    return later


def pass_on(response: T | Deferred[T], later: Deferred[T]) -> None:
    """Complete `later` with `response`, now or when `response` is complete."""
    if not isinstance(response, Deferred):
        later.complete(response)
        return
    response.on_complete(later.complete)
    response.on_abandon(lambda: later.abandon(response.failure))
    later.on_cancel(response.cancel)


def gather(responses: Sequence[T | Deferred[T]]) -> list[T] | Deferred[list[T]]:
    """Return all responses in their order, or a Deferred of them if some are pending."""
    missing = [
        response for response in responses if isinstance(response, Deferred) and not response.done
    ]
    left = len(missing)
    if not left:
        return _values(responses)
    later: Deferred[list[T]] = Deferred()

    def completed(_: T) -> None:
        nonlocal left
        left -= 1
        if not left:
            later.complete(_values(responses))

    def wait_for(response: Deferred[T]) -> None:
        response.on_complete(completed)
        response.on_abandon(lambda: later.abandon(response.failure))
        later.on_cancel(response.cancel)

    for response in missing:
        wait_for(response)
    return later


def _values(responses: Sequence[T | Deferred[T]]) -> list[T]:
    return [
        response.value if isinstance(response, Deferred) else response for response in responses
    ]
