"""A Produce request over very many partitions. The request is split into parts, which are small
requests. Between two parts, the broker serves other clients. Their requests may delete a partition
or end the transaction, so each part makes its own checks. Only two tasks are done once, before the
first part. The first checks that all batches belong to one transaction. The second lets the
coordinator add all partitions to the transaction, if the client does not add them itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from oncelog_server.deferred import Deferred
from oncelog_server.producing.produce import (
    NONE,
    PartitionAppend,
    Produce,
    TransactionAnswer,
    forget_records,
)
from oncelog_server.slices import Steps
from oncelog_server.transaction.results import TransactionResult

# Number of appends in one step. The number is low, because the first append to a partition creates
# files.
PART: Final = 5

MakePart = Callable[[Sequence[PartitionAppend]], Produce]


class LargeProduce:
    """A large Produce request. The caller calls `ask`, then `append` with the coordinator's result.

    `appends` are in the order of the request. `transactional` are the appends with a transactional
    batch. `part` returns the small request for some of the appends.
    """

    def __init__(
        self, appends: list[PartitionAppend], transactional: list[PartitionAppend], part: MakePart
    ) -> None:
        self._appends = appends
        self._transactional = transactional
        self._part = part
        # The appends to partitions that the coordinator had to add.
        self._unknown: list[PartitionAppend] = []

    def ask(self) -> Steps[TransactionAnswer | None]:
        """Let the coordinator add the partitions to the transaction. Return the coordinator's
        result.

        Return None if no request to the coordinator is necessary. Refuse all appends if they do not
        belong to one transaction.
        """
        if not self._transactional:
            return None
        whole = self._part(())
        producers = set()
        for append in self._transactional:
            producers.add(append.producer)
            yield
        code = whole.wrong_transaction(producers)
        if code is not NONE:
            for append in self._appends:
                append.refuse(code)
                yield
            return None
        if not whole.adds_partitions:
            return None  # each part verifies its own partitions
        for append in self._transactional:
            if whole.is_unknown(append):
                self._unknown.append(append)
            yield
        return whole.ask(self._unknown) if self._unknown else None

    def append(self, result: TransactionResult | None) -> Steps[list[Deferred[None]]]:
        """Append all parts. Return the Deferreds of the parts that are not complete at once.
        `result` is the coordinator's result. None means that there was no request to the
        coordinator."""
        if result is not None and result.code is not NONE:
            whole = self._part(())
            # If a retry is due, each part repeats the request, for its own partitions.
            if not whole.is_tried_again(result.code, whole.adding_retry.monotonic_ms()):
                for append in self._unknown:
                    whole.refuse_added(append, result)
                    yield
        waits = []
        for start in range(0, len(self._appends), PART):
            some = self._appends[start : start + PART]
            later = self._part(some).run()
            if later is not None:
                waits.append(later)
            else:
                forget_records(some)
            yield
        return waits
