"""Latency of one paced producer, in a separate process, while a broker has other work."""

from __future__ import annotations

import multiprocessing
import socket
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.batches import a_batch
from benchmarks.requests import produce
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.codecs import encode
from oncelog_protocol.frames import frame
from oncelog_protocol.headers import write_request_header
from oncelog_protocol.messages.api_versions import ApiVersionsRequest

# The interval between two requests of a process. It is short, so that a stall of the broker for a
# few ms is noticed.
PACE_S = 0.005
ANSWER_TIMEOUT_S = 120.0
_SIZE = struct.Struct(">i")

Sample = tuple[float, float]
"""The time of the request (monotonic s), and the time until its response (s)."""


class Latencies(NamedTuple):
    """The number of Produce requests with one message each, and their latencies (s). `stall`: the
    longest latency of ApiVersions (s)."""

    messages: int
    p50: float
    p99: float
    longest: float
    stall: float


class Beside:
    """A context manager for two processes that send requests while a load runs. One process sends
    Produce. The other sends ApiVersions, which waits only for the broker's event loop."""

    def __init__(self, address: str, topic: str) -> None:
        entry = produce(topic, {0: a_batch(1, 100)})
        version = 3
        ask = encode(ApiVersionsRequest("bench", "1"), version)
        header = write_request_header(ApiKey.API_VERSIONS, version, 1, "bench")
        self._paced = [
            _Paced(address, b"".join(map(bytes, frame([entry.request])))),
            _Paced(address, b"".join(map(bytes, frame([header, ask])))),
        ]

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._paced:
            process.stop()

    def during(self, load: Callable[[], object]) -> tuple[float, Latencies]:
        """Run `load`. Return its duration (s), and the latencies of the requests in flight during
        the load."""
        began = time.monotonic()
        load()
        ended = time.monotonic()
        time.sleep(2 * PACE_S)
        produced, asked = (process.samples(began, ended) for process in self._paced)
        return ended - began, latencies(produced, asked)


def latencies(produced: list[float], asked: list[float]) -> Latencies:
    """Return the latencies of the samples (s). The samples may be in any order."""
    took = sorted(produced)
    at = len(took) - 1
    return Latencies(
        len(took), took[at // 2], took[at * 99 // 100], took[-1], max(asked, default=0.0)
    )


class _Paced:
    def __init__(self, address: str, request: bytes) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_ask_on, args=(theirs, address, request), daemon=True)
        self._process.start()
        self._pipe.recv()

    def samples(self, began: float, ended: float) -> list[float]:
        """Return the latencies of the requests that were in flight in this interval."""
        self._pipe.send("samples")
        found: list[Sample] = self._pipe.recv()
        return [took for sent, took in found if sent + took >= began and sent <= ended]

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()


def _ask_on(pipe: Connection, address: str, request: bytes) -> None:
    """Send `request` every `PACE_S`. For each message in `pipe`, send back the samples since the
    previous message."""
    host, port = address.rsplit(":", 1)
    samples: list[Sample] = []
    with socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S) as broker:
        broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipe.send("ready")
        while True:
            began = time.monotonic()
            broker.sendall(request)
            receive(broker)
            samples.append((began, time.monotonic() - began))
            if pipe.poll():
                pipe.recv()
                pipe.send(samples)
                samples = []
            time.sleep(max(0.0, PACE_S - (time.monotonic() - began)))


def receive(broker: socket.socket) -> bytes:
    """Read one response, without its size. Raises ConnectionError."""
    (size,) = _SIZE.unpack(_exactly(broker, _SIZE.size))
    return _exactly(broker, size)


def _exactly(broker: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = broker.recv(min(1 << 20, size - len(data)))
        if not part:
            raise ConnectionError("the broker closed the connection")
        data += part
    return bytes(data)
