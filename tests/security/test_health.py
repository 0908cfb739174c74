"""`oncelog health` asks listeners of all security protocols, without a user and a certificate."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from oncelog.testing.ports import free_ports
from tests.security.secured_broker import LISTENERS, SecuredOncelog

PROGRAM = Path(sys.executable).with_name("oncelog")
LIMIT_S = 0.040


def health(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), "health", *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_broker_responds_on_a_listener_of_each_protocol(
    secured: SecuredOncelog, listener: str
) -> None:
    """The listener MUTUAL counts as well: it ends the handshake, because the client has no
    certificate."""
    address = secured.address_of(listener)
    done = health("--bootstrap-server", f"{LISTENERS[listener]}://{address}")
    assert (done.returncode, done.stdout) == (0, f"a broker responds at {address}\n"), done.stderr


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL", "SASL_SSL"])
def test_the_check_finds_out_whether_a_listener_has_tls(
    secured: SecuredOncelog, listener: str
) -> None:
    done = health("--bootstrap-server", secured.address_of(listener))
    assert done.returncode == 0, done.stderr


def test_the_listeners_are_those_of_the_brokers_variables(secured: SecuredOncelog) -> None:
    variables = {
        "KAFKA_LISTENERS": f"CONTROLLER://:1,OUT://0.0.0.0:{secured.ports['SASL_SSL']}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT, OUT:SASL_SSL",
    }
    done = health(**variables)
    assert done.stdout == f"a broker responds at localhost:{secured.ports['SASL_SSL']}\n"


def test_the_listeners_are_those_of_the_settings_file(
    secured: SecuredOncelog, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    port = secured.ports["SSL"]
    file.write_text(
        f"# listeners=PLAINTEXT://:1\nlisteners = IN://127.0.0.1:{port}\n"
        "listener.security.protocol.map=IN:SSL\n"
    )
    assert health("--config", str(file)).returncode == 0
    own = {"ONCELOG_LISTENERS": "IN://127.0.0.1:1"}
    assert health("--config", str(file), **own).returncode == 1


def test_a_listener_without_a_broker_fails(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    done = health("--bootstrap-server", f"127.0.0.1:{port}")
    assert (done.returncode, done.stderr) == (1, f"127.0.0.1:{port}: Connection refused\n")


def test_a_stopped_broker_fails_in_time(secured: SecuredOncelog) -> None:
    os.kill(secured.pid, signal.SIGSTOP)
    try:
        for listener in ("PLAINTEXT", "SASL_SSL"):
            address = f"{LISTENERS[listener]}://{secured.address_of(listener)}"
            done = health("--bootstrap-server", address, "--give-up-after", "0.3")
            assert (done.returncode, "no response in time" in done.stderr) == (1, True)
    finally:
        os.kill(secured.pid, signal.SIGCONT)


@pytest.mark.parametrize("response", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x0a", b""])
def test_another_service_on_the_port_fails(response: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(response)

        threading.Thread(target=serve, daemon=True).start()
        done = health("--bootstrap-server", f"PLAINTEXT://127.0.0.1:{server.getsockname()[1]}")
    assert done.returncode == 1
    assert "closed" in done.stderr or "not the response of a broker" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--bootstrap-server", "localhost"], "'localhost' is not host:port"),
        (["--bootstrap-server", "TLS://localhost:1"], "is not host:port or PROTOCOL://host:port"),
        (["--config", "/does/not/exist"], "No such file or directory"),
        (["--unknown"], "--unknown"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(arguments: list[str], reason: str) -> None:
    done = health(*arguments)
    assert done.returncode == 2
    assert reason in done.stderr


def test_the_help_names_the_options() -> None:
    done = health("--help")
    assert done.returncode == 0
    assert "--bootstrap-server" in done.stdout


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_SSL"])
def test_a_check_takes_little_of_the_processor(secured: SecuredOncelog, listener: str) -> None:
    """The least of several runs, because other processes of this computer slow a run down."""
    address = f"{LISTENERS[listener]}://{secured.address_of(listener)}"
    taken = []
    for _ in range(12):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert health("--bootstrap-server", address).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < LIMIT_S, taken
