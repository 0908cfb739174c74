"""A start that fails after it has bound its listeners frees their ports at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog_server.broker import Broker
from oncelog_server.config import Settings
from oncelog_server.environment import OsEnvironment
from oncelog_server.network.binding import CannotListen
from oncelog_server.newer_logs import NewerLogs


@contextmanager
def unstarted(path: Path, metrics_port: int) -> Iterator[Broker]:
    settings = Settings(
        log_dirs=(str(path),),
        listeners=("PLAINTEXT://127.0.0.1:0",),
        oncelog_metrics_host="127.0.0.1",
        oncelog_metrics_port=metrics_port,
    )
    environment = OsEnvironment(settings.data_directory)
    try:
        yield Broker(settings, environment)
    finally:
        environment.close()


def assert_free(port: int) -> None:
    with socket.socket() as again:
        again.bind(("127.0.0.1", port))


async def test_a_metrics_port_in_use_leaves_no_listener(tmp_path: Path) -> None:
    """The listeners close at once, without a garbage collection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        unstarted(tmp_path, other.getsockname()[1]) as broker,
    ):
        with pytest.raises(CannotListen, match="in use"):
            await broker.start()
        ((_, _, port),) = broker.addresses
        assert_free(port)


async def test_a_failure_after_listener_and_metrics_port_are_bound_frees_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics_ports: list[int] = []

    with unstarted(tmp_path, 0) as broker:

        def fail(*_: object) -> None:
            assert broker._metrics is not None
            assert broker._metrics._server is not None
            metrics_ports.append(broker._metrics._server.sockets[0].getsockname()[1])
            raise OSError("the folders cannot be read")

        monkeypatch.setattr(NewerLogs, "__init__", fail)
        with pytest.raises(OSError, match="cannot be read"):
            await broker.start()
        ((_, _, port),) = broker.addresses
        for bound in (port, *metrics_ports):
            assert_free(bound)
    assert metrics_ports
