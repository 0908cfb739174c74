"""Parts of the fault tests: topics by raw requests, all that clients can see of a topic, and the
resources of a process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.records.batch import read_records, split_batches
from tests.harness.broker import Oncelog

# Shorter than Kafka's defaults, so that tests take less time.
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}
EARLIEST = -2
LARGE = 1 << 20


def create(wire: Wire, *names: str, partitions: int = 1, **config: object) -> None:
    """Create topics. A setting's name has `_` in place of `.`."""
    codes = created(wire, *names, partitions=partitions, **config)
    assert codes == [ErrorCode.NONE] * len(names), codes


def created(wire: Wire, *names: str, partitions: int = 1, **config: object) -> list[ErrorCode]:
    """Create topics, and return the broker's error codes."""
    configs = [CreatableTopicConfig(key.replace("_", "."), str(of)) for key, of in config.items()]
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        for name in names
    ]
    response = wire.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    return [ErrorCode(topic.error_code) for topic in response.topics]


def fetch(
    wire: Wire,
    topic: str,
    offset: int = 0,
    *,
    committed: bool = False,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
) -> PartitionData:
    """Send one Fetch for one partition. Return the response for this partition."""
    wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=LARGE)
    request = FetchRequest(
        isolation_level=int(committed),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    found: PartitionData = wire.call(request, 12).responses[0].partitions[0]
    return found


def list_offset(wire: Wire, topic: str, timestamp: int, partition: int = 0) -> tuple[int, int, int]:
    """Return the error code, timestamp and offset of one ListOffsets."""
    asked = ListOffsetsPartition(partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, [asked])])
    found = wire.call(request, 7).topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset


def end_offset(wire: Wire, topic: str, partition: int = 0) -> int:
    """Return the high watermark."""
    code, _, offset = list_offset(wire, topic, -1, partition)
    assert code == ErrorCode.NONE, ErrorCode(code)
    return offset


def last_stable_offset(wire: Wire, topic: str, partition: int = 0) -> int:
    """Return the last stable offset, from a read_committed Fetch."""
    end = end_offset(wire, topic, partition)
    return fetch(wire, topic, end, committed=True, partition=partition).last_stable_offset


def values(wire: Wire, topic: str, *, partition: int = 0, committed: bool = True) -> list[bytes]:
    """Return the values that a reader gets. A read_committed reader skips aborted records."""
    return list(_values(wire, topic, partition, committed))


def _values(wire: Wire, topic: str, partition: int, committed: bool) -> Iterator[bytes]:
    _, _, offset = list_offset(wire, topic, EARLIEST, partition)
    while True:
        data = fetch(wire, topic, offset, committed=committed, partition=partition)
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
        records = bytes(data.records or b"")
        if not records:
            return
        aborted = sorted(
            (aborted_transaction.first_offset, aborted_transaction.producer_id)
            for aborted_transaction in data.aborted_transactions or ()
        )
        aborting: set[int] = set()
        for position, header in split_batches(records, allow_partial=True):
            while aborted and aborted[0][0] <= header.base_offset:
                aborting.add(aborted.pop(0)[1])
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                batch = records[position : position + header.size]
                for record in read_records(batch, max_bytes=LARGE):
                    if record.offset >= offset:
                        yield bytes(record.value or b"")
            offset = header.next_offset


@dataclass(frozen=True, slots=True)
class View:
    """The state of a partition as clients see it. Damage to a file beside the log must not change
    it."""

    start: tuple[int, int, int]
    end: tuple[int, int, int]
    stable: int
    values: tuple[bytes, ...]
    committed: tuple[bytes, ...]
    by_time: tuple[tuple[int, int, int], ...]


def view(wire: Wire, topic: str, times: Iterator[int] | range = range(0)) -> View:
    """Return the current view of partition 0. `times`: the timestamps of `by_time`."""
    return View(
        list_offset(wire, topic, EARLIEST),
        list_offset(wire, topic, -1),
        last_stable_offset(wire, topic),
        tuple(values(wire, topic, committed=False)),
        tuple(values(wire, topic)),
        tuple(list_offset(wire, topic, time) for time in times),
    )


def answers(broker: Oncelog) -> bool:
    """Return True if the broker serves a new client."""
    with Wire(broker.address) as wire:
        return bool(wire.call(ApiVersionsRequest("faults", "1"), 3).api_keys)


def events(broker: Oncelog) -> list[dict[str, Any]]:
    """Return the broker's log events. A traceback in the log fails the test."""
    lines = broker.log.read_text().splitlines()
    assert not any(line.startswith("Traceback") for line in lines), broker.said()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    assert not any("exception" in event for event in found), broker.said()
    return found


def refusal(broker: Oncelog) -> str:
    """Start a process that must refuse to start, with exit code 1 and without a traceback. Return
    the last line of its log."""
    process = broker.spawn()
    assert process.wait(20) == 1, broker.said()
    said = broker.log.read_text()
    assert "Traceback" not in said, said
    return said.splitlines()[-1]


def damage(path: Path, position: int = -1, flip: int = 0x55) -> None:
    """Change one byte, by default the middle byte."""
    data = bytearray(path.read_bytes())
    assert data, f"{path} is empty"
    data[len(data) // 2 if position == -1 else position] ^= flip
    path.write_bytes(data)


def offsets_of(path: Path) -> dict[tuple[str, int], int]:
    """Return the offsets of a checkpoint file, or none if the file does not exist."""
    if not path.exists():
        return {}
    rows = (line.split() for line in path.read_text().splitlines()[2:])
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


@dataclass(frozen=True, slots=True)
class Taken:
    """The resources of a process."""

    descriptors: int
    rss_bytes: int
    cpu_s: float


def taken(pid: int) -> Taken:
    """Return the resources of a process, from /proc."""
    process = Path("/proc") / str(pid)
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    rss_bytes = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Taken(len(list((process / "fd").iterdir())), rss_bytes, cpu_s)


def state(pid: int) -> str:
    """Return the state of a process from /proc. T means stopped."""
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]


def merged(*settings: Mapping[str, str]) -> dict[str, str]:
    """Merge settings. Later settings have precedence."""
    return {name: value for setting in settings for name, value in setting.items()}
