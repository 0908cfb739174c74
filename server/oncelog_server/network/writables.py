"""Waits until sockets are writable, with one object for all sockets of a loop.

The loop's own `add_writer` registers the socket again for each wait. These registrations take a
tenth of the time to send a megabyte. On a system with epoll, this module registers a socket once,
edge-triggered, with an epoll object that the loop watches."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable


class Writables:
    """`watch` a socket's descriptor once, and `forget` it before it is closed. The callback runs
    each time a socket with a full send buffer has space again. It may also run at other times."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._poller: select.epoll | None = None

    @staticmethod
    def is_possible() -> bool:
        return hasattr(select, "epoll")

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the descriptor becomes writable. Raises OSError if no
        descriptors are left."""
        if self._poller is None:
            self._poller = select.epoll()
            self._loop.add_reader(self._poller.fileno(), self._look)
        self._poller.register(descriptor, select.EPOLLOUT | select.EPOLLET)
        self._callbacks[descriptor] = callback

    def forget(self, descriptor: int) -> None:
        if self._callbacks.pop(descriptor, None) is not None and self._poller is not None:
            self._poller.unregister(descriptor)

    def close(self) -> None:
        if self._poller is not None:
            self._loop.remove_reader(self._poller.fileno())
            self._poller.close()
            self._poller = None
        self._callbacks.clear()

    def _look(self) -> None:
        assert self._poller is not None
        for descriptor, _ in self._poller.poll(0):
            callback = self._callbacks.get(descriptor)
            if callback is None:
                continue
            try:
                callback()
            except Exception as error:
                # epoll reports an edge only once. If the exception ended this `for`, the callbacks
                # of the other sockets would never run.
                message = "the callback of a writable socket failed"
                self._loop.call_exception_handler({"message": message, "exception": error})
