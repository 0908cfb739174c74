"""A broker comes back where it was, whoever looks for a port meanwhile."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import pytest

from tests.broker import Oncelog
from tests.faults.driving import answers
from tests.ports import LATE, reserve_port


class Owner:
    """Somebody who has a port."""


def is_free(port: int) -> bool:
    """Whether the system could give this port to somebody."""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_port_is_its_owners_and_for_a_while_nobodys() -> None:
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
    assert not is_free(port), "a client of his may be there still"
    for _ in range(LATE):
        reserve_port(Owner())
    gc.collect()
    assert is_free(port)


def test_the_port_of_a_broker_that_was_killed_is_not_given_away(tmp_path: Path) -> None:
    with Oncelog(tmp_path) as broker:
        port = broker.port
        broker.kill()
        assert not is_free(port)
        broker.start()
        assert broker.port == port
        assert answers(broker)
