"""Log events of partitions: damage, recoveries, storage errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.loaded import RecoveryReport
from oncelog_server.partition.partition import StorageFailure
from oncelog_server.topic_partition import TopicPartition

log = structlog.get_logger("oncelog.partition")

# The same failure of a partition is logged at most once in this time.
REPEAT_MS: Final = 60_000
# Maximum number of partitions that an event names.
NAMED: Final = 20

_WAY_OUT: Final = (
    "`oncelog logs verify DIR` says which part of the log is intact; stop the broker and put the"
    " files of the partition back from a copy, or without a copy give up what follows the damage"
    " (docs/backup.md#a-damaged-log). `oncelog logs dump DIR` prints the records that can be read"
)


class StorageFailures:
    """Logs failed reads and appends. If requests to a partition fail again and again for the same
    reason, only one event is logged in each `REPEAT_MS`."""

    def __init__(self) -> None:
        # By partition: the reason of the last event, and its wall-clock time.
        self._logged: dict[TopicPartition, tuple[str, int]] = {}

    def add(self, name: TopicPartition, failure: StorageFailure, now_ms: int) -> None:
        """Log a failure, unless it repeats the last one of this partition within `REPEAT_MS`."""
        reason, logged_ms = self._logged.get(name, ("", 0))
        if reason == failure.reason and 0 <= now_ms - logged_ms < REPEAT_MS:
            return
        self._logged[name] = failure.reason, now_ms
        log.error(
            "corrupt batch" if isinstance(failure, CorruptLog) else "disk refused",
            partition=str(name),
            file=failure.path,
            reason=failure.reason,
            **_where(failure),
        )

    def discard(self, name: TopicPartition) -> None:
        """Forget a removed partition."""
        self._logged.pop(name, None)


def log_damage(name: TopicPartition, corrupt: CorruptLog) -> None:
    """Log that a partition is offline because its log is damaged."""
    log.error(
        "partition offline: its log is damaged",
        partition=str(name),
        file=corrupt.path,
        position=corrupt.position,
        reason=corrupt.reason,
        what_to_do=_WAY_OUT,
    )


def log_emptied(names: Sequence[TopicPartition], directory: str) -> None:
    """Log that this broker leads partitions with an empty log, because its data directory is new
    and they have no other replica."""
    if not names:
        return
    log.warning(
        "partitions start empty: the data directory is new, and has their only replica",
        partitions=[str(name) for name in names[:NAMED]],
        more=max(len(names) - NAMED, 0) or None,
        directory=directory,
        what_to_do="if the former data directory still exists, stop the broker, put that directory"
        " back and start the broker: the partitions then have their former records, and lose those"
        " written meanwhile. Else these records are lost",
    )


def log_not_led(name: TopicPartition, error: Exception | None) -> None:
    """Log the reason why this broker cannot lead a partition although it was elected."""
    log.error("cannot lead partition", partition=str(name), reason=str(error))


def log_recovery(name: TopicPartition, report: RecoveryReport) -> None:
    """Log the truncation and the rebuilt files of a recovery, if the recovery is unusual
    (`is_loud`)."""
    if not report.is_loud:
        return
    log.warning(
        "log recovered",
        partition=str(name),
        cut_file=report.cut_path or None,
        cut_position=report.cut_position,
        cut_bytes=report.cut_bytes,
        reason=report.cut_reason or None,
        valid_batches_followed=report.valid_batches_followed,
        rebuilt=report.rebuilt or None,
    )


def _where(failure: StorageFailure) -> dict[str, object]:
    if isinstance(failure, CorruptLog):
        return {"position": failure.position}
    return {"operation": failure.operation}
