"""Ten thousand idle connections, and then as many short ones, delay no working client. The
connection limits stay exact (scenario H65)."""

from __future__ import annotations

import resource
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from oncelog.testing.ports import passing_socket
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events, merged, taken
from tests.harness.waiting import wait_until
from tests.harness.writing import produce, records

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and 127.0.0.0/8")

ADDRESSES = [f"127.0.1.{number}" for number in range(1, 101)]
OF_EACH = 100
IDLE = len(ADDRESSES) * OF_EACH
# Connections beyond the idle ones, for working clients and for tested connections.
SPARE = 100
# The number of short connections, about 5,000 a second, and the maximum number of open connections
# at a time.
STORM, AT_ONCE = 10_000, 200
LIMITS = {
    "max.connections": str(IDLE + SPARE),
    "max.connections.per.ip": str(OF_EACH),
    "max.connections.per.ip.overrides": f"127.0.0.1:{IDLE},127.0.0.2:{IDLE}",
    # If the listen backlog is full, the kernel delays a new connection by a second.
    "socket.listen.backlog.size": "4096",
}
# An ApiVersions v0 request, and the maximum memory of an idle connection (KiB).
SMALL = struct.pack(">ihhih", 10, 18, 0, 1, -1)
KIB_EACH = 24


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    """A broker. It and this process may open enough descriptors for all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 3_000
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"only {hard} descriptors"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    with Oncelog(tmp_path, merged(QUICK, LIMITS)) as broker:
        yield broker
        events(broker)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connection(broker: Oncelog, address: str) -> socket.socket:
    connection = passing_socket(address)
    connection.settimeout(20)
    connection.connect((broker.host, broker.port))
    return connection


def is_served(connection: socket.socket) -> bool:
    """Send a request. Return True if it gets a response, and False if the connection was closed."""
    with suppress(ConnectionError):
        connection.sendall(SMALL)
        return bool(connection.recv(1))
    return False


def test_h65_idle_connections_and_a_storm_of_new_connections_delay_no_client(
    broker: Oncelog,
) -> None:
    with Wire(broker.address) as wire, ExitStack() as crowd:
        create(wire, "t")
        works(wire)
        before = taken(broker.pid)
        idle = []
        for address in ADDRESSES:
            for _ in range(OF_EACH):
                idle.append(crowd.enter_context(connection(broker, address)))
            works(wire)
        assert all(is_served(socket) for socket in idle[:: OF_EACH - 1])
        grown = taken(broker.pid).rss_bytes - before.rss_bytes
        assert grown / IDLE < KIB_EACH << 10
        with connection(broker, ADDRESSES[0]) as one_too_many:
            assert not is_served(one_too_many), "the address is at its limit of connections"

        storm(broker, wire)
        assert all(is_served(socket) for socket in idle[:: OF_EACH - 1])
        full(broker, wire)
        crowd.close()
        wait_until(
            lambda: taken(broker.pid).descriptors <= before.descriptors,
            "all descriptors are free again",
        )
        works(wire)


def storm(broker: Oncelog, wire: Wire) -> None:
    """Connect from one address as fast as this process can. Every other connection ends with a
    reset."""
    going: deque[socket.socket] = deque()
    reset = struct.pack("ii", 1, 0)
    for number in range(STORM):
        connection = passing_socket("127.0.0.2")
        connection.setblocking(False)
        with suppress(BlockingIOError):
            connection.connect((broker.host, broker.port))
        going.append(connection)
        if len(going) > AT_ONCE:
            gone = going.popleft()
            if number % 2:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            gone.close()
        if number % 500 == 0:
            works(wire)
    for connection in going:
        connection.close()
    works(wire)


def full(broker: Oncelog, wire: Wire) -> None:
    """Check that the broker accepts exactly `SPARE` connections beside the idle ones, and that open
    connections stay open."""
    wait_until(lambda: served(broker) == SPARE - 1, "the connections of the storm are closed")
    works(wire)


def served(broker: Oncelog) -> int:
    """Return the number of further connections that are accepted."""
    with ExitStack() as stack:
        crowd = [stack.enter_context(connection(broker, "127.0.0.2")) for _ in range(SPARE + 20)]
        return sum(map(is_served, crowd))


def works(wire: Wire) -> None:
    assert produce(wire, "t", build_batch(records())).error_code == ErrorCode.NONE
