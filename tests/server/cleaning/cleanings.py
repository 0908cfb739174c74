"""A log cleaner over the logs of a broker in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cleaning.cleaner import LogCleaner
from oncelog_server.cleaning.slices import SlicedWork
from oncelog_server.log.checkpoints import decode_offsets
from oncelog_server.log.config import COMPACT
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RefusedWork
from oncelog_server.settings.model import Settings
from oncelog_server.storage.layout import CLEANER_CHECKPOINT
from oncelog_server.topic_partition import TopicPartition
from tests.server.transaction.world import WALL_MS, World
from tests.server.transaction.world_clock import WorldClock

BACKOFF_MS = 1_000
SETTINGS = Settings(log_cleaner_backoff_ms=BACKOFF_MS, log_cleaner_io_buffer_size=500)


class Cleaning:
    """A broker in memory (`World`) with a cleaner that works in steps, on the timers of `World`."""

    def __init__(self, world: World | None = None, settings: Settings = SETTINGS) -> None:
        self.world = world or World()
        self.partitions = Partitions()
        for partition in self.world.partitions.values():
            self.partitions.add(partition)
        self.refused = RefusedWork(self.world.timers, self.world.now)
        self.cleaner = LogCleaner(
            settings,
            WorldClock(self.world),
            self.world.timers,
            self.partitions,
            self.world.files,
            partial(SlicedWork, self.world.files, self.world.timers),
            self.refused,
        )
        self.cleaner.start()

    def compact(self, name: TopicPartition, **changes: Any) -> Partition:
        compacted = self.world.partitions[name]
        config = replace(
            compacted.config, cleanup_policy=frozenset({COMPACT}), segment_bytes=1_000,
            delete_retention_ms=10_000, **changes,
        )  # fmt: skip
        compacted.reconfigure(config)
        return compacted

    def checkpoint(self) -> dict[tuple[str, int], int]:
        files = self.world.files
        if not files.exists(CLEANER_CHECKPOINT):
            return {}
        file = files.open(CLEANER_CHECKPOINT)
        return decode_offsets(file.read(0, file.size))

    def run(self, ms: int = BACKOFF_MS) -> None:
        self.world.settle(ms)


def write(partition: Partition, count: int, *, keys: int = 3) -> None:
    for number in range(count):
        record = NewRecord(WALL_MS, b"k%d" % (number % keys), b"v%d" % number)
        partition.append(build_batch([record]), now_ms=WALL_MS)


def size(partition: Partition) -> int:
    return partition.size_bytes
