"""A disk that is full for some kinds of files, and what must be so some seconds after there is room
again: nothing is refused, owed, offline or left behind, without a restart."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from tests.simulation.options import Options
    from tests.simulation.world import World

METADATA: Final = "metadata store"
# A file of a kind is one whose path, or the one it is renamed to, matches.
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
# Of files that are not yet, or no longer, in use.
UNDER_WAY: Final = (TEMPORARY_SUFFIX, SWAP_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX)
# So long after there is room again all must be as if there always had been.
HEALED_WITHIN_US: Final = 5_000_000
CHECKED_EVERY_US: Final = 100_000


def draw_kinds(rng: Random) -> tuple[str, ...]:
    return tuple(rng.sample(list(KINDS), rng.choice((1, 1, 1, 2, 4))))


def full_for(kinds: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{KINDS[kind]})" for kind in kinds))


def times(rng: Random, options: Options) -> Iterator[tuple[int, int]]:
    """Moments and durations in us; half of the worlds have none."""
    horizon_us = options.periods * options.period_us
    for _ in range(rng.choice((0, 0, 1, 2))):
        yield (
            rng.randrange(horizon_us),
            rng.randint(1_000, rng.choice((20_000, 300_000, 1_500_000))),
        )


def observe_refused(world: World) -> None:
    """There is room again: what has it to heal?"""
    broker, met = world.node.broker, world.sometimes.met
    met("partition offline until the disk takes it", len(broker.partitions.offline()))
    for partition in broker.partitions:
        met("swap interrupted by a full disk", partition._log.refusals.interrupted is not None)
    for name in broker._refused_work._work:
        met(f"refused until there is room: {name.partition(' ')[0]}")


class Healing:
    """Watches one return of space: `world.violate` where something is not well in time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process = world.node.process
        self._errors = world.node.disk.other_failures
        self._pauses = world.inflicted["pause"]
        self._until_us = world.loop.now_us + HEALED_WITHIN_US

    def check(self) -> None:
        """Once more, until all is well or the time is over."""
        if not self.concerns:
            return
        left = left_of(self._world.node.broker, self._world.node.disk)
        if not left:
            self._world.sometimes.met("healed of a full disk without a restart")
        elif self._world.loop.now_us > self._until_us:
            self._world.violate(f"space for 5 s, and not healed: {'; '.join(left)}")
        else:
            self._world.after(CHECKED_EVERY_US, self.check)

    @property
    def concerns(self) -> bool:
        """Nothing else has happened to this broker since."""
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
    """What is refused, owed, offline or left behind."""
    found = [f"{name} is offline: {why}" for name, why in broker.partitions.offline().items()]
    found += [f"refused work: {name}" for name in broker._refused_work._work]
    for partition in broker.partitions:
        if partition.failure is not None:
            found.append(f"{partition.topic_partition} has failed: {partition.failure}")
        if partition._log.refusals.current is not None:
            found.append(
                f"{partition.topic_partition} is refused: {partition._log.refusals.current}"
            )
    image = broker.metadata.image
    known = {
        partition_directory(topic.name, partition.partition)
        for topic in image.topics.values()
        for partition in topic.partitions
    }
    # A start puts those of deleted topics aside, for good: nothing of a user's is removed.
    there = {
        directory
        for directory in disk.names.directories
        if directory and parse_stray_directory(directory) is None
    }
    found += [f"directory {name} is left" for name in sorted(there - known)]
    found += [f"directory {name} is missing" for name in sorted(known - there)]
    # What a log has deleted and remembers goes with the next check of its retention.
    due = {
        path
        for partition in broker.partitions
        for _, paths in partition._log.segments.deleted
        for path in paths
    }
    under_way = {path for path in disk.names.files if path.endswith(UNDER_WAY)}
    found += [f"{path} is left" for path in sorted(under_way - due)]
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
