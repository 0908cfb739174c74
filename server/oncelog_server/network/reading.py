"""The reading side of one connection: its socket is read or paused, and an incomplete frame has a
deadline while it is read. Over TLS, the socket has a mark while a frame lacks many bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_server.network.receive_mark import ReceiveMark
from oncelog_server.requests.frame_deadline import FrameDeadline
from oncelog_server.requests.frame_reader import FrameReader


class Reading:
    """`frames` has the frame that is incomplete. Times are milliseconds of `monotonic_ms`."""

    __slots__ = ("_deadline", "_frames", "_mark", "_monotonic_ms", "_transport", "is_active")

    def __init__(
        self,
        transport: asyncio.Transport,
        frames: FrameReader,
        monotonic_ms: Callable[[], int],
        mark: ReceiveMark | None = None,
    ) -> None:
        self._transport = transport
        self._frames = frames
        self._monotonic_ms = monotonic_ms
        self._mark = mark
        self._deadline = FrameDeadline()
        # False while reading is paused.
        self.is_active = True

    def advanced(self) -> None:
        """Move the mark after a read of a part of a frame."""
        if self._mark is not None:
            self._mark.follow(self._frames.missing_bytes)

    def received(self) -> None:
        """Begin or end the deadline after a read. Move the mark."""
        self.advanced()
        if not (self._frames.is_within_frame and self.is_active):
            self._deadline.started_ms = None
        elif self._deadline.started_ms is None:
            self._deadline.started_ms = self._monotonic_ms()

    def pause(self) -> None:
        if self.is_active:
            self.is_active = False
            self._deadline.started_ms = None  # a frame that is not read is not late
            self._transport.pause_reading()

    def pause_again(self) -> None:
        """Pause the transport, if reading is still paused."""
        if not self.is_active and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.is_active and not self._transport.is_closing():
            self.is_active = True
            self.received()
            self._transport.resume_reading()

    def end(self) -> None:
        """The peer has closed its side: no more bytes arrive."""
        self._deadline.started_ms = None

    def is_late(self, now_ms: int) -> bool:
        """Return True if an incomplete frame is too slow. The caller calls this method at least
        every few seconds. Bytes below the mark arrive after the call, so a slow client is not
        late."""
        if self._mark is not None:
            self._mark.lower()
        return self._deadline.is_late(self._frames.arrived_bytes, now_ms)
