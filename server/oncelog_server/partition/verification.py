"""Proof that a partition was put into the transaction that is open *now* (KIP-890).

Before the first batch of a transaction the leader asks the transaction coordinator. Its answer may
be old when it arrives: the transaction may have ended and another one of the same producer begun.
So a unique object is made before asking and must still be there at the append; every marker takes
it away (ABA, R12).
"""

from __future__ import annotations


class VerificationGuard:
    """Compared by identity only. `asking`: how many wait for the coordinator with it."""

    __slots__ = ("asking",)

    def __init__(self) -> None:
        self.asking = 0


class VerificationGuards:
    __slots__ = ("_by_producer_id",)

    def __init__(self) -> None:
        self._by_producer_id: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._by_producer_id)

    def begin(self, producer_id: int) -> VerificationGuard:
        """The guard of the question being asked for this producer, a new one if there is none.
        `end` must follow."""
        guard = self._by_producer_id.get(producer_id)
        if guard is None:
            guard = self._by_producer_id[producer_id] = VerificationGuard()
        guard.asking += 1
        return guard

    def holds(self, producer_id: int, guard: VerificationGuard) -> bool:
        return self._by_producer_id.get(producer_id) is guard

    def end(self, producer_id: int, guard: VerificationGuard) -> None:
        """One of those who asked has its answer."""
        guard.asking -= 1
        if not guard.asking and self.holds(producer_id, guard):
            del self._by_producer_id[producer_id]

    def clear(self, producer_id: int) -> None:
        """The transaction has ended: answers that are still on their way are about the past."""
        self._by_producer_id.pop(producer_id, None)
