"""Assigns producer ids from the blocks of the metadata store (KIP-730). Each id is assigned only
once, even across crashes. Every principal has blocks of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.transaction.results import TransactionResult

# Request the next block when fewer than this many ids are left, so that no producer waits for it.
LOW_WATER: Final = 500
# User:ANONYMOUS, as text. Its ids belong to every principal.
EVERY_PRINCIPAL: Final = ""

Answer = TransactionResult | Deferred[TransactionResult]


class NoProducerIds(Refused):
    """No id is left, and the next block has not arrived (scenario E9). Clients retry the code."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids are available")


class _Unassigned:
    """The ids of one principal that are not assigned yet."""

    __slots__ = ("arrival", "asked", "blocks", "left")

    def __init__(self) -> None:
        self.blocks: deque[range] = deque()
        self.left = 0
        self.asked = False
        # Completes when the requested block has arrived or has failed. None if no request waits.
        self.arrival: Deferred[None] | None = None

    def settled(self) -> None:
        self.asked = False
        arrival, self.arrival = self.arrival, None
        if arrival is not None:
            arrival.complete(None)


class ProducerIds:
    """Assigns ids from blocks. `ask(principal)` requests another block of a principal. The block
    arrives by `add`. After `failed`, the next `take` may request the block again. A principal is a
    text, EVERY_PRINCIPAL for User:ANONYMOUS."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self._ask = ask
        self._of: dict[str, _Unassigned] = {EVERY_PRINCIPAL: _Unassigned()}
        # The first unassigned id of each block that belongs to one principal, by the number of the
        # block.
        self._first_unassigned: dict[int, int] = {}
        self._end = 0

    def __len__(self) -> int:
        """Return the number of unassigned ids that will belong to every principal."""
        return self._of[EVERY_PRINCIPAL].left

    def start_at(self, first: int) -> None:
        """Set the start of the next block. All ids below `first` belong to blocks of earlier
        runs. `is_given` must know these ids even if a full disk refuses the first block."""
        self._end = first

    def add(self, block: range, principal: str = EVERY_PRINCIPAL) -> None:
        unassigned = self._of.setdefault(principal, _Unassigned())
        unassigned.blocks.append(block)
        unassigned.left += len(block)
        if principal:
            self._first_unassigned[block.start // BLOCK_SIZE] = block.start
        self._end = max(self._end, block.stop)
        unassigned.settled()

    def is_given(self, producer_id: int) -> bool:
        """Return True if the broker may have assigned the id, in this run or an earlier run. With a
        single broker, all blocks below the last one are its own."""
        if producer_id >= self._end:
            return False
        for block in self._of[EVERY_PRINCIPAL].blocks:
            if producer_id in block:
                return False
        first = self._first_unassigned.get(producer_id // BLOCK_SIZE)
        return first is None or producer_id < first

    def failed(self, principal: str = EVERY_PRINCIPAL) -> None:
        self._of[principal].settled()

    def take(self, principal: str = EVERY_PRINCIPAL) -> int:
        """Return an id that was never assigned. Raises NoProducerIds if no id of the principal is
        left and its next block has not arrived."""
        unassigned = self._of.get(principal)
        if unassigned is None:
            unassigned = self._of[principal] = _Unassigned()
        if unassigned.left < LOW_WATER and not unassigned.asked:
            unassigned.asked = True
            self._ask(principal)
        if not unassigned.left:
            raise NoProducerIds
        block = unassigned.blocks[0]
        taken = block.start
        if principal:
            self._first_unassigned[taken // BLOCK_SIZE] = taken + 1
        if len(block) == 1:
            unassigned.blocks.popleft()
            self._first_unassigned.pop(taken // BLOCK_SIZE, None)
        else:
            unassigned.blocks[0] = block[1:]
        unassigned.left -= 1
        return taken

    def when_available(self, principal: str, use: Callable[[], Answer]) -> Answer:
        """Return `use()`. If it raises NoProducerIds, call it again when the requested block has
        arrived: a principal has no block before its first request. `use` must change nothing if it
        raises. Raises Refused as `use` does.

        User:ANONYMOUS does not wait, because the broker takes a block for it at the start.
        """
        try:
            return use()
        except NoProducerIds:
            unassigned = self._of[principal]
            if not (principal and unassigned.asked):
                raise
        if unassigned.arrival is None:
            unassigned.arrival = Deferred()

        def again(_: None) -> Answer:
            try:
                return use()
            except Refused as refused:
                return TransactionResult(refused.code)

        return then_ask(unassigned.arrival, again)
