"""The expiry of pointers to groups that have let the id expire, or have never taken it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallResult,
    Operation,
)
from oncelog_server.coordinator.runtime import Work
from oncelog_server.deferred import Deferred, Unheard, then
from oncelog_server.refusal import Refused
from oncelog_server.slices import Steps
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.grouped.owners import is_here
from oncelog_server.transaction.pointers import Pointer
from oncelog_server.transaction.remote.calls import Called
from oncelog_server.transaction.remote.claims import decide_pointer_removal
from oncelog_server.transaction.shard import TransactionShard

# Maximum number of questions without a response. Requests of clients need the same links.
IN_FLIGHT: Final = 50
# The look at a pointer takes a few microseconds.
LOOKED_AT_PER_STEP: Final = 500

# The index of a shard, the shard, a transactional id and its pointer.
_Old = tuple[int, TransactionShard, str, Pointer]


class PointerExpiry:
    """Asks the groups of old pointers for their ids. `ask(group_id, call)` asks the shard of a
    group, `work` runs a sweep in slices."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        ask: Callable[[str, CoordinatorCall], Called],
        work: Work,
    ) -> None:
        self._transactions = transactions
        self._ask = ask
        self._work = work
        # The rest of the sweep in progress. An element None means that the pointers looked at last
        # need no question.
        self._rest: Iterator[_Old | None] | None = None
        self._is_asking = False
        self._in_flight = 0

    def sweep(self, before_ms: int) -> None:
        """Begin to remove pointers that were written before `before_ms` (wall clock), if their
        groups do not have the ids. Do nothing if the last sweep has not ended."""
        if self._rest is None:
            self._rest = self._old(before_ms)
            self._continue()

    def _continue(self) -> None:
        if self._rest is not None and not self._is_asking:
            self._is_asking = True
            self._work(self._steps(self._rest))

    def _steps(self, rest: Iterator[_Old | None]) -> Steps[None]:
        """Ask until the end of the sweep, or until too many questions are in flight. A response
        then continues the sweep."""
        is_at_its_end = True
        try:
            for old in rest:
                if old is not None:
                    self._ask_about(*old)
                if self._in_flight >= IN_FLIGHT:
                    is_at_its_end = False
                    return
                yield
        finally:
            self._is_asking = False
            if is_at_its_end:
                self._rest = None

    def _old(self, before_ms: int) -> Iterator[_Old | None]:
        for index, shard in list(self._transactions.runtime.shards()):
            ids = iter(shard.pointers.ids())
            while some := list(islice(ids, LOOKED_AT_PER_STEP)):
                for transactional_id in some:
                    # A shard that is not in service has no pointers.
                    pointer = shard.pointers.get(transactional_id)
                    if pointer is None or pointer.at_ms > before_ms:
                        continue
                    if not self._is_used_here(transactional_id, pointer.group_id):
                        yield index, shard, transactional_id, pointer
                yield None

    def _is_used_here(self, transactional_id: str, group_id: str) -> bool:
        """Return True if this broker coordinates the group, and the group has the id."""
        try:
            _, shard = self._transactions.owner(group_id)
        except Refused:
            return False  # another broker may know
        return is_here(shard, transactional_id)

    def _ask_about(
        self, index: int, shard: TransactionShard, transactional_id: str, pointer: Pointer
    ) -> None:
        """Remove a pointer if the group does not have the id. The departure withdraws a claim of
        the group that is in flight."""

        def departed(result: CoordinatorCallResult) -> None:
            stays = result.error_code != ErrorCode.NONE or result.group_id is not None
            if not stays and self._transactions.runtime.is_in_service(index, shard):
                decision = decide_pointer_removal(shard, transactional_id, pointer)
                self._transactions.runtime.run(index, decision)

        call = CoordinatorCall(
            Operation.DEPART,
            transactional_id,
            pointer.group_id,
            pointer_offset=pointer.offset,
            only_if_absent=True,
        )
        answer = then(self._ask(pointer.group_id, call), departed)
        if not isinstance(answer, Deferred):
            return

        def abandoned() -> None:
            self._answered()
            if answer.failure is not None:
                Unheard.give([answer.failure])

        self._in_flight += 1
        answer.on_complete(lambda _: self._answered())
        answer.on_abandon(abandoned)

    def _answered(self) -> None:
        self._in_flight -= 1
        if self._in_flight <= IN_FLIGHT // 2:
            self._continue()
