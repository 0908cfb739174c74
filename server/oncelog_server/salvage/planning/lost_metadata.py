"""The values that take the place of lost metadata: no id, epoch or revision goes back, and no
record is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import KnownRecords
from oncelog_server.salvage.planning.log_survey import NONE

# Number of producer ids to skip if the newest metadata is lost, because assigned ids that never
# wrote a record are not in the logs.
SKIPPED_IDS: Final = 1_000_000
# Number of leader epochs to skip if the newest metadata of a cluster is lost: a leader that wrote
# nothing has left no trace of its epoch, but clients may know it.
SKIPPED_EPOCHS: Final = 1000
# Number of revisions to skip. A killed broker may have seen more than its directory says.
SKIPPED_REVISIONS: Final = 10_000
# Settings of a topic with lost settings: the topic keeps all records until an operator sets others.
KEEP_EVERYTHING: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


def newest_producer_id(folders: Iterable[FolderFacts]) -> int:
    return max((facts.producer_id for facts in folders), default=NONE)


def newest_epoch(old: KnownRecords, folders: Iterable[FolderFacts]) -> int:
    """Return the highest leader epoch of all partitions, in the records and in the folders."""
    recorded = [record.leader_epoch for record in old.partitions.values()]
    return max([0, *recorded, *(facts.leader_epoch for facts in folders)])


def following_producer_id(old: KnownRecords, newest_id: int) -> int:
    """Return a first producer id that no broker has assigned. `newest_id` is the highest id in the
    logs."""
    seen = -(-(newest_id + 1) // BLOCK_SIZE) * BLOCK_SIZE
    return max(old.next_producer_id, seen) + SKIPPED_IDS


def first_signs(signs: Sequence[str]) -> str:
    """Return the first three signs of a loss, and the number of the others."""
    more = f" and {len(signs) - 3} more" if len(signs) > 3 else ""
    return f"{', '.join(signs[:3])}{more}"
