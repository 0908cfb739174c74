"""Loads the leader epochs of a log from their file. If the file is missing or invalid, the headers
of the batches give the epochs. After an unclean stop, the headers also replace a file that the
batches contradict.

The file has no checksum, because it is Kafka's `leader-epoch-checkpoint`. After an unclean stop the
file may be damaged, or older or newer than the log.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from oncelog_protocol.records.batch import HEADER_SIZE, BatchHeader
from oncelog_server.log.checkpoints import MalformedCheckpoint
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.scan import WALK_CHUNK, Scan
from oncelog_server.log.whole_files import read_whole, swap_in
from oncelog_server.storage.layout import LEADER_EPOCH_CHECKPOINT


def load_leader_epochs(loaded: LoadedLog, names: Collection[str]) -> None:
    """Load the leader epochs into `loaded`. If the file is missing, empty or invalid, compute the
    epochs from the headers of the log. After an unclean stop, also add epochs that the file does
    not have. `names`: the files in the log's directory."""
    if LEADER_EPOCH_CHECKPOINT in names:
        data = read_whole(loaded.files, _path(loaded))
        with suppress(MalformedCheckpoint):
            loaded.leader_epochs = LeaderEpochs.decode(data or b"")
    loaded.epochs_in_file = list(loaded.leader_epochs)
    if len(loaded.leader_epochs):
        if not loaded.report.clean_shutdown:
            _note_later_epochs(loaded)
        return
    if any(segment.size for segment in loaded.segments):
        loaded.report.rebuilt.append(LEADER_EPOCH_CHECKPOINT)
        _note_epochs_from(loaded, 0)


def note_epoch(epochs: LeaderEpochs, header: BatchHeader) -> None:
    """Add the epoch of the next batch of a scan."""
    if header.partition_leader_epoch > epochs.latest_epoch:
        epochs.assign(header.partition_leader_epoch, header.base_offset)


def trim_leader_epochs(loaded: LoadedLog) -> None:
    """Remove epochs outside of the recovered log. After an unclean stop, compute the epochs again
    if the batches contradict them, and write the file if its content differs."""
    report, end = loaded.report, loaded.segments[-1].end_offset
    loaded.leader_epochs.truncate_from_end(end)
    if not report.clean_shutdown and not _are_confirmed(loaded):
        report.rebuilt.append(LEADER_EPOCH_CHECKPOINT)
        loaded.leader_epochs = LeaderEpochs()
        _note_epochs_from(loaded, 0)
    is_rebuilt = LEADER_EPOCH_CHECKPOINT in report.rebuilt
    loaded.epochs_unsynced = not report.clean_shutdown or is_rebuilt
    epochs = loaded.leader_epochs
    epochs.truncate_from_start(loaded.log_start_offset)
    if is_rebuilt or (
        # After a clean stop only epochs without records are removed. The file may keep them,
        # because the next start removes them again.
        list(epochs) != loaded.epochs_in_file and not report.clean_shutdown
    ):
        swap_in(loaded.files, _path(loaded), epochs.encode())


def _path(loaded: LoadedLog) -> str:
    return f"{loaded.directory}/{LEADER_EPOCH_CHECKPOINT}"


def _note_later_epochs(loaded: LoadedLog) -> None:
    """Add the epochs that began after the file was written. The file is not synced before the
    recovery point moves, so a power failure may restore an older file. The first batch of a later
    segment then has an epoch that is missing in the file."""
    for slot, segment in enumerate(loaded.segments):
        scan = Scan(segment.log, next_offset=segment.base_offset, chunk_size=HEADER_SIZE)
        _, first = next(iter(scan), (0, None))
        if first and first.partition_leader_epoch > loaded.leader_epochs.latest_epoch:
            loaded.report.rebuilt.append(LEADER_EPOCH_CHECKPOINT)
            # An epoch may begin in the middle of the previous segment.
            _note_epochs_from(loaded, max(slot - 1, 0))
            return


def _note_epochs_from(loaded: LoadedLog, slot: int) -> None:
    for segment in loaded.segments[slot:]:
        for _, header in Scan(segment.log, next_offset=segment.base_offset):
            note_epoch(loaded.leader_epochs, header)


def _are_confirmed(loaded: LoadedLog) -> bool:
    """Return True if the batches confirm the epochs. The batch at the start of each epoch must have
    this epoch, and the previous batch must have an earlier epoch. The last batch must have the last
    epoch.

    If compaction has removed all batches of an epoch, no batch contradicts the epoch, so it counts
    as confirmed. Without this check, a start with a damaged file could take the log to be
    newer than the metadata (`newer_logs.py`).
    """
    entries = list(loaded.leader_epochs)
    log_end = loaded.segments[-1].end_offset
    last = _batch_at_or_after(loaded, log_end - 1)
    if last is not None and last.partition_leader_epoch != loaded.leader_epochs.latest_epoch:
        return False
    starts = [*(entry.start_offset for entry in entries), log_end]
    for slot, (epoch, start) in enumerate(entries):
        first = _batch_at_or_after(loaded, start)
        if (
            first is not None
            and first.base_offset < starts[slot + 1]
            and first.partition_leader_epoch != epoch
        ):
            return False
        if start <= loaded.log_start_offset:
            continue
        previous = _batch_at_or_after(loaded, start - 1)
        if (
            previous is not None
            and previous.base_offset < start
            and previous.partition_leader_epoch >= epoch
        ):
            return False
    return True


def _batch_at_or_after(loaded: LoadedLog, offset: int) -> BatchHeader | None:
    """Return the header of the batch with `offset`, or of the next batch in the segment. Return
    None if the segment has neither."""
    within = [segment for segment in loaded.segments if segment.base_offset <= offset]
    segment = within[-1] if within else loaded.segments[0]
    position = segment.position_near(offset) if offset > segment.base_offset else 0
    scan = Scan(segment.log, position, next_offset=segment.base_offset, chunk_size=WALK_CHUNK)
    return next((header for _, header in scan if header.last_offset >= offset), None)
