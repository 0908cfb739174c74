"""One direction of a connection. Bytes arrive in order, but in pieces and late, as with TCP."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.loop import SimLoop
    from tests.simulation.transport import SimTransport

# Maximum number of cuts in a write. It allows a cut in every field of a header.
_CUTS: Final = 6


class Weather:
    """The present behavior of the network, for all connections. Faults change it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.latency_us = (50, 400)
        # Probabilities: a write is cut into pieces, due pieces are read together, and a write has a
        # long delay.
        self.segmentation = 0.0
        self.coalescing = 0.5
        self.clogging = 0.0
        self.clog_us = (100_000, 3_000_000)

    def delay_us(self) -> int:
        low, high = self.latency_us
        delay = self.rng.randint(low, high)
        if self.clogging and self.rng.random() < self.clogging:
            delay += self.rng.randint(*self.clog_us)
        return delay

    def pieces(self, data: bytes) -> list[bytes]:
        if not self.segmentation or self.rng.random() >= self.segmentation or len(data) < 2:
            return [data]
        if len(data) <= 24:
            return [data[at : at + 1] for at in range(len(data))]
        cuts = sorted(self.rng.randrange(1, len(data)) for _ in range(self.rng.randint(1, _CUTS)))
        bounds = [0, *cuts, len(data)]
        return [data[a:b] for a, b in pairwise(bounds) if a < b]


class Pipe:
    """A pipe from `sender` to `receiver`. Both are set after the connect. An empty piece marks the
    end of the stream."""

    receiver: SimTransport
    sender: SimTransport

    def __init__(self, loop: SimLoop, weather: Weather) -> None:
        self._loop = loop
        self._weather = weather
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._last_due_us = 0
        self._armed = False
        # `size`: the number of bytes in flight. `sent`: the number of all sent bytes, without those
        # that `lose` has removed.
        self.size = 0
        self.sent = 0
        self.held_until_us = 0
        # No more bytes arrive, and neither end notices it, as if a host had disappeared.
        self.cut = False
        # No byte arrives until `unblock`.
        self.blocked = False
        self.ended = False

    def send(self, data: bytes) -> None:
        if self.cut or self.ended:
            return
        now_us = self._loop.now_us
        self.sent += len(data)
        for piece in self._weather.pieces(data):
            due_us = max(self._last_due_us, now_us + self._weather.delay_us(), self.held_until_us)
            self._last_due_us = due_us
            self._pieces.append((due_us, piece))
            self.size += len(piece)
        self.arm()

    def end(self) -> None:
        """Close the sender's side. The receiver notices the end after all sent bytes."""
        if not self.ended:
            self.ended = True
            due_us = max(self._last_due_us, self._loop.now_us + self._weather.latency_us[0])
            self._pieces.append((due_us, b""))
            self.arm()

    def lose(self) -> None:
        """Lose all bytes in flight."""
        self._pieces.clear()
        self.sent -= self.size
        self.size = 0

    def hold(self, for_us: int) -> None:
        """Let no byte arrive for this time."""
        self.held_until_us = max(self.held_until_us, self._loop.now_us + for_us)

    @property
    def arrived_end(self) -> bool:
        """Return True if the end of the stream has arrived, even if earlier bytes are unread."""
        if not self._pieces or self.cut or self.blocked:
            return False
        due_us, piece = self._pieces[-1]
        return not piece and max(due_us, self.held_until_us) <= self._loop.now_us

    def block(self, blocked: bool) -> None:
        """Let no byte arrive from now on, or let bytes arrive again."""
        self.blocked = blocked
        self.arm()

    def arm(self) -> None:
        if self._armed or self.blocked or not self._pieces or not self.receiver.is_reading():
            return
        self._armed = True
        due_us = max(self._pieces[0][0], self.held_until_us)
        self._loop.call_at(due_us / 1e6, self._deliver, context=self.receiver.context)

    def _deliver(self) -> None:
        self._armed = False
        if not self._pieces or not self.receiver.is_reading() or self.cut or self.blocked:
            return
        now_us = self._loop.now_us
        if self.held_until_us > now_us:
            self.arm()
            return
        _, data = self._pieces.popleft()
        if not data:
            self.receiver.peer_closed()
            return
        if self._pieces and self._weather.rng.random() < self._weather.coalescing:
            parts = [data]
            while self._pieces and self._pieces[0][1] and self._pieces[0][0] <= now_us:
                parts.append(self._pieces.popleft()[1])
            data = b"".join(parts)
        self.size -= len(data)
        self._loop.mix(zlib.crc32(data))
        rest = self.receiver.feed(data)
        if rest:
            self._pieces.appendleft((now_us, rest))
            self.size += len(rest)
        self.sender.drained()
        self.arm()


Watcher = Callable[["SimTransport", bytes], None]
