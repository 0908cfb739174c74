"""A broker gets its port again after a restart, although other processes search for ports
meanwhile."""

from __future__ import annotations

import gc
import socket
from itertools import chain, repeat
from pathlib import Path

import pytest

from oncelog.testing import ports
from oncelog.testing.ports import LATE, reserve_port, reserve_ports
from tests.harness.broker import Oncelog
from tests.harness.driving import answers


class Owner:
    """A process that owns a port."""


def is_free(port: int) -> bool:
    """Return True if the system could give this port to another process."""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_port_stays_reserved_for_a_while_after_its_owner_has_ended() -> None:
    owner = Owner()
    port = reserve_port(owner)
    assert not is_free(port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)),
            socket.create_connection(("127.0.0.1", port)),
        ):
            pass
        assert not is_free(port)
    assert reserve_port(owner) != port
    del owner
    gc.collect()
    assert not is_free(port), "a client of the owner may still connect"
    for _ in range(LATE):
        reserve_port(Owner())
    gc.collect()
    assert is_free(port)


def test_reserved_ports_follow_each_other_and_are_all_reserved() -> None:
    owners = [Owner() for _ in range(30)]
    ranges = [range(first, first + 3) for first in (reserve_ports(owner, 3) for owner in owners)]
    reserved = [port for ports_of_one in ranges for port in ports_of_one]
    assert len(set(reserved)) == len(reserved)
    assert not any(map(is_free, reserved))


def test_a_range_with_a_reserved_port_is_not_reserved_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = Owner()
    reserved = reserve_port(owner)
    picked = chain([reserved - 1], repeat(0))
    bound = ports._bound

    def picking(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
        return bound(family, host, port or next(picked))

    monkeypatch.setattr(ports, "_bound", picking)
    first = reserve_ports(owner, 2)
    assert reserved not in (first, first + 1)


def leave_behind(count: int, address: str) -> None:
    """Leave client sockets at this address in TIME_WAIT, as a load does."""
    with socket.create_server((address, 0), backlog=count) as server:
        for _ in range(count):
            with socket.socket() as client:
                client.bind((address, 0))
                client.connect(server.getsockname())
                accepted, _ = server.accept()
            with accepted:
                # The client closes first, so its socket is in TIME_WAIT.
                assert accepted.recv(1) == b""


def listens(port: int) -> bool:
    """Return True if a server can listen on the port on every address, as a broker does."""
    for family, host in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            socket.create_server((host, port), family=family).close()
        except OSError:
            return False
    return True


@pytest.mark.parametrize("order", ["before", "after"])
def test_clients_at_other_addresses_do_not_take_a_reserved_port(order: str) -> None:
    """A broker listens on every address. A client's socket of 127.0.0.2 with the broker's port
    would block the broker."""
    owners = [Owner() for _ in range(50)]
    ports = [reserve_port(owner) for owner in owners] if order == "before" else []
    leave_behind(1_500, "127.0.0.2")
    ports = ports or [reserve_port(owner) for owner in owners]
    assert [port for port in ports if not listens(port)] == []


def test_the_port_of_a_broker_that_was_killed_is_not_given_away(tmp_path: Path) -> None:
    with Oncelog(tmp_path) as broker:
        port = broker.port
        broker.kill()
        assert not is_free(port)
        broker.start()
        assert broker.port == port
        assert answers(broker)
