"""A failed TLS handshake has its cause in the error, and only a failure of identity is final."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog_client import Admin
from oncelog_client.connect_failures import ConnectCause
from oncelog_client.core.client_config import admin_config
from oncelog_client.errors import AuthenticationError, ConfigError, ConnectError, KafkaError
from oncelog_client.io.connection import Connection
from oncelog_protocol.tls.contexts import server_context
from tests.harness.certificates import Certificates

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def unknowns(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of another authority."""
    return Certificates(tmp_path_factory.mktemp("unknowns"))


@asynccontextmanager
async def _peer(answer: Peer) -> AsyncIterator[int]:
    """Yield the port of a server without TLS."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextmanager
def _tls_peer(context: ssl.SSLContext) -> Iterator[int]:
    """Yield the port of a silent server with TLS. It has a thread and blocking sockets, because the
    event loops do not send the alert of a failed handshake."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                with accepted, suppress(OSError), context.wrap_socket(accepted, True) as peer:
                    peer.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


async def _closing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"\0\0\0\x08\0\0\0\0\0\x23\0\0")
    await writer.drain()


def _trusting(certificates: Certificates, **settings: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": certificates.authority_pem,
        **settings,
    }


async def _failure(port: int, settings: dict[str, Any], host: str = "127.0.0.1") -> KafkaError:
    config: Any = settings
    with pytest.raises(KafkaError) as caught:
        await Connection.open((host, port), admin_config(f"{host}:{port}", config))
    return caught.value


async def test_an_untrusted_certificate_is_final(
    certificates: Certificates, unknowns: Certificates
) -> None:
    with _tls_peer(server_context(certificates.server_settings())) as port:
        error = await _failure(port, _trusting(unknowns))
        assert isinstance(error, AuthenticationError)
        assert [failure.cause for failure in error.failures] == [ConnectCause.UNTRUSTED]
        assert "has a certificate that this client does not trust (unable to get" in str(error)
        # Without fail_fast, a start waits for a broker, but such an error ends the start at once.
        async with asyncio.timeout(10):
            with pytest.raises(AuthenticationError):
                await Admin(f"127.0.0.1:{port}", **_trusting(unknowns)).start()


async def test_a_certificate_for_another_host_is_final_unless_hosts_are_not_checked(
    certificates: Certificates,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity = certificates.identity("elsewhere.test", name="elsewhere")
    context.load_cert_chain(identity.pem_path)
    with _tls_peer(context) as port:
        for host in ("127.0.0.1", "localhost"):
            error = await _failure(port, _trusting(certificates), host)
            assert isinstance(error, AuthenticationError)
            assert [failure.cause for failure in error.failures] == [ConnectCause.WRONG_HOST]
            assert host in str(error)
        any_host = _trusting(certificates, ssl_endpoint_identification_algorithm="")
        error = await _failure(port, any_host)
        assert isinstance(error, ConnectError)
        assert [failure.cause for failure in error.failures] == [ConnectCause.CLOSED]


async def test_a_refused_client_certificate_is_final(
    certificates: Certificates, unknowns: Certificates
) -> None:
    """With TLS 1.2 the handshake itself fails. `tests/client/test_secured_kafka.py` has TLS 1.3,
    where the refusal follows the handshake."""
    unknown = unknowns.client("mallory")
    own = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": unknown.key,
        "ssl_keystore_certificate_chain": unknown.chain,
    }
    settings = _trusting(certificates, ssl_enabled_protocols="TLSv1.2")
    context = server_context(certificates.server_settings("required"))
    with _tls_peer(context) as port:
        error = await _failure(port, settings | own)
    assert isinstance(error, AuthenticationError), repr(error)
    assert [failure.cause for failure in error.failures] == [ConnectCause.CERTIFICATE_REFUSED]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [(_plain, ConnectCause.PLAINTEXT), (_closing, ConnectCause.CLOSED)],
)
async def test_a_listener_without_tls_is_recognized(
    certificates: Certificates, answer: Peer, cause: ConnectCause
) -> None:
    async with _peer(answer) as port:
        error = await _failure(port, _trusting(certificates))
    assert isinstance(error, ConnectError)
    assert [failure.cause for failure in error.failures] == [cause]
    if cause is ConnectCause.CLOSED:
        assert "during the TLS handshake; is it a listener with security.protocol PLAINTEXT" in str(
            error
        )


async def test_two_sides_without_a_common_version_are_recognized(
    certificates: Certificates,
) -> None:
    context = server_context(certificates.server_settings())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with _tls_peer(context) as port:
        error = await _failure(port, _trusting(certificates, ssl_enabled_protocols="TLSv1.3"))
    assert isinstance(error, ConnectError)
    assert [failure.cause for failure in error.failures] == [ConnectCause.TLS_FAILED]


async def test_a_missing_file_is_named_with_its_setting(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.pem"
    settings = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(missing)}
    admin = Admin("127.0.0.1:1", security_protocol="SSL", **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"ssl_truststore_location: {missing} cannot be read"):
        await admin.start()
