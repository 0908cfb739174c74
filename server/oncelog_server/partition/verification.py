"""Proves that a partition was added to the transaction that is open *now* (KIP-890).

Before the first batch of a transaction, the leader asks the transaction coordinator if the
partition was added. The response may be stale, because the transaction may have ended and the same
producer may have begun another. So the leader creates a guard before the request, and requires the
same guard at the append. Every marker removes the guard (scenario R12, an ABA problem).
"""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused


class VerificationGuard:
    """The guard of one producer. Guards are compared by identity only. `asking` is the number of
    verifications in flight that use the guard."""

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
        """Return the guard of this producer's verification in flight. If there is none, return a
        new guard. The caller must later call `end`."""
        guard = self._by_producer_id.get(producer_id)
        if guard is None:
            guard = self._by_producer_id[producer_id] = VerificationGuard()
        guard.asking += 1
        return guard

    def check(self, producer_id: int, guard: VerificationGuard) -> None:
        """Raise Refused if the transaction ended while its verification was in flight."""
        if not self.holds(producer_id, guard):
            raise Refused(
                ErrorCode.TRANSACTION_ABORTABLE, "the transaction ended while it was verified"
            )

    def holds(self, producer_id: int, guard: VerificationGuard) -> bool:
        return self._by_producer_id.get(producer_id) is guard

    def end(self, producer_id: int, guard: VerificationGuard) -> None:
        """End one verification. After the last verification, remove the guard."""
        guard.asking -= 1
        if not guard.asking and self.holds(producer_id, guard):
            del self._by_producer_id[producer_id]

    def clear(self, producer_id: int) -> None:
        """Remove the guard, because the transaction has ended and responses in flight are stale."""
        self._by_producer_id.pop(producer_id, None)
