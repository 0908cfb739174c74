"""Without a broker, a command ends soon, with one line: the address, the cause and what to do."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oncelog.testing.ports import free_ports
from oncelog_client.cli import COMMANDS, oncelog
from oncelog_client.cli.options import GIVE_UP_AFTER_S, parse_servers
from tests.harness.watch import Watch

CALLS = {
    "topics": ("topics", "--list"),
    "produce": ("produce", "--topic", "t"),
    "consume": ("consume", "--topic", "t"),
    "groups": ("groups", "--list"),
    "transactions": ("transactions", "list"),
    "config": ("config", "--describe", "--topic", "t"),
}
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.2\r\n"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(oncelog, arguments)


def served(server: socket.socket, talk: Callable[[socket.socket], None]) -> str:
    """Handle each connection in its own thread until `server` is closed. Return the address."""

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    host, port = server.getsockname()
    return f"{host}:{port}"


def saying(answer: bytes, *, at_once: bool) -> Callable[[socket.socket], None]:
    """Return a peer for a connection. It sends `answer` and closes the connection, either `at_once`
    or after it has received a line."""

    def talk(connection: socket.socket) -> None:
        with connection:
            if not at_once:
                data = b""
                while b"\n" not in data:
                    more = connection.recv(4096)
                    if not more:
                        return
                    data += more
            connection.sendall(answer)

    return talk


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.pem"
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"),
            *("-keyout", str(path), "-out", str(path) + ".crt", "-days", "2"),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


def over_tls(certificate: Path) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def talk(connection: socket.socket) -> None:
        with closing(connection):
            try:
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)
            except OSError:
                return

    return talk


@pytest.fixture(params=["refused", "no such host", "HTTP", "SSH", "TLS"])
def not_a_broker(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """An address without a broker, and the words that the message must have."""
    kind: str = request.param
    with ExitStack() as stack:
        if kind == "refused":
            address = f"127.0.0.1:{free_ports(1)[0]}"
            yield address, f"{address}: connection refused. Start a broker with `oncelog serve`"
            return
        if kind == "no such host":
            yield "nosuchhost.invalid:9092", "no such host: nosuchhost.invalid"
            return
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        talk = {
            "HTTP": lambda: saying(HTTP, at_once=False),
            "SSH": lambda: saying(SSH, at_once=True),
            "TLS": lambda: over_tls(request.getfixturevalue("certificate")),
        }[kind]()
        address = served(server, talk)
        yield address, f"{address}: responds, but not in Kafka's protocol ({kind})"


def test_the_cause_is_printed_at_once(not_a_broker: tuple[str, str]) -> None:
    address, message = not_a_broker
    # The first call imports modules, so the test does not measure it.
    call("topics", "--list", "--bootstrap-server", f"127.0.0.1:{free_ports(1)[0]}")
    watch = Watch()
    result = call("topics", "--list", "--bootstrap-server", address)
    took_s = watch.passed_s
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert took_s < 1


def test_waiting_for_a_silent_peer_ends_after_the_given_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        began = time.monotonic()
        options = ("--bootstrap-server", f"{host}:{port}", "--give-up-after", "0.8")
        result = call("topics", "--list", *options)
        assert time.monotonic() - began >= 0.8
    assert result.exit_code == 1
    silent = f"{host}:{port}: accepts connections, but does not respond within 0.8 s"
    assert silent in result.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() & CALLS))
def test_every_command_names_a_refused_address(name: str) -> None:
    """The test calls the commands with names of Kafka's tools. Other tests call the other
    commands."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    result = call(*CALLS[name], "--bootstrap-server", address)
    assert result.exit_code == 1
    assert f"{address}: connection refused" in result.stderr


def test_several_addresses_are_each_named_with_their_cause() -> None:
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    servers = f"{first},{second},nosuchhost.invalid:1"
    result = call("topics", "--list", "--bootstrap-server", servers)
    for cause in (f"{first}: connection refused", f"{second}: conn", "nosuchhost.invalid"):
        assert cause in result.stderr


def test_the_default_wait_for_a_broker_is_ten_seconds() -> None:
    """Kafka's clients wait a minute, which is too long for a user at a prompt."""
    said = call("topics", "--help").output
    assert f"[default: {GIVE_UP_AFTER_S:g}]" in " ".join(said.split())
    assert GIVE_UP_AFTER_S == 10


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost", "localhost:9092"),
        ("localhost:19092", "localhost:19092"),
        ("a,b:1", "a:9092,b:1"),
        ("PLAINTEXT://localhost:19092,SSL://[::1]:5", "localhost:19092,[::1]:5"),
        ("[::1]", "[::1]:9092"),
        ("[::1]:5", "[::1]:5"),
        (" a , ", "a:9092"),
    ],
)
def test_an_address_may_lack_its_port(given: str, expected: str) -> None:
    assert parse_servers(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        *("", ",", ":", "a:", ":1", "a:0", "a:-1", "a:65536", "a:b", "a:1:2", "a:99999999999"),
        *(
            "[::1:5",
            "[::1]5",
            "a..b:1",
            "x" * 64 + ":1",
            "a b:1",
            "a\n:1",
            "http//a:1",
            "a:\u0661",
        ),
    ],
)
def test_an_invalid_address_is_wrong_usage(given: str) -> None:
    result = call("topics", "--list", "--bootstrap-server", given)
    assert result.exit_code == 2, result.output
    assert "--bootstrap-server" in result.stderr
