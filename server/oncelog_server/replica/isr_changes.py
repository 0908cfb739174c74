"""The interface between a leader and the store that holds the ISR of its partitions (Kafka's
AlterPartitionManager)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

import msgspec


class IsrOutcome(Enum):
    COMMITTED = "the store has the proposed ISR"
    REFUSED = "the proposal was not applied, and can never be applied any more"
    UNKNOWN = "the proposal may have been applied, or may be applied later"


class IsrProposal(msgspec.Struct, frozen=True):
    """A change of one partition's ISR.

    It may only be applied while the partition has `leader_epoch` and `partition_epoch`, while the
    leader is registered, and while each broker of `joining` is registered with the epoch beside its
    id (KIP-841, KIP-903). The other members of `isr` keep the broker epochs that are recorded for
    them.
    """

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    joining: tuple[tuple[int, int], ...] = ()


class IsrChanges(Protocol):
    """Writes proposals to the store."""

    def propose(self, proposal: IsrProposal, settled: Callable[[IsrOutcome], None], /) -> None:
        """Write the proposal, perhaps together with others. `settled` is called once, perhaps
        before this method returns."""
        ...
