"""Crowds of hostile clients beside working clients. Memory grows only with bytes that arrive, and
the crowd leaves nothing behind."""

from __future__ import annotations

import random
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from oncelog.testing.ports import passing_socket
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from tests.faults.holding import cpu_ms
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, Taken, create, events, merged, taken
from tests.harness.waiting import wait_until
from tests.harness.watch import Watch
from tests.harness.writing import produce, records

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

SEED = 11
CROWD = 40
SILENT = 200
LARGEST_FRAME = 104_857_600
# One minute at 200 connections a second. One core can serve them: each took 0.07 ms of CPU time.
RECONNECTS = 12_000
RECONNECT_MS = 5.0
PER_ADDRESS = 300
RSS_GROWTH = 64 << 20
# Maximum time of a response to a working client while the crowd keeps the broker busy.
TIMEOUT_S = 3.0
# ApiVersions v0, with correlation id 1 and no client id; Metadata v12 for all topics.
SMALL = struct.pack(">ihhih", 10, 18, 0, 1, -1)
METADATA = struct.pack(">ihhihBBBBBB", 16, 3, 12, 1, -1, 0, 0, 1, 1, 0, 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    # If the listen backlog is full, the kernel delays a new connection by a second.
    settings = {
        "max.connections.per.ip": str(PER_ADDRESS),
        "socket.listen.backlog.size": "4096",
    }
    with Oncelog(tmp_path_factory.mktemp("crowd"), merged(QUICK, settings)) as broker:
        with Wire(broker.address) as wire:
            create(wire, "t")
        yield broker
        events(broker)


@pytest.fixture
def wire(broker: Oncelog) -> Iterator[Wire]:
    """The connection of a working client."""
    with Wire(broker.address) as wire:
        yield wire


@pytest.fixture
def before(broker: Oncelog, wire: Wire) -> Taken:
    """The resources of the broker while only `wire` is connected."""
    works(broker, wire)
    return taken(broker.pid)


def works(broker: Oncelog, wire: Wire, times: int = 20) -> None:
    """Check that Produce gets its response in time."""
    for _ in range(times):
        data, watch = build_batch(records()), Watch(broker.pid)
        assert produce(wire, "t", data).error_code == ErrorCode.NONE
        assert watch.passed_s < TIMEOUT_S


def back_to(broker: Oncelog, before: Taken) -> None:
    """Check that the broker has as many descriptors as before, and hardly more memory."""
    wait_until(
        lambda: taken(broker.pid).descriptors <= before.descriptors,
        "the descriptors are free again",
    )
    assert taken(broker.pid).rss_bytes - before.rss_bytes < RSS_GROWTH


@pytest.fixture
def crowd(broker: Oncelog) -> Iterator[list[socket.socket]]:
    """Plain connections, closed after the test."""
    with ExitStack() as stack:
        yield [stack.enter_context(broker.connect()) for _ in range(CROWD)]


def test_h3_declared_frame_sizes_take_no_memory(broker: Oncelog, wire: Wire, before: Taken) -> None:
    """Clients announce 200 frames of 100 MiB and send no byte of them. Then they send 10 MB of the
    20 GB."""
    with ExitStack() as stack:
        silent = [stack.enter_context(broker.connect()) for _ in range(SILENT)]
        for connection in silent:
            connection.sendall(struct.pack(">i", LARGEST_FRAME))
        wait_until(
            lambda: taken(broker.pid).descriptors == before.descriptors + SILENT,
            "all connections are accepted",
        )
        works(broker, wire)
        assert taken(broker.pid).rss_bytes - before.rss_bytes < 16 << 20
        for connection in silent:
            connection.sendall(bytes(50_000))
        works(broker, wire)
        assert taken(broker.pid).rss_bytes - before.rss_bytes < RSS_GROWTH
    back_to(broker, before)


@pytest.mark.parametrize("request_bytes", [SMALL, METADATA], ids=["small", "metadata"])
def test_h8_a_client_that_never_reads_responses_takes_bounded_memory(
    broker: Oncelog,
    wire: Wire,
    before: Taken,
    crowd: list[socket.socket],
    request_bytes: bytes,
) -> None:
    """A client sends requests and never reads a response. The broker stops reading from it, and its
    memory stays bounded."""
    flood = request_bytes * (1 << 20 >> 4)
    for connection in crowd[:10]:
        connection.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                connection.send(flood)
    works(broker, wire)
    assert taken(broker.pid).rss_bytes - before.rss_bytes < RSS_GROWTH
    for connection in crowd:
        connection.close()
    back_to(broker, before)


def test_random_bytes_disturb_no_other_client(
    broker: Oncelog, wire: Wire, before: Taken, crowd: list[socket.socket]
) -> None:
    """Clients send random bytes, half of them with the header of a request. A quarter of the
    clients end with a reset."""
    chosen = random.Random(SEED)
    for number, connection in enumerate(crowd):
        with suppress(ConnectionError):
            for _ in range(10):
                noise = chosen.randbytes(chosen.randrange(1, 3000))
                head = struct.pack(">hh", chosen.randrange(0, 76), chosen.randrange(0, 14))
                body = (head if number % 2 else b"") + noise
                connection.sendall(struct.pack(">i", len(body)) + body)
        if number % 4 == 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    works(broker, wire)
    for connection in crowd:
        connection.close()
    back_to(broker, before)
    works(broker, wire)


def test_n12_thousands_of_short_connections_leave_nothing_behind(
    broker: Oncelog, wire: Wire, before: Taken
) -> None:
    """The test opens 12,000 connections, as many as 200 a second for one minute. Every other
    connection sends a part of a request or a whole one, and half of these end with a reset.
    Afterwards the limit of connections per address is still exact."""
    used = cpu_ms(broker)
    for number in range(RECONNECTS):
        with passing_socket(broker.host) as connection:
            connection.settimeout(20)
            connection.connect((broker.host, broker.port))
            if number % 2:
                connection.sendall(SMALL[: 1 + number % len(SMALL)])
            if number % 4 == 1:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if number % 500 == 0:
            works(broker, wire, 1)
    assert (cpu_ms(broker) - used) / RECONNECTS < RECONNECT_MS
    back_to(broker, before)
    with ExitStack() as stack:
        for _ in range(PER_ADDRESS - 1):  # and `wire`
            connection = stack.enter_context(broker.connect())
            connection.sendall(SMALL)
            assert connection.recv(1), "this connection is within the limit"
        with Wire(broker.address) as one_too_many:
            assert one_too_many.is_closed()
        works(broker, wire, 1)
    back_to(broker, before)
