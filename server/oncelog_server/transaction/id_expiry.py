"""The expiry of unused transactional ids. A sweep over all ids is done in slices that do not block
the loop (scenarios X5, D10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.transaction.commands.expiry import decide_expiry, is_expired
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard

# The check of one id takes a few tenths of a microsecond. A tombstone takes about ten microseconds.
LOOKED_AT_PER_STEP: Final = 10_000
TOMBSTONES_PER_STEP: Final = 200
# A batch is full once its ids have this size. That is far below every usual `max.message.bytes`,
# although the last id may add up to 32 KiB.
TOMBSTONE_BYTES_PER_STEP: Final = 131_072
# The wall clock was set if its advance differs from the advance of the monotonic clock by more than
# this.
_CLOCK_WAS_SET_MS: Final = 3_600_000


class IdExpiry:
    """Expires the unused ids. `expiration_ms` is `transactional.id.expiration.ms`. The expiry uses
    the wall clock, because the records have wall-clock times. A jump of the wall clock by more than
    an hour expires no id, if the broker runs at that time (scenario K3). `on_swept(before_ms)` is
    called after a sweep that has expired the ids with a last use before that time."""

    def __init__(
        self,
        runtime: ShardRuntime[TransactionShard],
        *,
        expiration_ms: int,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        on_swept: Callable[[int], None] = lambda before_ms: None,
    ) -> None:
        self._runtime = runtime
        self._on_swept = on_swept
        self._expiration_ms = expiration_ms
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._seen = wall_ms(), monotonic_ms()
        self._jumped_ms = 0
        self._sweep: Iterator[int] | None = None

    def step(self) -> tuple[int, bool]:
        """Do one slice of the current sweep, or start a new sweep. Return the number of expired ids
        in the slice, and True if the sweep continues."""
        if self._sweep is None:
            self._sweep = self._ids()
        found = next(self._sweep, None)
        if found is None:
            self._sweep = None
            return 0, False
        return found, True

    def _before_ms(self) -> int:
        wall_ms, now_ms = self._wall_ms(), self._monotonic_ms()
        jump_ms = (wall_ms - self._seen[0]) - (now_ms - self._seen[1])
        self._seen = wall_ms, now_ms
        if abs(jump_ms) > _CLOCK_WAS_SET_MS:
            self._jumped_ms = max(self._jumped_ms + jump_ms, 0)
        return wall_ms - self._jumped_ms - self._expiration_ms

    def _ids(self) -> Iterator[int]:
        """Yield the number of expired ids after each slice of one sweep over all ids."""
        before_ms = self._before_ms()
        for index, shard in list(self._runtime.shards()):
            ids = list(shard.transactions.values())
            position = 0
            while position < len(ids):
                if not self._runtime.is_in_service(index, shard):
                    break
                expired, position = _slice(ids, position, before_ms)
                if expired:
                    self._runtime.run(index, decide_expiry(expired, shard.groups))
                yield len(expired)
        self._on_swept(before_ms)


def _slice(
    ids: list[LiveTransaction], position: int, before_ms: int
) -> tuple[list[LiveTransaction], int]:
    """Return the expired ids from `position` on, as many as fit one slice. Also return the position
    of the next slice."""
    expired: list[LiveTransaction] = []
    size = 0
    for live in ids[position : position + LOOKED_AT_PER_STEP]:
        position += 1
        if not is_expired(live, before_ms=before_ms):
            continue
        expired.append(live)
        size += len(live.metadata.transactional_id)
        if len(expired) == TOMBSTONES_PER_STEP or size >= TOMBSTONE_BYTES_PER_STEP:
            break
    return expired, position
