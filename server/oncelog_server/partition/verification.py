"""Proof that a partition was put into the transaction that is open *now* (KIP-890).

Before the first batch of a transaction the leader asks the transaction coordinator. Its answer may
be old when it arrives: the transaction may have ended and another one of the same producer begun.
So a unique object is made before asking and must still be there at the append; every marker takes
it away (ABA, R12).
"""

from __future__ import annotations


class VerificationGuard:
    """Compared by identity only."""

    __slots__ = ()


class VerificationGuards:
    __slots__ = ("_by_producer_id",)

    def __init__(self) -> None:
        self._by_producer_id: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._by_producer_id)

    def begin(self, producer_id: int) -> VerificationGuard:
        """The guard of the question being asked for this producer, a new one if there is none."""
        guard = self._by_producer_id.get(producer_id)
        if guard is None:
            guard = self._by_producer_id[producer_id] = VerificationGuard()
        return guard

    def holds(self, producer_id: int, guard: VerificationGuard) -> bool:
        return self._by_producer_id.get(producer_id) is guard

    def clear(self, producer_id: int) -> None:
        """The transaction has its first batch here, or has ended."""
        self._by_producer_id.pop(producer_id, None)
