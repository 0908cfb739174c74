"""Write reassignments of partitions to the metadata store."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.reassignment_changes import (
    MAX_REASSIGNED_AT_ONCE,
    PartitionTarget,
    reassign_partitions,
)
from oncelog_server.cluster.store import Write
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.refusal import Refused


async def write_reassignments(
    writer: ConditionalWriter,
    rules: ElectionRules,
    targets: Sequence[PartitionTarget],
    *,
    may_change_factor: bool,
) -> list[Refused | None]:
    """Reassign partitions, many in one transaction of the store. Return one result for each target,
    in their order. If the store fails, its error is the result of all accepted targets of the
    transaction."""
    results: list[Refused | None] = []
    for start in range(0, len(targets), MAX_REASSIGNED_AT_ONCE):
        part = targets[start : start + MAX_REASSIGNED_AT_ONCE]
        results += await _write(writer, rules, part, may_change_factor)
    return results


async def _write(
    writer: ConditionalWriter,
    rules: ElectionRules,
    targets: Sequence[PartitionTarget],
    may_change_factor: bool,
) -> list[Refused | None]:
    outcomes: list[Refused | None] = [None] * len(targets)

    def decide(image: ClusterImage) -> list[Write]:
        nonlocal outcomes
        outcomes, writes = reassign_partitions(
            image, rules, targets, may_change_factor=may_change_factor
        )
        return writes

    try:
        await writer.write(decide)
    except Refused as failed:
        return [failed if outcome is None else outcome for outcome in outcomes]
    return outcomes
