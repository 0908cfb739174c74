"""An answer that comes later, without a task or a loop: what parks a request.

The core that will know the answer keeps the `Deferred` and completes it; the connection that owes the
answer listens. Both sides run on one thread, so nothing is locked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deferred(Generic[T]):
    """Completed exactly once with `complete`; `on_complete` may be called before or after that.

    `cancel` is called when nobody waits any more (the client hung up): `on_cancel` callbacks release
    what the wait holds, and a later `complete` is ignored. `ordered` says that the request's effect has
    already taken place and only its answer waits, so that the connection may serve the next request.
    """

    __slots__ = ("_cancel_callbacks", "_callbacks", "_value", "cancelled", "done", "ordered")

    def __init__(self, *, ordered: bool = False) -> None:
        self.ordered = ordered
        self.done = False
        self.cancelled = False
        self._value: T | None = None
        self._callbacks: list[Callable[[T], None]] = []
        self._cancel_callbacks: list[Callable[[], None]] = []

    @property
    def value(self) -> T:
        """The answer; raises LookupError while there is none."""
        if not self.done:
            raise LookupError("not completed yet")
        return self._value  # type: ignore[return-value]  # T may itself be None

    def complete(self, value: T) -> None:
        """Give the answer. Raises RuntimeError when it was given before."""
        if self.cancelled:
            return
        if self.done:
            raise RuntimeError("a deferred answer is given once")
        self.done = True
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        self._cancel_callbacks.clear()
        for callback in callbacks:
            callback(value)

    def on_complete(self, callback: Callable[[T], None]) -> None:
        """Call `callback(value)` when the answer is there: at once if it already is."""
        if self.done:
            callback(self.value)
        elif not self.cancelled:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        """Nobody waits any more. Does nothing once completed."""
        if self.done or self.cancelled:
            return
        self.cancelled = True
        self._callbacks.clear()
        callbacks, self._cancel_callbacks = self._cancel_callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback()` if the wait is given up before the answer comes."""
        if self.cancelled:
            callback()
        elif not self.done:
            self._cancel_callbacks.append(callback)
