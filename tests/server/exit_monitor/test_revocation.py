"""The call that ends a lease imports nothing: the host may be out of memory by then."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from oncelog_server.config import load_settings
from oncelog_server.exit_monitor.pipe import Monitored
from oncelog_server.exit_monitor.process import monitored
from oncelog_server.exit_monitor.revocation import Revocation
from tests.harness.certificates import PASSWORD, Certificates, NoKeytool
from tests.harness.etcd import Etcd
from tests.harness.etcd_fixtures import etcd_program
from tests.harness.repository import ROOT

__all__ = ["etcd_program"]

# Prints the modules that the call has imported.
CALL = """
import sys
from oncelog_server.exit_monitor.pipe import Received
from oncelog_server.exit_monitor.revocation import Revocation

received = Received()
received.feed(sys.stdin.buffer.readline())
revocation = Revocation(received.monitored)
before = {*sys.modules}
failure = revocation.try_once(7).failure
print(failure, *sorted({*sys.modules} - before))
"""


def stores(certificates: Certificates, kind: str) -> list[str]:
    """Return the settings of a key store of this kind, and of a trust store."""
    pair = certificates.server
    try:
        path = {"PEM": pair.pem_path, "PKCS12": pair.pkcs12_path}.get(kind) or pair.jks_path
    except NoKeytool as reason:
        pytest.skip(str(reason))
    found = [
        f"oncelog.etcd.ssl.truststore.location={certificates.authority_path}",
        f"oncelog.etcd.ssl.keystore.location={path}",
        f"oncelog.etcd.ssl.keystore.type={kind}",
    ]
    return found if kind == "PEM" else [*found, f"oncelog.etcd.ssl.keystore.password={PASSWORD}"]


def imported_by_a_call(etcd: Etcd, *assignments: str) -> str:
    """End a lease in a process of its own. Return its failure, and what the call has imported."""
    endpoints = f"oncelog.etcd.endpoints={','.join(etcd.urls)}"
    line = monitored(load_settings(assignments=[endpoints, *assignments]).settings).line()
    called = subprocess.run(
        [sys.executable, "-c", CALL], input=line, cwd=ROOT, capture_output=True, check=True
    )
    return called.stdout.decode().strip()


def test_a_call_imports_nothing(etcd_program: str, tmp_path: Path) -> None:
    with Etcd(tmp_path) as etcd:
        assert imported_by_a_call(etcd) == ""


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_a_call_with_tls_imports_nothing(etcd_program: str, tmp_path: Path, kind: str) -> None:
    certificates = Certificates(tmp_path)
    with Etcd(tmp_path, certificates=certificates, demands_certificates=True) as etcd:
        assert imported_by_a_call(etcd, *stores(certificates, kind)) == ""


@contextmanager
def member(*responses: bytes) -> Iterator[int]:
    """Yield the port of a server that gives these responses, each on its own connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            for response in responses:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(response)

        thread = Thread(target=respond, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    "odd",
    [
        b"HTTP/1.0",
        b"HTTP/1.0 many Bad\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b'HTTP/1.0 200 OK\r\n\r\n{"token": null}',
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
    ],
)
def test_after_an_odd_response_the_next_member_is_tried(odd: bytes) -> None:
    """A proxy in the place of a member may respond."""
    login = b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps({"token": "t"}).encode()
    with member(odd) as first, member(login, b"HTTP/1.0 200 OK\r\n\r\n{}") as second:
        members = [("127.0.0.1", port, False) for port in (first, second)]
        outcome = Revocation(Monitored(1, 9.0, members, ("user", "password"))).try_once(7)
    assert (outcome.failure, outcome.was_alive) == ("", True)
