"""The fates of a frame. A test makes a fate and looks at it; `meet` runs in the proxy.

Times are seconds. Everything that waits has a deadline and raises TimeoutError.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Protocol

from tests.harness.proxy.frame import Frame

DEADLINE_S = 60.0


class Link(Protocol):
    """The way of a frame from one side of a connection to the other."""

    async def forward(self, data: bytes) -> None:
        """Send the frame to the other side; no effect if that is closed."""
        ...

    async def aside(self, data: bytes) -> bytes:
        """Send the frame to the broker on a separate connection, and return the response."""
        ...

    def reset(self) -> None:
        """Send RST to both sides."""
        ...


class Fate(ABC):
    """What happens to a frame. `there` is set when the frame has arrived."""

    # True if later frames may pass this one.
    is_overtaken = False

    def __init__(self) -> None:
        self.there = threading.Event()
        self.frame: Frame | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def wait(self) -> Frame:
        """Return the frame, once it has arrived at the proxy."""
        if not self.there.wait(DEADLINE_S):
            raise TimeoutError("the frame has not come")
        assert self.frame is not None
        return self.frame

    @abstractmethod
    async def meet(self, frame: Frame, link: Link) -> None: ...


class Hold(Fate):
    """Held until `release`. Later frames of the connection wait too, unless `overtaken`. The broker
    gets the frame next, even if the client has hung up meanwhile."""

    def __init__(self, *, overtaken: bool = False) -> None:
        super().__init__()
        self.is_overtaken = overtaken
        self._gone = threading.Event()
        self._go = asyncio.Event()

    def release(self) -> None:
        """Forward the frame, and return when it has been written."""
        self.wait()
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._go.set)
        if not self._gone.wait(DEADLINE_S):
            raise TimeoutError("the frame has not gone")

    async def meet(self, frame: Frame, link: Link) -> None:
        await self._go.wait()
        await link.forward(frame.data)
        self._gone.set()


class Drop(Fate):
    """Lost. With `cut` the connection also breaks at once, for both sides."""

    def __init__(self, *, cut: bool = True) -> None:
        super().__init__()
        self._cut = cut

    async def meet(self, frame: Frame, link: Link) -> None:
        if self._cut:
            link.reset()


class Duplicate(Fate):
    """The request arrives a second time, on another connection; `answer` is its response. Later
    frames do not wait for that."""

    is_overtaken = True

    def __init__(self) -> None:
        super().__init__()
        self._answered = threading.Event()
        self._answer = b""

    @property
    def answer(self) -> bytes:
        """Return all bytes, with length and header."""
        if not self._answered.wait(DEADLINE_S):
            raise TimeoutError("no answer to the duplicate")
        return self._answer

    async def meet(self, frame: Frame, link: Link) -> None:
        await link.forward(frame.data)
        self._answer = await link.aside(frame.data)
        self._answered.set()


class Cut(Fate):
    """Only the first `size` bytes arrive; then RST."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    async def meet(self, frame: Frame, link: Link) -> None:
        await link.forward(frame.data[: self._size])
        link.reset()


class Flip(Fate):
    """One byte is changed; positions count from the first byte of the length."""

    def __init__(self, position: int, mask: int = 0x55) -> None:
        super().__init__()
        self._position = position
        self._mask = mask

    async def meet(self, frame: Frame, link: Link) -> None:
        data = bytearray(frame.data)
        data[self._position] ^= self._mask
        await link.forward(bytes(data))


class Delay(Fate):
    """The frame arrives later, and later frames of its connection after it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def meet(self, frame: Frame, link: Link) -> None:
        await asyncio.sleep(self._seconds)
        await link.forward(frame.data)


class Throttle(Fate):
    """The frame arrives in pieces of `size` bytes, with a pause after each."""

    def __init__(self, size: int, pause_s: float) -> None:
        super().__init__()
        self._size = size
        self._pause_s = pause_s

    async def meet(self, frame: Frame, link: Link) -> None:
        for start in range(0, len(frame.data), self._size):
            await link.forward(frame.data[start : start + self._size])
            await asyncio.sleep(self._pause_s)


class Record(Fate):
    """The frame arrives unchanged, and again whenever the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self._link: Link | None = None

    def replay(self) -> bytes:
        """Send the frame once more, on another connection, and return the broker's response."""
        frame = self.wait()
        assert self.loop is not None
        assert self._link is not None
        again = asyncio.run_coroutine_threadsafe(self._link.aside(frame.data), self.loop)
        return again.result(DEADLINE_S)

    async def meet(self, frame: Frame, link: Link) -> None:
        self._link = link
        await link.forward(frame.data)
