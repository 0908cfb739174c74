"""A log cleaner over the logs of a broker in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.background_tasks import BackgroundTasks
from oncelog_server.cleaning.cleaner import LogCleaner
from oncelog_server.cleaning.slices import SlicedWork
from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.log.checkpoints import decode_offsets
from oncelog_server.log.config import COMPACT
from oncelog_server.log.whole_files import read_whole
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RefusedWork
from oncelog_server.settings.model import Settings
from oncelog_server.slices import Slices
from oncelog_server.storage.layout import CLEANER_CHECKPOINT
from oncelog_server.topic_partition import TopicPartition
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.world import WALL_MS, World
from tests.server.transaction.world_clock import WorldClock

BACKOFF_MS = 1_000
SETTINGS = Settings(log_cleaner_backoff_ms=BACKOFF_MS, log_cleaner_io_buffer_size=500)


class MemoryDirectory(DataDirectory):
    """The data directory on a disk in memory."""

    def __init__(self, files: MemoryFiles) -> None:
        super().__init__("/memory")
        self._files = files

    def _read(self, name: str) -> bytes | None:
        return read_whole(self._files, name)


class Cleaning:
    """A broker in memory (`World`) with a cleaner that works in steps, on the timers of `World`."""

    def __init__(self, world: World | None = None, settings: Settings = SETTINGS) -> None:
        self.world = world or World()
        self.partitions = Partitions()
        for partition in self.world.partitions.values():
            self.partitions.add(partition)
        self.refused = RefusedWork(self.world.timers, self.world.now)
        self.background_tasks = BackgroundTasks(
            settings,
            WorldClock(self.world),
            self.world.timers,
            self.partitions,
            self.world.transactions,
            self.world.flush,
            MemoryDirectory(self.world.files),
            self.world.files,
            Slices(self.world.timers, self.world.now, steps_per_slice=10**6),
            refused_work=self.refused,
        )
        self.cleaner = LogCleaner(
            settings,
            WorldClock(self.world),
            self.world.timers,
            self.partitions,
            self.world.files,
            partial(SlicedWork, self.world.files, self.world.timers),
            self.refused,
            self.background_tasks.checkpoint_cleaned,
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
