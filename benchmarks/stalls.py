"""`python -m benchmarks.stalls`: the effect of large requests on a producer that sends one message
at a time.

Each row of the result is a load of large requests on one broker. During the load, one connection
produces a message every 5 ms, and another sends ApiVersions every 5 ms. The slowest response to
ApiVersions is the longest stall of the broker's event loop.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.batches import a_batch
from benchmarks.beside import ANSWER_TIMEOUT_S, Beside, Latencies, receive
from oncelog.testing.ports import reserve_port
from oncelog.testing.wire import Wire
from oncelog_protocol.apis import api_of
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.frames import frame
from oncelog_protocol.headers import read_response_header, write_request_header
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_protocol.messages.list_groups import ListGroupsRequest
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, find_coordinator, new_identity

TOPICS: Final = 10_000
PARTITIONS_OF_A_TOPIC: Final = 2
WIDE: Final = 10_000
TOPICS_OF_A_REQUEST: Final = 500
DELETED: Final = 5_000
IN_TRANSACTION: Final = 5_000
COMMITTED: Final = 5_000
GROUPS: Final = 2_000
RECORDS: Final = 5
PACED: Final = "paced"
TRANSACTIONAL_ID: Final = "stalls"
OFFSETS_GROUP: Final = "stalls-offsets"

# Limits for the p99 of a Produce during any load, and for the longest stall of the event loop.
MUST_P99_MS: Final = 50.0
MUST_STALL_MS: Final = 100.0
MUST_DELETE_S: Final = 10.0
MUST_START_S: Final = 8.0
MUST_STOP_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of the result: the duration of the load (s), and the latencies of the small requests
    during the load (ms)."""

    load: str
    seconds: float
    must_seconds: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    longest_ms: float | None = None
    stall_ms: float | None = None
    failure: str = ""

    @property
    def misses(self) -> list[str]:
        """Return the failure of the load, if any, and the goals that the row misses."""
        found = [self.failure] if self.failure else []
        if self.must_seconds is not None and self.seconds > self.must_seconds:
            found.append(f"{self.must_seconds:.0f} s")
        if self.p99_ms is not None and self.p99_ms > MUST_P99_MS:
            found.append(f"p99 {MUST_P99_MS:.0f} ms")
        if self.stall_ms is not None and self.stall_ms > MUST_STALL_MS:
            found.append(f"stall {MUST_STALL_MS:.0f} ms")
        return found


class Failed(Exception):
    """A load got a wrong response."""


