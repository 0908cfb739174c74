"""A worker acknowledges the data from Spark's JVM at once."""

from __future__ import annotations

import pickle
import socket
import sys

import pytest

from oncelog_client.spark.data_source import OncelogDataSource
from oncelog_client.spark.prompt_worker import PromptWorker

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="TCP_QUICKACK is an option of Linux"
)


@pytest.mark.parametrize("arriving", [PromptWorker(), OncelogDataSource({})], ids=["task", "plan"])
def test_unpickling_makes_the_connections_of_the_process_acknowledge_at_once(
    arriving: object,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as jvm,
        server.accept()[0] as worker,
    ):
        for connection in (jvm, worker):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert isinstance(pickle.loads(pickle.dumps(arriving)), type(arriving))
        for option in (socket.TCP_QUICKACK, socket.TCP_NODELAY):
            assert worker.getsockopt(socket.IPPROTO_TCP, option) == 1
        assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        worker.sendall(b"still open")
        assert jvm.recv(100) == b"still open"
