"""Compaction at full speed, and its effect on a producer at the same time."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path
from typing import Final

from benchmarks.bench import MB, SMALL_VALUE, Bench, Cores
from benchmarks.machine import all_cores
from benchmarks.requests import Entry, produce
from benchmarks.rings import SMALL, ring
from benchmarks.targets import Target, TargetFailed
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord

_KEYS: Final = 200_000
_RECORDS_OF_A_BATCH: Final = 4_000
_BATCHES: Final = 50
_RUNS: Final = 3
_SEGMENT_BYTES: Final = 32 * 1024 * 1024
_TOPIC: Final = 2
_TURNS: Final = 64
_SET: Final = 0
_BEGIN_DEADLINE_S: Final = 60.0
_SAFE_MS: Final = "3600000"


def while_compacting(bench: Bench, cores: Cores) -> dict[str, float]:
    """Return the latencies of a producer that sends one message at a time, while the broker
    compacts another topic of 100-byte records. `alone_…`: the same before the compaction. `slower`:
    the p99 during the compaction, divided by the p99 before it. Compaction starts after all records
    are written."""
    target = bench.target
    with target.topic(1) as plain, target.topic(1) as compacted:
        _configure(target, compacted, {
            "cleanup.policy": "compact",
            "segment.bytes": str(_SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0",
            "min.compaction.lag.ms": _SAFE_MS,
        })  # fmt: skip
        file = bench.requests(_batches(compacted))
        size = bench.pace.max_bytes // 4
        bench.loadgen("repeat", file, all_cores(), connections=4, seconds=60, max_bytes=size)
        requests = bench.requests(ring(plain, 1, 1, _TURNS, SMALL))
        before = [bench.loadgen("repeat", requests, cores) for _ in range(_RUNS)]
        _configure(target, compacted, {"min.compaction.lag.ms": "0"})
        _wait_for_begin(target, compacted)
        meanwhile = []
        for _ in range(_RUNS):
            found = bench.loadgen("repeat", requests, cores)
            if _is_compacted(target, compacted):
                break  # compaction ended during this run, so the run does not count
            meanwhile.append(found)
        if not meanwhile:
            raise TargetFailed(f"{target.name} compacts {size / MB:.0f} MB too fast to be measured")
        figures: dict[str, float] = {}
        for name in ("p50_us", "p99_us"):
            alone = statistics.median(found[name] for found in before)
            busy = statistics.median(found[name] for found in meanwhile)
            figures |= {name: busy, f"alone_{name}": alone}
        return figures | {"slower": figures["p99_us"] / figures["alone_p99_us"]}


def _batches(topic: str) -> list[Entry]:
    """Return Produce requests of records with random keys and values of `SMALL_VALUE` bytes."""
    randomness = random.Random(1)
    now_ms = int(time.time() * 1000)
    entries = []
    for _ in range(_BATCHES):
        records = [
            NewRecord(now_ms, b"key-%d" % randomness.randrange(_KEYS), bytes(SMALL_VALUE))
            for _ in range(_RECORDS_OF_A_BATCH)
        ]
        entries.append(produce(topic, {0: build_batch(records)}))
    return entries


def _configure(target: Target, topic: str, settings: dict[str, str]) -> None:
    changes = [AlterableConfig(name, _SET, value) for name, value in settings.items()]
    with target.wire() as wire:
        answer = wire.call(
            IncrementalAlterConfigsRequest(
                resources=[AlterConfigsResource(_TOPIC, topic, changes)]
            ),
            1,
        )
    code = answer.responses[0].error_code
    if code != ErrorCode.NONE:
        raise TargetFailed(f"{target.name} refuses {settings}: error {code}")


def _wait_for_begin(target: Target, topic: str) -> None:
    """Wait until the cleaner has begun to write."""
    folder = Path(target.broker.data) / f"{topic}-0"
    deadline = time.monotonic() + _BEGIN_DEADLINE_S
    while not [*folder.glob("*.cleaned"), *folder.glob("*.swap")]:
        if time.monotonic() > deadline:
            raise TargetFailed(f"{target.name} does not compact {topic}")
        time.sleep(0.01)


def _is_compacted(target: Target, topic: str) -> bool:
    checkpoint = Path(target.broker.data) / "cleaner-offset-checkpoint"
    return checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text()
