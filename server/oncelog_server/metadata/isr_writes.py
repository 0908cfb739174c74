"""Write the ISR changes of a leader to the metadata store (Kafka's AlterPartition)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.isr_changes import IsrChange, Leader, halves, isr_writes
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.store import MetadataStore, UnknownOutcome, Write
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal


async def write_isr(
    store: MetadataStore,
    image: Callable[[], ClusterImage],
    rules: ElectionRules,
    leader: Leader,
    proposals: Sequence[IsrProposal],
) -> list[IsrOutcome]:
    """Write the proposals of a leader, at most one for each partition. Return an outcome for each.

    If the store refuses a transaction, its changes are decided again in two halves, from the newest
    image. A change that the image rules out is refused.
    """
    outcomes: dict[tuple[bytes, int], IsrOutcome] = {}
    waiting: list[Sequence[IsrChange]] = [[_change(proposal) for proposal in proposals]]
    while waiting:
        for batch in isr_writes(image(), rules, leader, waiting.pop()).batches:
            outcome = await _apply(store, batch.write)
            parts = halves(batch.changes) if outcome is IsrOutcome.REFUSED else ()
            waiting += parts
            for change in () if parts else batch.changes:
                outcomes[change.topic_id, change.partition] = outcome
    return [
        outcomes.get((proposal.topic_id, proposal.partition), IsrOutcome.REFUSED)
        for proposal in proposals
    ]


async def _apply(store: MetadataStore, write: Write) -> IsrOutcome:
    try:
        result = await store.txn(write.compare, write.operations)
    except UnknownOutcome:
        return IsrOutcome.UNKNOWN
    except OSError:
        return IsrOutcome.REFUSED  # the store has done nothing
    return IsrOutcome.COMMITTED if result.succeeded else IsrOutcome.REFUSED


def _change(proposal: IsrProposal) -> IsrChange:
    return IsrChange(
        proposal.topic_id,
        proposal.partition,
        proposal.leader_epoch,
        proposal.partition_epoch,
        proposal.isr,
        dict(proposal.joining),
    )
