"""Logs of followers. A follower's log gets the batches of a leader, and tests compare it with other
logs."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_protocol.records.batch import patch_offsets, split_batches
from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from oncelog_server.slices import at_its_end
from tests.server.log.driver import (
    ANY_EPOCH,
    MANY,
    NOW_MS,
    SMALL,
    Driver,
    batch,
    flush,
    logs_in,
    producers_of,
)
from tests.server.storage.memory_files import MemoryFiles, Stopped

COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))
KINDS = (".log", ".index", ".timeindex", ".txnindex")


def batches_in(files: MemoryFiles) -> list[bytes]:
    """Return all batches of a log, in order."""
    found = []
    for path in logs_in(files):
        data = bytes(files.nodes[path].data)
        found += [data[start : start + header.size] for start, header in split_batches(data)]
    return found


def follow(batches: list[bytes], at_once: int = 3, config: LogConfig = SMALL) -> Driver:
    """Return a follower that got these batches, a few at a time."""
    follower = Driver(config)
    for first in range(0, len(batches), at_once):
        data = b"".join(batches[first : first + at_once])
        follower.log.append_replicated(data, leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    return follower


def files_of(driver: Driver, kinds: tuple[str, ...] = (".log",)) -> dict[str, bytes]:
    return {
        path: bytes(node.data)
        for path, node in sorted(driver.files.nodes.items())
        if path.endswith(kinds)
    }


def state(log: PartitionLog) -> tuple[object, ...]:
    """Return the state of a log, except its bytes."""
    return (
        log.log_end_offset,
        producers_of(log.producers),
        [transaction.first_offset for transaction in log.producers.ongoing_transactions()],
        log.aborted_transactions(0, MANY),
        list(log.leader_epochs),
        log.first_unstable_offset(MANY),
        at_its_end(log.max_timestamp_offset()),
        log.size_bytes,
    )


def placed(base_offset: int, leader_epoch: int) -> bytearray:
    data = batch(2)
    patch_offsets(data, 0, base_offset, leader_epoch)
    return data


def kill_at_each_change(
    make: Callable[[], Driver],
    announce: Callable[[PartitionLog], None],
    change: Callable[[PartitionLog], None],
    check: Callable[[PartitionLog, MemoryFiles], None],
) -> None:
    """Kill a new follower at the first change of the disk that `change` makes, the next at the
    second, and so on. `check` gets the log of the next start. `announce` runs before `change`, and
    is durable in the recovery point."""
    for operation in range(200):
        follower = make()
        flush(follower.log, lambda error: None)
        follower.files.settle()
        announce(follower.log)
        point = follower.log.recovery_point
        follower.files.stop_before(len(follower.files.operations) + operation)
        try:
            change(follower.log)
            follower.files.settle()
        except Stopped:
            disk = follower.files.after_kill()
            log = follower.open(clean=False, recovery_point=point, files=disk)
            disk.settle()
            check(log, disk)
        else:
            assert operation > 3
            return
    raise AssertionError("the change does not end")
