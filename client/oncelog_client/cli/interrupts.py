"""SIGINT and SIGTERM for commands that write or read for long: what was begun is finished first,
but not for longer than a user waits."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from oncelog_client.cli.failures import Interrupted

# From the signal to the first cancel, and between two: an end that hangs is cut off.
PATIENCE_S: Final = 0.4
AGAIN_S: Final = 0.25


class Stop:
    """`event` is set by the first signal; PATIENCE_S later, or at a second signal, the task that
    made this is cancelled, again and again until it ends."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.event = asyncio.Event()
        self.number = 0
        self._task: asyncio.Task[Any] = task
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals within. Raises Interrupted where it was cancelled because of one."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        except asyncio.CancelledError:
            if not self.is_set:
                raise
            raise Interrupted from None
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.remove_signal_handler(number)
            if self._timer is not None:
                self._timer.cancel()

    @property
    def is_set(self) -> bool:
        """Whether a signal has come."""
        return self.event.is_set()

    def _signalled(self, number: int) -> None:
        if self.is_set:
            self._cancel()
            return
        self.number = number
        self.event.set()
        self._timer = self._loop.call_later(PATIENCE_S, self._cancel)

    def _cancel(self) -> None:
        self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(AGAIN_S, self._cancel)
