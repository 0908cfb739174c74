"""What is on the disk of one log, as a start finds it, and what the start did about it."""

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
    """What loaded a log found and did; the caller logs it."""

    clean_shutdown: bool = True
    segments_scanned: int = 0
    bytes_scanned: int = 0
    # The first byte that is gone, and why; bytes of later segments count too.
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
        """Must a person hear of this?"""
        return self.cut_bytes > 0 or bool(self.rebuilt)


class LoadedLog(msgspec.Struct):
    """What is on the disk: all that a PartitionLog starts with."""

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
    # What the file of the leader epochs holds.
    epochs_in_file: list[EpochStart] = msgspec.field(default_factory=list)
    # What the last clean stop has remembered.
    closed: ClosedLog | None = None
    # Whether that file may be newer than what is durable of it.
    epochs_unsynced: bool = False
    report: RecoveryReport = msgspec.field(default_factory=RecoveryReport)
    # Rather refuse than cut off what was written and is damaged: a coordinator's log.
    refuses_damage: bool = False
    # No power failure since the last stop: nothing that was written can be missing.
    lost_nothing: bool = False
    closed_at: int = -1
    # Files of older segments that a stop without a sync may have left in the page cache alone.
    unsynced: list[File] = msgspec.field(default_factory=list)
