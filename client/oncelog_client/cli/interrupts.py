"""SIGINT and SIGTERM for commands that write or read for long. After a signal such a command may
complete the work that it has begun, for at most ENDED_AFTER_S.

The handlers are Python's, not the event loop's. They run even while a write to a pipe blocks the
loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from oncelog_client.cli.failures import Interrupted
from oncelog_client.process import last_words

# Time from the signal to the first cancellation of work that hangs, and time between two
# cancellations.
CANCELLED_AFTER_S: Final = 0.4
AGAIN_S: Final = 0.25
# Maximum time from the signal to the end of the process.
ENDED_AFTER_S: Final = 0.7
# Time from a second signal to the end of the process.
ENDED_AFTER_SECOND_S: Final = 0.3

_HANDLED: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The first signal sets `event`. After CANCELLED_AFTER_S, or at a second signal, the task that
    created this object is cancelled, repeatedly until the task ends. The process ends with the
    message `words` if the task still runs ENDED_AFTER_S after the first signal or
    ENDED_AFTER_SECOND_S after the second, or at a third signal."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.event = asyncio.Event()
        self.number = 0
        # The message at the end of the process. It is empty after the work has printed its own
        # message.
        self.words: Callable[[], str] = lambda: "interrupted"
        self._count = 0
        self._task: asyncio.Task[Any] = task
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals within the block. Raises Interrupted if a signal has cancelled the
        block."""
        alarm = signal.signal(signal.SIGALRM, self._end)
        before = {number: signal.signal(number, self._received) for number in _HANDLED}
        try:
            yield
        except asyncio.CancelledError:
            if not self.is_set:
                raise
            raise Interrupted(self.words()) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)
            if self._timer is not None:
                self._timer.cancel()

    @property
    def is_set(self) -> bool:
        """Return True after a signal."""
        return self.number != 0

    def _received(self, number: int, *_: object) -> None:
        self._count += 1
        if self._count > 2:
            self._end()
        self.number = self.number or number
        left_s = ENDED_AFTER_SECOND_S if self._count > 1 else ENDED_AFTER_S
        due_s, _interval_s = signal.getitimer(signal.ITIMER_REAL)
        signal.setitimer(signal.ITIMER_REAL, min(left_s, due_s or left_s))
        self._loop.call_soon_threadsafe(self._stop if self._count == 1 else self._cancel)

    def _stop(self) -> None:
        self.event.set()
        if self._timer is None:
            self._timer = self._loop.call_later(CANCELLED_AFTER_S, self._cancel)

    def _cancel(self) -> None:
        self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(AGAIN_S, self._cancel)

    def _end(self, *_: object) -> None:
        # The signal may come in the middle of a change of the state that `words` reads.
        words = "interrupted"
        with suppress(Exception):
            words = self.words()
        if words:
            last_words(words)
        os._exit(128 + self.number)
