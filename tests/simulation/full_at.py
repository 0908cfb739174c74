"""A disk that is full for some kinds of files. A few seconds after it has space again, and without
a restart, no write is refused, no file is missing or superfluous, and no partition is offline."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Final

from oncelog_server.broker import Broker
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    parse_stray_directory,
    partition_directory,
)
from tests.simulation.disk import SimDisk
from tests.simulation.namespace import Inode

if TYPE_CHECKING:
    from tests.simulation.options import Options
    from tests.simulation.world import World

METADATA: Final = "metadata store"
# The pattern of a kind matches the path of a file, or one of the two paths in a rename.
KINDS: Final = {
    "log": r"\.log",
    "index": r"\.index",
    "timeindex": r"\.timeindex",
    "txnindex": r"\.txnindex",
    "snapshot": r"\.snapshot",
    "leader epochs": r"/leader-epoch-checkpoint",
    "sizes of segments": r"/txn-index-checkpoint",
    "checkpoints": r"^[^/]*-checkpoint",
    "partition.metadata": r"/partition\.metadata",
    "compaction": r"\.(cleaned|swap)",
    "deleted": r"\.deleted$",
    "directories": r"^[^/]*$",
    "coordinators": r"^__",
    "everything": r"",
    METADATA: r"^$",
}
# Suffixes of files that are not yet, or no longer, in use.
UNDER_WAY: Final = (TEMPORARY_SUFFIX, SWAP_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX)
# Everything must have recovered within this time after the disk has space again.
HEALED_WITHIN_US: Final = 5_000_000
CHECKED_EVERY_US: Final = 100_000
# Work that succeeds leaves its unfinished file for two syncs at most: 0.9 s on the slowest disk.
UNFINISHED_FOR_US: Final = 1_000_000
# Refused compactions that the cleaner has taken up by then, must have ended within this time. Their
# passes come one after the other, and each swap of a segment waits for a few syncs.
COMPACTED_WITHIN_US: Final = 60_000_000


def draw_kinds(rng: Random) -> tuple[str, ...]:
    return tuple(rng.sample(list(KINDS), rng.choice((1, 1, 1, 2, 4))))


def full_for(kinds: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{KINDS[kind]})" for kind in kinds))


def times(rng: Random, options: Options) -> Iterator[tuple[int, int]]:
    """Yield start times and durations in us of full disks. Half of all runs have no full disk."""
    horizon_us = options.periods * options.period_us
    for _ in range(rng.choice((0, 0, 1, 2))):
        yield (
            rng.randrange(horizon_us),
            rng.randint(1_000, rng.choice((20_000, 300_000, 1_500_000))),
        )


def observe_refused(world: World) -> None:
    """Count how often each state occurs that must recover. Call this right after the disk has space
    again."""
    broker, met = world.node.broker, world.sometimes.met
    met("partition offline until the disk takes it", len(broker.partitions.offline()))
    for partition in broker.partitions:
        met("swap interrupted by a full disk", partition._log.refusals.interrupted is not None)
    for name in broker._refused_work._work:
        met(f"refused until there is room: {name.partition(' ')[0]}")


class Healing:
    """Watches the recovery after one return of space, and calls `world.violate` if it is late.

    A checkpoint or a compaction may run at any moment. A file of unfinished work is therefore a
    violation only if the same file exists for longer than any such work takes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._process = world.node.process
        self._errors = world.node.disk.other_failures
        self._pauses = world.inflicted["pause"]
        self._until_us = world.loop.now_us + HEALED_WITHIN_US
        self._compacted_until_us = world.loop.now_us + COMPACTED_WITHIN_US
        # The time in us at which each file of unfinished work was first seen. A new file of the
        # same path has another inode.
        self._unfinished: dict[tuple[str, Inode], int] = {}

    def check(self) -> None:
        """Check repeatedly, until everything has recovered or the time is over."""
        if self._looks_again(until_well=True):
            self._world.after(CHECKED_EVERY_US, self.check)

    async def watch(self) -> None:
        """Check until the time is over, even if everything has recovered earlier."""
        while True:
            if not self._looks_again(until_well=False):
                return
            await asyncio.sleep(CHECKED_EVERY_US / 1e6)

    def _looks_again(self, *, until_well: bool) -> bool:
        """Check once. Return True if another check must follow. With `until_well`, the first check
        without a finding is the last."""
        if not self.concerns:
            return False
        node, now_us = self._world.node, self._world.loop.now_us
        left = left_of(node.broker, node.disk)
        self._unfinished = {
            file: self._unfinished.get(file, now_us)
            for file in unfinished_files(node.broker, node.disk)
        }
        if now_us < self._until_us:
            if until_well and not left and not self._unfinished:
                self._world.sometimes.met("healed of a full disk without a restart")
                return False
            return True
        # Files that were first seen after the deadline do not count.
        since = {
            path: since_us
            for (path, _), since_us in self._unfinished.items()
            if since_us < self._until_us
        }
        left += [
            f"{path} is left"
            for path, since_us in sorted(since.items())
            if now_us - since_us > UNFINISHED_FOR_US
        ]
        compacting = sorted(compactions_taken_up(node.broker))
        if now_us >= self._compacted_until_us:
            left += [f"{name} does not end" for name in compacting]
        if left:
            self._world.violate(
                f"not healed, although the disk has had space for 5 s: {'; '.join(left)}"
            )
            return False
        return bool(since or compacting)

    @property
    def concerns(self) -> bool:
        """Return True if the recovery must succeed: the broker is still the same, and no other
        fault has happened to it."""
        world, node = self._world, self._world.node
        return (
            node.is_up
            and node.process is self._process
            and node.disk.other_failures == self._errors == node.failures_at_start
            and not node.disk.is_full
            and world.inflicted["pause"] == self._pauses
            and not world.is_restarting
        )


