"""Latency of one paced producer, in a separate process, while a broker has other work."""

from __future__ import annotations

import multiprocessing
import socket
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.requests import a_batch, produce
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.codecs import encode
from oncelog_protocol.frames import frame
from oncelog_protocol.headers import write_request_header
from oncelog_protocol.messages.api_versions import ApiVersionsRequest

# How often each of the two asks: a stall of a few ms is met by one of them.
PACE_S = 0.005
ANSWER_TIMEOUT_S = 120.0
_SIZE = struct.Struct(">i")

Sample = tuple[float, float]
"""When it was sent (monotonic s), how long the answer took (s)."""


class Latencies(NamedTuple):
    """Of a produce of one message (s), and the longest time in which nothing was answered."""

    messages: int
    p50: float
    p99: float
    longest: float
    stall: float


class Beside:
    """A context manager: two processes beside the load, one that produces, one that only asks which
    versions there are, and so meets nothing but the broker's loop."""

    def __init__(self, address: str, topic: str) -> None:
        entry = produce(topic, 0, a_batch(1, 100))
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
        for one in self._paced:
            one.stop()

    def during(self, load: Callable[[], object]) -> tuple[float, Latencies]:
        """How long `load` took, and what was measured beside it."""
        began = time.monotonic()
        load()
        ended = time.monotonic()
        time.sleep(2 * PACE_S)
        produced, asked = (one.samples(began, ended) for one in self._paced)
        return ended - began, latencies(produced, asked)


def latencies(produced: list[float], asked: list[float]) -> Latencies:
    """Of the samples (s), which may be in any order."""
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
        """Latencies of what was under way in that time."""
        self._pipe.send("samples")
        found: list[Sample] = self._pipe.recv()
        return [took for sent, took in found if sent + took >= began and sent <= ended]

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()


def _ask_on(pipe: Connection, address: str, request: bytes) -> None:
    """Run in the other process: send requests at a fixed rate, and send the samples on request."""
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
    """One answer, without its size. Raises ConnectionError."""
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
