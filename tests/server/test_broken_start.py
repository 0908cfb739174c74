"""A start that fails frees the ports of its listeners and closes its metadata store at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from oncelog_protocol.types import uuid_to_string
from oncelog_server.broker import Broker
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.config import Settings
from oncelog_server.data_directory.ownership import NeedsRecovery
from oncelog_server.environment import OsEnvironment
from oncelog_server.metadata.database import Database
from oncelog_server.network.binding import CannotListen
from oncelog_server.newer_logs import NewerLogs
from oncelog_server.storage.layout import META_PROPERTIES, METADATA_COPY, METADATA_FILE


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


def unknown_folder(path: Path) -> None:
    folder = path / "unknown-0"
    folder.mkdir()
    topic_id = uuid_to_string(b"u" * 16)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


def lost_properties(path: Path) -> None:
    (path / META_PROPERTIES).unlink()


def other_node(path: Path) -> None:
    file = path / META_PROPERTIES
    file.write_text(file.read_text().replace("node.id=1", "node.id=2"))


def lost_cluster(path: Path) -> None:
    (path / METADATA_FILE).unlink()
    (path / METADATA_COPY).unlink()
    database = Database(path / METADATA_FILE, may_be_new=True)
    database.close()


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (unknown_folder, "does not contain unknown-0"),
        (lost_properties, f"but no {META_PROPERTIES}"),
        (other_node, "belongs to node 2"),
        (lost_cluster, "no record of the cluster"),
    ],
)
async def test_a_refused_start_closes_its_metadata_store(
    tmp_path: Path, break_it: Callable[[Path], None], reason: str
) -> None:
    with unstarted(tmp_path, -1) as broker:
        await broker.start()
        await broker.metadata.create_topics([NewTopic("t")])
        await broker.stop()
    break_it(tmp_path)
    with unstarted(tmp_path, -1) as broker:
        with pytest.raises((NeedsRecovery, ValueError), match=reason):
            await broker.start()
        assert open_files(tmp_path) == []


def open_files(path: Path) -> list[str]:
    """Return the files in `path` that this process holds open."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this listing
            links.append(os.readlink(descriptor))
    return [link for link in links if link.startswith(f"{path}/")]
