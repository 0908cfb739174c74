"""The leader's changes of the ISR: followers that lag leave, and followers that have caught up join
(Kafka's Partition.maybeShrinkIsr and maybeExpandIsr, KIP-497).

From the proposal on, the high watermark waits for the committed ISR and for the proposed one, until
the metadata image shows a newer partition epoch, or the store has refused the proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from oncelog_server.partition.partition import Partition
from oncelog_server.replica.isr_changes import IsrChanges, IsrOutcome, IsrProposal
from oncelog_server.replica.state import UNKNOWN
from oncelog_server.slices import Steps


class IsrUpdates:
    """`epochs` returns the broker epochs of the live brokers with replicas of a partition that may
    join its ISR. `max_lag_ms` is `replica.lag.time.max.ms`. `partitions` are those of this broker.

    Counts of the changes since the start: `shrinks`, `expansions`, `failures`.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        changes: IsrChanges,
        *,
        epochs: Callable[[Partition], Mapping[int, int]],
        monotonic_ms: Callable[[], int],
        max_lag_ms: int,
    ) -> None:
        self._partitions = partitions
        self._changes = changes
        self._epochs = epochs
        self._monotonic_ms = monotonic_ms
        self._max_lag_ms = max_lag_ms
        # The partition epochs of proposals with unknown outcomes.
        self._unknown: dict[Partition, int] = {}
        # The partition epochs of refused proposals. Until the image shows a newer partition epoch,
        # a further proposal would probably be refused too. So only `check` makes one, and `fetched`
        # makes none.
        self._refused: dict[Partition, int] = {}
        self.shrinks = self.expansions = self.failures = 0

    def fetched(self, partition: Partition) -> None:
        """Propose the followers that have caught up, after a fetch of a follower outside of the
        ISR."""
        self._wait_for_joining(partition)
        if self._refused.get(partition) != partition.replicas.partition_epoch:
            self._expand(partition)

    def check(self) -> Steps[None]:
        """Check all partitions. The caller repeats this at half of `max_lag_ms`, as Kafka does,
        and after each change of the live brokers."""
        present = list(self._partitions)
        for kept in (self._unknown, self._refused):
            for deleted in kept.keys() - present:
                del kept[deleted]
        for partition in present:
            if not partition.leads:
                self._forget(partition)
            elif self._may_decide(partition) and len(partition.replicas.assignment) > 1:
                self._check(partition)
            yield

    def _may_decide(self, partition: Partition) -> bool:
        """Return False while the leader is suspended or offline. The followers of an offline leader
        only seem to lag, because they cannot fetch. Without them in the ISR, no other broker could
        lead."""
        return partition.is_leader and partition.offline is None

    def _check(self, partition: Partition) -> None:
        self._refused.pop(partition, None)
        self._wait_for_joining(partition)
        replicas = partition.replicas
        if self._unknown.get(partition) == replicas.partition_epoch:
            self._settle_unknown(partition)
            return
        late = replicas.out_of_sync(
            partition.log_end_offset, self._monotonic_ms(), self._max_lag_ms
        )
        if late:
            self.shrinks += 1
            self._propose(partition, tuple(id for id in replicas.isr if id not in late))
        else:
            # Below the min ISR, the high watermark stands still. A follower that does not fetch any
            # more may then still be at the high watermark. Such a follower must not join, because
            # the next check would remove it again.
            self._expand(partition, self._monotonic_ms() - self._max_lag_ms)

    def _forget(self, partition: Partition) -> None:
        self._unknown.pop(partition, None)
        self._refused.pop(partition, None)

    def _wait_for_joining(self, partition: Partition) -> None:
        partition.replicas.wait_for_joining(
            partition.log_end_offset,
            self._monotonic_ms(),
            self._max_lag_ms,
            self._epochs(partition),
        )
        # The high watermark may have waited for a follower that does not count any more.
        partition.recompute_high_watermark()

    def _expand(self, partition: Partition, fetched_since_ms: int = UNKNOWN) -> None:
        replicas = partition.replicas
        joining = replicas.may_join(
            partition.high_watermark, self._epochs(partition), fetched_since_ms=fetched_since_ms
        )
        if joining:
            self.expansions += 1
            self._propose(partition, (*replicas.isr, *joining), joining)

    def _settle_unknown(self, partition: Partition) -> None:
        """Propose the committed ISR again, which changes nothing but the partition epoch. After
        that, the proposal with the unknown outcome can never be applied any more."""
        self._send(partition, self._proposal(partition, partition.replicas.isr, ()))

    def _propose(
        self, partition: Partition, isr: tuple[int, ...], added: tuple[int, ...] = ()
    ) -> None:
        partition.replicas.propose_isr(isr)
        self._send(partition, self._proposal(partition, isr, added))

    def _proposal(
        self, partition: Partition, isr: tuple[int, ...], added: tuple[int, ...]
    ) -> IsrProposal:
        replicas = partition.replicas
        return IsrProposal(
            partition.topic_id,
            partition.topic_partition.partition,
            partition.leader_epoch,
            replicas.partition_epoch,
            isr,
            tuple((id, replicas.broker_epoch(id)) for id in added),
        )

    def _send(self, partition: Partition, proposal: IsrProposal) -> None:
        self._changes.propose(proposal, lambda outcome: self._settled(partition, proposal, outcome))

    def _settled(self, partition: Partition, proposal: IsrProposal, outcome: IsrOutcome) -> None:
        replicas = partition.replicas
        if (
            not partition.leads
            or partition.leader_epoch != proposal.leader_epoch
            or replicas.partition_epoch != proposal.partition_epoch
        ):
            return  # newer metadata has ended the change
        if outcome is IsrOutcome.COMMITTED:
            return  # the image ends the change when it shows the new partition epoch
        self.failures += 1
        if outcome is IsrOutcome.UNKNOWN:
            self._unknown[partition] = proposal.partition_epoch
        elif self._unknown.get(partition) != proposal.partition_epoch:
            self._refused[partition] = proposal.partition_epoch
            replicas.settle_isr()
            partition.recompute_high_watermark()
