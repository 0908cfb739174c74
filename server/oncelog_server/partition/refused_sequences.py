"""Which batches a partition has refused of producers that it knows nothing of (KIP-890).

Any sequence is a beginning where nothing is known. So if the first of several pipelined batches is
refused for the moment (the coordinator could not tell yet, the disk was full), the next one would
be appended in its place, and the first one for ever be out of order. Kafka's VerificationStateEntry
keeps the lowest sequence for that reason, of transactions alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MOST_PRODUCERS: Final = 1_000


class _Lowest(NamedTuple):
    producer_epoch: int
    sequence: int


class RefusedSequences:
    """Of at most MOST_PRODUCERS producers, the oldest being forgotten first: a client that writes
    under invented ids fills no memory."""

    __slots__ = ("_by_producer_id",)

    def __init__(self) -> None:
        self._by_producer_id: dict[int, _Lowest] = {}

    def __len__(self) -> int:
        return len(self._by_producer_id)

    def refused(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        known = self._by_producer_id.get(producer_id)
        if known is None:
            if len(self._by_producer_id) == MOST_PRODUCERS:
                del self._by_producer_id[next(iter(self._by_producer_id))]
        elif known.producer_epoch > producer_epoch:
            return
        elif known.producer_epoch == producer_epoch:
            sequence = min(sequence, known.sequence)
        self._by_producer_id[producer_id] = _Lowest(producer_epoch, sequence)

    def lowest(self, producer_id: int, producer_epoch: int) -> int | None:
        """The lowest sequence that was refused of this epoch; None if none was."""
        known = self._by_producer_id.get(producer_id)
        if known is None or known.producer_epoch != producer_epoch:
            return None
        return known.sequence

    def forget(self, producer_id: int) -> None:
        """Its transaction has ended, and what was refused in it does not come again; or it has."""
        self._by_producer_id.pop(producer_id, None)
