"""The replicas of a partition while they move to other brokers (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from oncelog_server.cluster.image import PartitionImage


class Reassignment(msgspec.Struct, frozen=True):
    """All replicas of a partition: first the target in its order, then those to remove. `adding`
    and `removing` are in the order of the ids (Kafka's PartitionReassignmentReplicas). Both are
    empty if no reassignment is in progress."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> Reassignment:
        return cls(partition.replicas, partition.adding, partition.removing)

    @property
    def is_in_progress(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """Return the replicas after the reassignment."""
        return _without(self.replicas, self.removing)

    def towards(self, target: Sequence[int]) -> Reassignment:
        """Return the reassignment to the replicas `target`, which replaces one in progress.

        A replica of the target that the replaced reassignment adds stays in `adding`. So a request
        may be repeated, and a later cancellation removes this replica. Kafka forgets such replicas
        if the new target has others to add. A replica that the new target leaves out moves to
        `removing`, and a later cancellation keeps it.
        """
        original = _without(self.replicas, self.adding)
        removing = tuple(sorted(_without(self.replicas, target)))
        adding = tuple(sorted(_without(target, original)))
        return Reassignment((*target, *removing), adding, removing)

    def cancelled(self) -> Reassignment:
        """Return the replicas without those that the reassignment adds (Kafka's
        PartitionReassignmentRevert)."""
        return Reassignment(_without(self.replicas, self.adding))

    def completed(self, isr: Collection[int], min_isr: int) -> Reassignment | None:
        """Return the replicas after the reassignment. Return None unless it is in progress and can
        be completed with the ISR `isr`.

        The ISR must contain all added replicas, and at least one replica of the target. If there
        will be fewer replicas, the ISR must contain the whole target, so that it does not become
        smaller than necessary. Nor may the ISR fall below `min_isr`: a committed record could then
        be on fewer brokers than min.insync.replicas promises. Kafka has no such limit.
        """
        target = self.target
        left = sum(replica in isr for replica in target)
        if not self.is_in_progress or left < max(min(min_isr, len(target)), 1):
            return None
        required = target if len(self.adding) < len(self.removing) else self.adding
        if not all(replica in isr for replica in required):
            return None
        return Reassignment(target)


def _without(replicas: Sequence[int], others: Collection[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in others)
