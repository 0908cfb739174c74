"""All checks of the log files of a cluster, in one call."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.checking.decisions import (
    PREPARES,
    check_lives,
    check_markers,
    check_registered,
    lives_of,
)
from tests.simulation.checking.internal_records import STATE_NAMES
from tests.simulation.checking.logs import CONSUMER_OFFSETS, PartitionLog, TopicPartition
from tests.simulation.checking.partition_rules import check_partition
from tests.simulation.checking.violations import Violation

Logs = Mapping[TopicPartition, PartitionLog]


def check_files(
    logs: Logs,
    *,
    lossy: bool = False,
    forgetful: bool = False,
    recreated: frozenset[TopicPartition] = frozenset(),
    by_operator: frozenset[tuple[int, int]] = frozenset(),
) -> list[Violation]:
    """Check I3 to I7, I10, I11 and I14 to I16 in the log files alone. `logs`: see `partitions_in`.

    `lossy`: a power loss has removed acknowledged records that no setting protects, so logs may
    contradict each other. `forgetful`: idle producers may have expired. `recreated`: partitions of
    topics that were deleted and created again. `by_operator`: producer ids and epochs that an
    operator ended by WriteTxnMarkers.
    """
    found: list[Violation] = []
    for key, log in sorted(logs.items()):
        found += check_partition(log, forgetful=forgetful or lossy, recreated=key in recreated)
    if any(violation.what.startswith("not a batch") for violation in found):
        return found
    lives, partial = lives_of(logs)
    found += check_lives(lives, partial=partial)
    if not lossy:
        found += check_markers(
            logs, lives, partial=partial, recreated=recreated, by_operator=by_operator
        )
        found += check_registered(logs, lives, partial=partial, recreated=recreated)
    return found


def check_settled(logs: Logs, *, open_allowed: frozenset[int] = frozenset()) -> list[Violation]:
    """Check that no transaction is undecided and no marker is missing (I8). Call this some time
    after the last fault.

    `open_allowed`: producers in two-phase commit, which have no timeout.
    """
    found = []
    for life in lives_of(logs)[0]:
        last = life.transitions[-1]
        if last.state in PREPARES:
            what = f"still {STATE_NAMES[last.state]} at the end"
            found.append(Violation("I8", life.transactional_id, what))
    for _, log in sorted(logs.items()):
        for transaction in log.whole.transactions:
            if transaction.last is None and transaction.producer_id not in open_allowed:
                what = f"producer {transaction.producer_id}: open since offset {transaction.first}"
                found.append(Violation("I8", log.name, what))
    return found


def group_logs(logs: Logs) -> list[PartitionLog]:
    """Return the partitions of `__consumer_offsets`."""
    return [log for (topic, _), log in sorted(logs.items()) if topic == CONSUMER_OFFSETS]
