"""Loads of new TLS connections, and the memory of idle TLS connections."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks import machine
from benchmarks.bench import MB, Bench, Cores, Figures, Round
from benchmarks.generated import of_requests
from benchmarks.requests import API_VERSIONS_VERSION, CLIENT_ID, api_versions
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from tests.security.secured_wire import SecuredWire

# Connections in progress at a time. Kafka's queue of new connections has 50
# (socket.listen.backlog.size).
IN_PROGRESS: Final = 16


@contextmanager
def full(bench: Bench) -> Iterator[Round]:
    """New connections with a full handshake. Each sends one ApiVersions request."""
    file = bench.requests([api_versions()])

    def run(cores: Cores) -> Figures:
        return of_requests(bench.connector("full", file, cores, connections=IN_PROGRESS))

    yield run


@contextmanager
def resumed(bench: Bench) -> Iterator[Round]:
    """The load `full`, but each connection offers the session of an earlier connection. The figure
    `resumed` is the share of the sessions that the broker resumes."""
    file = bench.requests([api_versions()])

    def run(cores: Cores) -> Figures:
        found = bench.connector("resumed", file, cores, connections=IN_PROGRESS)
        return of_requests(found) | {"resumed": found["resumed"] / found["answers"]}

    yield run


def idle(bench: Bench, cores: Cores) -> Figures:
    """Measure the broker's memory before and while 5,000 connections are open. Each of them has
    sent one request."""
    count = bench.pace.connections
    machine.allow_open_files(count + 100)
    tls = bench.target.tls
    assert tls is not None
    context = ssl.create_default_context(cafile=tls.authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with machine.on_cores(cores), ExitStack() as wires:
        before = machine.resident_bytes(bench.target.pid)
        for _ in range(count):
            wire = wires.enter_context(SecuredWire(tls.address, context))
            wire.call(ApiVersionsRequest(CLIENT_ID, "1"), API_VERSIONS_VERSION)
        after = machine.resident_bytes(bench.target.pid)
    return {"all_mb": after / MB, "kb_each": (after - before) / 1000 / count}
