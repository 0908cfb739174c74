"""Assigns producer ids from the blocks of the metadata store (KIP-730). Each id is assigned only
once, even across crashes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused

# Request the next block when fewer than this many ids are left, so that no producer waits for it.
LOW_WATER: Final = 500


class ProducerIds:
    """Assigns ids from blocks. `ask` requests another block. The block arrives by `add`. After
    `failed`, the next `take` may request the block again."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._asked = False
        self._blocks: deque[range] = deque()
        self._left = 0
        self._end = 0

    def __len__(self) -> int:
        return self._left

    def start_at(self, first: int) -> None:
        """Set the start of the next block. All ids below `first` belong to blocks of earlier
        runs. `is_given` must know these ids even if a full disk refuses the first block."""
        self._end = first

    def add(self, block: range) -> None:
        self._asked = False
        self._blocks.append(block)
        self._left += len(block)
        self._end = max(self._end, block.stop)

    def is_given(self, producer_id: int) -> bool:
        """Return True if the broker may have assigned the id, in this run or an earlier run. With a
        single broker, blocks are consecutive."""
        return producer_id < (self._blocks[0].start if self._blocks else self._end)

    def failed(self) -> None:
        self._asked = False

    def take(self) -> int:
        """Return an id that was never assigned. Raises Refused (COORDINATOR_LOAD_IN_PROGRESS) if no
        id is left and the next block has not arrived (scenario E9). Clients retry this code."""
        if self._left < LOW_WATER and not self._asked:
            self._asked = True
            self._ask()
        if not self._left:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids are available")
        block = self._blocks[0]
        taken = block.start
        if len(block) == 1:
            self._blocks.popleft()
        else:
            self._blocks[0] = block[1:]
        self._left -= 1
        return taken
