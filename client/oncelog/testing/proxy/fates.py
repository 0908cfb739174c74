"""The ways in which the proxy handles a frame (fates). A test creates a fate, passes it to the
proxy and inspects it later. `meet` runs in the proxy.

Times are in seconds. Every wait has a deadline and raises TimeoutError.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Protocol

from oncelog.testing.proxy.frame import Frame

DEADLINE_S = 60.0


class Link(Protocol):
    """The path of a frame from one side of a connection to the other side."""

    async def forward(self, data: bytes) -> None:
        """Send the frame to the other side, unless that side is closed."""
        ...

    async def aside(self, data: bytes) -> bytes:
        """Send the frame to the broker on a separate connection, and return the response."""
        ...

    def reset(self) -> None:
        """Send RST to both sides."""
        ...


class Fate(ABC):
    """The handling of one frame. `there` is set when the frame has arrived."""

    # True if later frames may overtake this frame.
    is_overtaken = False

    def __init__(self) -> None:
        self.there = threading.Event()
        self.frame: Frame | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def wait(self) -> Frame:
        """Return the frame after it has arrived at the proxy."""
        if not self.there.wait(DEADLINE_S):
            raise TimeoutError("the frame has not arrived")
        assert self.frame is not None
        return self.frame

    @abstractmethod
    async def meet(self, frame: Frame, link: Link) -> None: ...


class Hold(Fate):
    """Hold the frame until `release`. Later frames of the connection wait as well, unless
    `overtaken`. After `release` the broker gets the frame next, even if the client has closed the
    connection."""

    def __init__(self, *, overtaken: bool = False) -> None:
        super().__init__()
        self.is_overtaken = overtaken
        self._gone = threading.Event()
        self._go = asyncio.Event()

    def release(self) -> None:
        """Forward the frame. Return after it has been written."""
        self.wait()
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._go.set)
        if not self._gone.wait(DEADLINE_S):
            raise TimeoutError("the frame was not written")

    async def meet(self, frame: Frame, link: Link) -> None:
        await self._go.wait()
        await link.forward(frame.data)
        self._gone.set()


class Drop(Fate):
    """Drop the frame. With `cut` the connection also breaks at once, for both sides."""

    def __init__(self, *, cut: bool = True) -> None:
        super().__init__()
        self._cut = cut

    async def meet(self, frame: Frame, link: Link) -> None:
        if self._cut:
            link.reset()


class Duplicate(Fate):
    """Send the request a second time, on another connection. `response` returns the response to the
    second request. Later frames do not wait for this response."""

    is_overtaken = True

    def __init__(self) -> None:
        super().__init__()
        self._responded = threading.Event()
        self._response = b""

    @property
    def response(self) -> bytes:
        """Return the second response with its length and header."""
        if not self._responded.wait(DEADLINE_S):
            raise TimeoutError("no response to the duplicate")
        return self._response

    async def meet(self, frame: Frame, link: Link) -> None:
        await link.forward(frame.data)
        self._response = await link.aside(frame.data)
        self._responded.set()


class Cut(Fate):
    """Send only the first `size` bytes, then RST."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    async def meet(self, frame: Frame, link: Link) -> None:
        await link.forward(frame.data[: self._size])
        link.reset()


class Flip(Fate):
    """Change one byte. Positions count from the first byte of the length."""

    def __init__(self, position: int, mask: int = 0x55) -> None:
        super().__init__()
        self._position = position
        self._mask = mask

    async def meet(self, frame: Frame, link: Link) -> None:
        data = bytearray(frame.data)
        data[self._position] ^= self._mask
        await link.forward(bytes(data))


class Delay(Fate):
    """Delay the frame. Later frames of its connection arrive after it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def meet(self, frame: Frame, link: Link) -> None:
        await asyncio.sleep(self._seconds)
        await link.forward(frame.data)


class Throttle(Fate):
    """Send the frame in pieces of `size` bytes, with a pause after each piece."""

    def __init__(self, size: int, pause_s: float) -> None:
        super().__init__()
        self._size = size
        self._pause_s = pause_s

    async def meet(self, frame: Frame, link: Link) -> None:
        for start in range(0, len(frame.data), self._size):
            await link.forward(frame.data[start : start + self._size])
            await asyncio.sleep(self._pause_s)


class Record(Fate):
    """Forward the frame unchanged, and send it again whenever the test asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self._link: Link | None = None

    def replay(self) -> bytes:
        """Send the frame once more, on another connection. Return the broker's response."""
        frame = self.wait()
        assert self.loop is not None
        assert self._link is not None
        again = asyncio.run_coroutine_threadsafe(self._link.aside(frame.data), self.loop)
        return again.result(DEADLINE_S)

    async def meet(self, frame: Frame, link: Link) -> None:
        self._link = link
        await link.forward(frame.data)
