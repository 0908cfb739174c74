"""The state of one partition in a fetcher."""

from __future__ import annotations

from enum import Enum

import msgspec

from oncelog_protocol.messages.fetch import FetchPartition
from oncelog_server.fetcher.session import PartitionKey
from oncelog_server.partition.follower_log import Cut, FollowerLog

UNKNOWN = -1


class Phase(Enum):
    FETCHING = "in the session"
    ASKING = "the leader's start and end are not known yet"
    SYNCING = "fetched when its records are on disk"
    CUTTING = "the log is cut when the recovery points are on disk"
    DELAYED = "fetched again later"
    STOPPED = "waits for another leader epoch"


class Followed(msgspec.Struct, eq=False):
    """A partition that is fetched from its leader. `lag` is the number of committed records that
    the follower does not have yet, UNKNOWN before the first response."""

    key: PartitionKey
    log: FollowerLog
    leader_epoch: int
    phase: Phase = Phase.FETCHING
    # The time in ms of the monotonic clock from which a delayed partition is fetched again.
    due_ms: int = 0
    # Number of consecutive errors that are in PASSING.
    passing_errors: int = 0
    # The start of the leader's log, UNKNOWN until the leader has returned it.
    leader_start: int = UNKNOWN
    cut: Cut | None = None
    # The leader's high watermark and log start in its last response. A session does not repeat
    # them, so they are kept until the log has reached them.
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    lag: int = UNKNOWN

    def follow_leader(self, now_ms: int) -> None:
        """Advance the log's high watermark and start as far as the leader's last response allows.
        Raises StorageError."""
        self.log.follow_leader(self.high_watermark, self.log_start_offset, now_ms)
        self.lag = max(self.high_watermark - self.log.end_offset, 0)

    def row(self, max_bytes: int) -> FetchPartition:
        """Return the partition's row in the next Fetch."""
        partition = self.log.partition
        return FetchPartition(
            self.key.partition,
            self.leader_epoch,
            partition.log_end_offset,
            self.log.last_epoch,
            partition.log_start_offset,
            max_bytes,
            high_watermark=partition.high_watermark,
        )

    def is_answered_by(self, sent: FetchPartition | None) -> bool:
        """Return True if a response to the row `sent` continues the log. It does not if the log or
        its leader has changed meanwhile."""
        return (
            sent is not None
            and self.phase is Phase.FETCHING
            and sent.current_leader_epoch == self.leader_epoch
            and sent.fetch_offset == self.log.end_offset
        )