class Client:
    """One connection. `ask` reads a response whole and does not decode it, because that would keep
    this process busy."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, prepared: bytes) -> bytes:
        """Send the request. Return the undecoded response."""
        self._socket.sendall(prepared)
        return receive(self._socket)


def prepared(request: Any, version: int) -> bytes:
    """Return the request as bytes."""
    header = write_request_header(api_of(type(request)).key, version, 1, "stalls")
    return b"".join(map(bytes, frame([header, encode(request, version)])))


def read(request: type, version: int, answer: bytes) -> Any:
    """Return the decoded response to a request of this type and version."""
    api = api_of(request)
    _, position = read_response_header(api.key, version, answer)
    return decode(api.response, version, answer[position:])


class Stalls:
    """The loads on one broker, in the order of their runs."""

    def __init__(self, broker: Oncelog, metrics_port: int, say: Callable[[str], None]) -> None:
        self._broker = broker
        self._metrics_port = metrics_port
        self._say = say
        self._names = [f"topic-{number:05}" for number in range(TOPICS)]

    def measure(self, only: Sequence[str]) -> Iterator[Measured]:
        """Yield a row for each load with one of `only` in its name, and in any case the rows of the
        clean stop and the start after it. Empty `only` means all loads."""
        self._create([CreatableTopic(PACED, 1, 1)])
        with Beside(self._broker.address, PACED) as beside:
            for name, must_seconds, load, is_always_run in self._loads():
                if only and not any(word in name for word in only):
                    if is_always_run:
                        load()
                    continue
                failures: list[str] = []
                seconds, found = beside.during(partial(self._try, load, failures))
                yield self._row(name, seconds, must_seconds, found, *failures)
        yield from self._stop_and_start()

    def _try(self, load: Callable[[], object], failures: list[str]) -> None:
        """Run a load. If it fails, add the failure to `failures` instead of raising it."""
        try:
            load()
        except (Failed, OSError) as failure:
            failures.append(f"not answered: {failure}")

    def _row(
        self,
        name: str,
        seconds: float,
        must_seconds: float | None,
        found: Latencies,
        failure: str = "",
    ) -> Measured:
        self._say(f"{name}: {seconds:.2f} s, {found.messages} messages meanwhile {failure}")
        in_ms = [latency * 1000 for latency in (found.p50, found.p99, found.longest, found.stall)]
        p50, p99, longest, stall = in_ms
        return Measured(name, seconds, must_seconds, p50, p99, longest, stall, failure)

    def _loads(self) -> Iterator[tuple[str, float | None, Callable[[], object], bool]]:
        """Yield for each load: its name, its limit (s), the load, and True if later loads need
        it."""
        yield "nothing", None, lambda: time.sleep(3), False
        yield f"create {WIDE} partitions and, meanwhile, one more topic", None, self._wide, True
        yield f"delete {WIDE} partitions", None, lambda: self._delete(["wide", "more"]), True
        yield f"create {TOPICS} topics of 2 partitions", None, self._create_many, True
        for name, request, version, count in self._questions():
            yield name, None, self._asking(request, version, count), False
        yield (
            f"produce to {IN_TRANSACTION} partitions, {IN_TRANSACTION} a request",
            None,
            (lambda: self._produce(Identity(-1, -1))),
            False,
        )
        yield f"a transaction over {IN_TRANSACTION} partitions", None, self._transaction, False
        yield f"OffsetCommit of {COMMITTED} partitions", None, self._commit_offsets, True
        offsets = [OffsetFetchRequestTopic(topic, [0, 1]) for topic in self._committed]
        yield (
            f"OffsetFetch of {COMMITTED} partitions",
            None,
            self._asking(OffsetFetchRequest(OFFSETS_GROUP, topics=offsets), 7, 3),
            False,
        )
        all_offsets = OffsetFetchRequest(OFFSETS_GROUP, topics=None)
        yield (
            "OffsetFetch of all offsets of the group",
            None,
            self._asking(all_offsets, 7, 3),
            False,
        )
        yield f"{GROUPS} groups join and sync", None, self._join, True
        groups = DescribeGroupsRequest(groups=[f"group-{number}" for number in range(GROUPS)])
        yield f"DescribeGroups of {GROUPS}", None, self._asking(groups, 5, 1), False
        yield "ListGroups", None, self._asking(ListGroupsRequest(), 5, 1), False
        yield "a scrape of /metrics", None, self._scrape, False
        deleted = self._names[:DELETED]
        yield f"delete {DELETED} topics", MUST_DELETE_S, lambda: self._delete(deleted), False

    def _questions(self) -> Iterator[tuple[str, Any, int, int]]:
        """Yield for each load that only reads: its name, its request, the request's version, and
        the number of times that it is sent."""
        configs = [DescribeConfigsResource(2, name, None) for name in self._names]
        yield f"Metadata of {TOPICS} topics", MetadataRequest(topics=None), 12, 3
        yield f"DescribeConfigs of {TOPICS} topics", DescribeConfigsRequest(configs), 4, 1
        with_one = [DescribeConfigsResource(2, name, ["retention.ms"]) for name in self._names]
        yield (
            f"DescribeConfigs of {TOPICS} topics, one setting each",
            DescribeConfigsRequest(with_one),
            4,
            1,
        )
        ends = [ListOffsetsPartition(number, timestamp=-1) for number in (0, 1)]
        offsets = ListOffsetsRequest(
            -1, topics=[ListOffsetsTopic(name, ends) for name in self._names]
        )
        yield f"ListOffsets of {2 * TOPICS} partitions", offsets, 6, 3
        places = [FetchPartition(number, partition_max_bytes=1 << 20) for number in (0, 1)]
        fetch = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=50 << 20,
            session_epoch=0,
            topics=[FetchTopic(topic=name, partitions=places) for name in self._names],
        )
        yield f"Fetch of {2 * TOPICS} partitions, a new session", fetch, 12, 3
        yield "DescribeLogDirs of all", DescribeLogDirsRequest(topics=None), 4, 3

    # --- loads

    def _call(self, request: Any, version: int) -> Any:
        with Client(self._broker.address) as client:
            return read(type(request), version, client.ask(prepared(request, version)))

    def _asking(self, request: Any, version: int, count: int) -> Callable[[], None]:
        data = prepared(request, version)

        def ask() -> None:
            with Client(self._broker.address) as client:
                for _ in range(count):
                    client.ask(data)

        return ask

    def _create(self, topics: list[CreatableTopic]) -> None:
        answer = self._call(CreateTopicsRequest(topics), 7)
        _check(topic.error_code for topic in answer.topics)

    def _wide(self) -> None:
        """Create a topic of many partitions. One second after this request, without waiting for its
        response, create a small topic."""
        wide = prepared(CreateTopicsRequest([CreatableTopic("wide", WIDE, 1)]), 7)
        with Client(self._broker.address) as client:
            client._socket.sendall(wide)
            time.sleep(1)
            self._create([CreatableTopic("more", 1, 1)])
            receive(client._socket)

    def _create_many(self) -> None:
        for first in range(0, TOPICS, TOPICS_OF_A_REQUEST):
            names = self._names[first : first + TOPICS_OF_A_REQUEST]
            self._create([CreatableTopic(name, PARTITIONS_OF_A_TOPIC, 1) for name in names])

    def _delete(self, names: list[str]) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names])
        _check(response.error_code for response in self._call(request, 6).responses)

    def _produce(self, identity: Identity) -> None:
        data = [
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(number, a_batch(1, 100, identity))
                    for number in range(PARTITIONS_OF_A_TOPIC)
                ],
            )
            for name in self._names[: IN_TRANSACTION // PARTITIONS_OF_A_TOPIC]
        ]
        request = ProduceRequest(identity.transactional_id, -1, 60_000, data)
        answer = self._call(request, 9)
        _check(
            partition_response.error_code
            for topic in answer.responses
            for partition_response in topic.partition_responses
        )

    def _transaction(self) -> None:
        with Wire(self._broker.address) as wire:
            identity = new_identity(wire, TRANSACTIONAL_ID)
        names = self._names[: IN_TRANSACTION // PARTITIONS_OF_A_TOPIC]
        added = self._call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTIONAL_ID,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name, [*range(PARTITIONS_OF_A_TOPIC)]) for name in names
                ],
            ),
            3,
        )
        _check(
            partition.partition_error_code
            for topic in added.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        )
        self._produce(identity)
        end = EndTxnRequest(TRANSACTIONAL_ID, identity.producer_id, identity.producer_epoch, True)
        _check([self._call(end, 3).error_code])

    @property
    def _committed(self) -> list[str]:
        return self._names[: COMMITTED // PARTITIONS_OF_A_TOPIC]

    def _commit_offsets(self) -> None:
        with Wire(self._broker.address) as wire:
            find_coordinator(wire, OFFSETS_GROUP, 0)
        places = [
            OffsetCommitRequestPartition(number, 1, committed_metadata="")
            for number in range(PARTITIONS_OF_A_TOPIC)
        ]
        topics = [OffsetCommitRequestTopic(name, partitions=places) for name in self._committed]
        request = OffsetCommitRequest(OFFSETS_GROUP, member_id="", topics=topics)
        answer = self._call(request, 8)
        _check(partition.error_code for topic in answer.topics for partition in topic.partitions)

    def _join(self) -> None:
        """Join all groups. Each group has one member and an assignment."""
        with Wire(self._broker.address) as wire:
            find_coordinator(wire, "group-0", 0)
            wait_until(lambda: _join(wire, "group-0") is not None, "the coordinator")
            for number in range(1, GROUPS):
                if _join(wire, f"group-{number}") is None:
                    raise Failed(f"group-{number} has no coordinator")

    def _scrape(self) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics") as page:
            page.read()

    def _stop_and_start(self) -> Iterator[Measured]:
        self._create_missing()
        names = self._names
        for _ in range(RECORDS):
            for first in range(0, TOPICS, IN_TRANSACTION // PARTITIONS_OF_A_TOPIC):
                self._names = names[first:]
                self._produce(Identity(-1, -1))
        self._names = names
        self._say(f"{RECORDS} records in each partition")
        began = time.monotonic()
        self._broker.stop(60)
        count = TOPICS * PARTITIONS_OF_A_TOPIC
        stop = f"a clean stop of {count} partitions with at least {RECORDS} records each"
        yield Measured(stop, time.monotonic() - began, MUST_STOP_S)
        began = time.monotonic()
        self._broker.start()
        self._call(MetadataRequest(topics=[]), 12)
        yield Measured(
            "the next start, to the first response", time.monotonic() - began, MUST_START_S
        )

    def _create_missing(self) -> None:
        """Create the topics that are missing, so that the broker has the maximum number of
        partitions."""
        known = {topic.name for topic in self._call(MetadataRequest(topics=None), 12).topics}
        missing = [name for name in self._names if name not in known]
        for first in range(0, len(missing), TOPICS_OF_A_REQUEST):
            names = missing[first : first + TOPICS_OF_A_REQUEST]
            self._create([CreatableTopic(name, PARTITIONS_OF_A_TOPIC, 1) for name in names])


def _join(wire: Wire, group: str) -> str | None:
    """Join the group and send its assignment. Return the member id, or None if the group has no
    coordinator yet."""
    protocols = [JoinGroupRequestProtocol("range", b"subscription")]
    joined = wire.call(
        JoinGroupRequest(group, 300_000, 300_000, "", None, "consumer", protocols), 3
    )
    if joined.error_code:
        return None
    assignment = SyncGroupRequestAssignment(joined.member_id, b"assignment")
    synced = wire.call(
        SyncGroupRequest(
            group, joined.generation_id, joined.member_id, None, None, None, [assignment]
        ),
        2,
    )
    _check([synced.error_code])
    member: str = joined.member_id
    return member


def _check(codes: Any) -> None:
    bad = [code for code in codes if code]
    if bad:
        raise Failed(f"{len(bad)} errors, the first is {bad[0]}")


def show(rows: Sequence[Measured], *, as_markdown: bool) -> None:
    """Print the table. The headings have the limits, and the last column the missed limits."""
    headings = [
        "load", "s", "p50 ms", f"p99 ms (must {MUST_P99_MS:.0f})", "max ms",
        f"stall ms (must {MUST_STALL_MS:.0f})", "must s", "misses",
    ]  # fmt: skip
    lines = [
        [
            row.load,
            f"{row.seconds:.2f}",
            *(
                _in_ms(latency)
                for latency in (row.p50_ms, row.p99_ms, row.longest_ms, row.stall_ms)
            ),
            "" if row.must_seconds is None else f"{row.must_seconds:.0f}",
            ", ".join(row.misses),
        ]
        for row in rows
    ]
    if as_markdown:
        print("| " + " | ".join(headings) + " |\n|" + "---|" * len(headings))
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    table = Table(*headings)
    for line in lines:
        table.add_row(*line)
    Console(width=160).print(table)


def _in_ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def main() -> int:
    """Run the loads. Return 1 if a row misses a goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument(
        "--rows",
        nargs="*",
        default=[],
        help="measure only loads with one of these words in their name",
    )
    parser.add_argument("--directory", help="the folder of the broker's data; not on a tmpfs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", type=Path, help="write the measured values to this file")
    args = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    folder = tempfile.TemporaryDirectory(prefix="oncelog-stalls-", dir=args.directory)
    with folder as path:
        port = reserve_port(folder)
        settings = {
            "group.initial.rebalance.delay.ms": "0",
            "oncelog.max.partitions": str(TOPICS * PARTITIONS_OF_A_TOPIC + 1),
            "oncelog.metrics.port": str(port),
        }
        with Oncelog(Path(path), settings) as broker:
            rows = list(Stalls(broker, port, say).measure(args.rows))
    show(rows, as_markdown=args.markdown)
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(any(row.misses for row in rows))


if __name__ == "__main__":
    sys.exit(main())