def left_of(broker: Broker, disk: SimDisk) -> list[str]:
    """Return all findings: offline and failed partitions, refused work, superfluous and missing
    directories, and partitions of internal topics without a coordinator."""
    found = [f"{name} is offline: {why}" for name, why in broker.partitions.offline().items()]
    taken_up = compactions_taken_up(broker)
    found += [
        f"refused work: {name}" for name in broker._refused_work._work if name not in taken_up
    ]
    for partition in broker.partitions:
        if partition.failure is not None:
            found.append(f"{partition.topic_partition} has failed: {partition.failure}")
        if partition._log.refusals.current is not None:
            found.append(
                f"{partition.topic_partition} cannot write: {partition._log.refusals.current}"
            )
    image = broker.metadata.image
    known = {
        partition_directory(topic.name, partition.partition)
        for topic in image.topics.values()
        for partition in topic.partitions
    }
    # A start renames the directories of deleted topics to strays and keeps them, because it removes
    # no user data.
    there = {
        directory
        for directory in disk.names.directories
        if directory and parse_stray_directory(directory) is None
    }
    found += [f"directory {name} is left" for name in sorted(there - known)]
    found += [f"directory {name} is missing" for name in sorted(known - there)]
    for name, coordinator in (
        (TRANSACTION_STATE, broker.transactions),
        (CONSUMER_OFFSETS, broker.groups),
    ):
        topic = image.topics.get(name)
        led = {index for index, _ in coordinator.runtime.shards()}
        partitions = topic.partitions if topic is not None else ()
        asked = {partition.partition for partition in partitions}
        found += [f"{name}-{index} has no coordinator" for index in sorted(asked - led)]
    return found


def compactions_taken_up(broker: Broker) -> set[str]:
    """Return the names of the refused compactions that run, or that wait for the end of the running
    pass after a successful probe of the disk. They stay listed as refused work until they end."""
    cleaner = broker._late_cleaner.cleaner
    if cleaner is None or cleaner._pass is None:
        return set()
    names = {cleaner._pass.partition.topic_partition, *cleaner._probed}
    return {f"compaction of {name}" for name in names} & broker._refused_work._work.keys()


def unfinished_files(broker: Broker, disk: SimDisk) -> Iterator[tuple[str, Inode]]:
    """Yield the files that are not yet, or no longer, in use. A start puts a stray aside with all
    its files, so the files of strays do not count."""
    # The next retention check of a log removes the files that the log has listed as deleted.
    due = {
        path
        for partition in broker.partitions
        for _, paths in partition._log.segments.deleted
        for path in paths
    }
    for path, inode in disk.names.files.items():
        is_stray = parse_stray_directory(path.partition("/")[0]) is not None
        if path.endswith(UNDER_WAY) and path not in due and not is_stray:
            yield path, inode
