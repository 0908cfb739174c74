"""The state of a log on disk at a start, and the report of the start's changes."""

from __future__ import annotations

import msgspec

from oncelog_server.log.aborted import AbortedTransactions
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.config import LogConfig
from oncelog_server.log.leader_epochs import EpochStart, LeaderEpochs
from oncelog_server.log.producer_snapshot import Snapshots
from oncelog_server.log.producers import Producers
from oncelog_server.log.segment import Segment
from oncelog_server.storage.files import File, Files


class RecoveryReport(msgspec.Struct):
    """The findings and actions of the load. The caller logs this report."""

    clean_shutdown: bool = True
    segments_scanned: int = 0
    bytes_scanned: int = 0
    # The file and the position from which recovery has cut off bytes, the number of bytes cut off,
    # and the reason. `cut_bytes` includes the bytes of later segments.
    cut_path: str = ""
    cut_position: int = 0
    cut_bytes: int = 0
    cut_reason: str = ""
    valid_batches_followed: bool = False
    snapshot_offset: int | None = None
    batches_replayed: int = 0
    leftovers: list[str] = msgspec.field(default_factory=list)
    rebuilt: list[str] = msgspec.field(default_factory=list)

    @property
    def is_loud(self) -> bool:
        """Return True if an operator must be informed."""
        return self.cut_bytes > 0 or bool(self.rebuilt)


class LoadedLog(msgspec.Struct):
    """The state on disk, from which a PartitionLog starts."""

    files: Files
    directory: str
    config: LogConfig
    now_ms: int
    segments: list[Segment]
    snapshots: Snapshots
    producers: Producers
    aborted: AbortedTransactions
    recovery_point: int
    log_start_offset: int
    leader_epochs: LeaderEpochs = msgspec.field(default_factory=LeaderEpochs)
    # The contents of the file of leader epochs.
    epochs_in_file: list[EpochStart] = msgspec.field(default_factory=list)
    # The log's line in the file of the last clean stop.
    closed: ClosedLog | None = None
    # True if the file of leader epochs may be newer than its durable version.
    epochs_unsynced: bool = False
    report: RecoveryReport = msgspec.field(default_factory=RecoveryReport)
    # True for a coordinator's log. The load then raises CorruptLog if valid batches follow an
    # invalid batch and no power failure explains the damage.
    refuses_damage: bool = False
    # True if there was no power failure since the last stop. No written byte can then be missing.
    lost_nothing: bool = False
    closed_at: int = -1
    # The leader epoch of the last batch that the scan has read, -1 before the first one.
    scanned_epoch: int = -1
    # Files of older segments that a stop without a sync may have left in the page cache only.
    unsynced: list[File] = msgspec.field(default_factory=list)
