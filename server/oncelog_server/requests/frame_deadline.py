"""The time limit of an incomplete frame. Without it a client could hold memory forever with a byte
every few seconds (scenario H6)."""

from __future__ import annotations

from typing import Final

# Maximum time of an incomplete frame without more bytes. A frame that takes longer in all must also
# reach the average speed below.
FRAME_DEADLINE_MS: Final = 30_000
FRAME_BYTES_PER_S: Final = 1 << 10


class FrameDeadline:
    """The deadline of one connection's incomplete frame. Times are monotonic, in ms."""

    __slots__ = ("_seen_bytes", "_seen_ms", "started_ms")

    def __init__(self) -> None:
        # None while there is no incomplete frame, or the connection does not read.
        self.started_ms: int | None = None
        # The number of bytes at the last call of `is_late`, and the time of its last change.
        self._seen_bytes = 0
        self._seen_ms = 0

    def is_late(self, arrived_bytes: int, now_ms: int) -> bool:
        """Return True if an incomplete frame with this number of arrived bytes is too slow. The
        caller calls this method at least every few seconds."""
        started_ms = self.started_ms
        if started_ms is None:
            return False
        since_ms = self._seen_ms
        if since_ms < started_ms:
            since_ms = started_ms
        elif arrived_bytes != self._seen_bytes:
            since_ms = now_ms
        self._seen_bytes, self._seen_ms = arrived_bytes, since_ms
        allowed_ms = FRAME_DEADLINE_MS + arrived_bytes * 1000 // FRAME_BYTES_PER_S
        return now_ms - since_ms > FRAME_DEADLINE_MS or now_ms - started_ms > allowed_ms
