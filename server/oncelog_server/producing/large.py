"""One Produce request over very many partitions, as many small ones in their order, in steps.

Between two steps other requests are served: a partition may be deleted and a transaction end. So
nothing that is checked here counts for an append; each part checks for itself what it appends. What
is the same for all parts is done before them: all batches belong to one transaction, and where the
client leaves it to the broker, the coordinator adds all partitions in one record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from oncelog_server.deferred import Deferred
from oncelog_server.producing.produce import NONE, PartitionAppend, Produce, TransactionAnswer
from oncelog_server.slices import Steps
from oncelog_server.transaction.results import TransactionResult

# Appends of one step: the first one to a partition makes files.
PART: Final = 5

Part = Callable[[Sequence[PartitionAppend]], Produce]


class LargeProduce:
    """`appends` in the order of the request, `transactional` as in Produce; `part` makes the
    request of some of them. Call `ask`, then `append` with what the coordinator has answered."""

    def __init__(
        self, appends: list[PartitionAppend], transactional: list[PartitionAppend], part: Part
    ) -> None:
        self._appends = appends
        self._transactional = transactional
        self._part = part
        # Those of which the coordinator was asked.
        self._unknown: list[PartitionAppend] = []

    def ask(self) -> Steps[TransactionAnswer | None]:
        """Refuse all if the request is no valid one, else have the coordinator add the partitions
        to the transaction; return its answer, None if it was not asked."""
        if not self._transactional:
            return None
        whole = self._part(())
        producers = set()
        for append in self._transactional:
            append.look_at_header()
            producers.add(append.producer)
            yield
        code = whole.wrong_transaction(producers)
        if code is not NONE:
            for append in self._appends:
                append.refuse(code)
                yield
            return None
        if not whole.adds_partitions:
            return None  # each part asks for its own
        for append in self._transactional:
            if whole.is_unknown(append):
                self._unknown.append(append)
            yield
        return whole.ask(self._unknown) if self._unknown else None

    def append(self, result: TransactionResult | None) -> Steps[list[Deferred[None]]]:
        """Return what waits to be committed."""
        if result is not None and result.code is not NONE:
            whole = self._part(())
            for one in self._unknown:
                whole.refuse_added(one, result)
                yield
        waits = []
        for start in range(0, len(self._appends), PART):
            later = self._part(self._appends[start : start + PART]).run()
            if later is not None:
                waits.append(later)
            yield
        return waits
