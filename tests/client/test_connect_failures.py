"""A broker that cannot be reached. The client names the address and the cause, and recovers."""

from __future__ import annotations

import asyncio
import logging
import pickle
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing.ports import free_ports
from oncelog_client import Admin, Consumer, KafkaError, Producer
from oncelog_client.connect_failures import ConnectCause, ConnectFailure, foreign_protocol
from oncelog_client.errors import ConnectError, RetriableError
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import ADDRESS, TOPIC, ScriptedBroker, simulated
from tests.harness.client_reading import DEADLINE_S
from tests.harness.logged import logged

SERVER = "broker:9092"


async def _failed_start(address: str, **how: Any) -> RetriableError:
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(RetriableError) as caught:
            await Admin(address).start(**how)
    return caught.value


@asynccontextmanager
async def _peer(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], **how: Any
) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, **how)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def _says(text: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return answer


async def _http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond only after an empty line, like most HTTP servers."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.0 404 Not Found\r\n\r\n")
    await writer.drain()


async def _silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_a_refused_connection_fails_fast_with_the_address_and_the_cause() -> None:
    (port,) = free_ports(1)
    error = await _failed_start(f"127.0.0.1:{port}", fail_fast=True)
    assert isinstance(error, ConnectError)
    assert error.failures == (ConnectFailure(("127.0.0.1", port), ConnectCause.REFUSED),)
    assert f"127.0.0.1:{port}: connection refused" in str(error)


async def test_every_address_is_named_with_its_cause() -> None:
    first, second = free_ports(2)
    error = await _failed_start(
        f"127.0.0.1:{first},[::1]:{second},nosuchhost.invalid:1", fail_fast=True
    )
    assert {failure.address[1]: failure.cause for failure in error.failures} == {
        first: ConnectCause.REFUSED,
        second: ConnectCause.REFUSED,
        1: ConnectCause.NO_SUCH_HOST,
    }
    for text in (f"127.0.0.1:{first}", f"[::1]:{second}", "no such host: nosuchhost.invalid"):
        assert text in str(error)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ConnectCause.HTTP),
        (b"<html><body>400</body></html>", ConnectCause.HTTP),
        (b"SSH-2.0-OpenSSH_9\r\n", ConnectCause.SSH),
        (bytes.fromhex("15030300020246"), ConnectCause.TLS),
        (bytes.fromhex("16030300020246"), ConnectCause.TLS),
        (b"220 mail ESMTP\r\n", ConnectCause.NOT_KAFKA),
        (b"-ERR unknown command\r\n", ConnectCause.NOT_KAFKA),
        (b"\0\0\0\x08\0\0\0\x63abcd", ConnectCause.NOT_KAFKA),
        (b"", ConnectCause.CLOSED),
        (b"\0\0", ConnectCause.CLOSED),
    ],
)
async def test_a_peer_of_another_protocol_is_recognized_by_its_first_bytes(
    text: bytes, cause: ConnectCause
) -> None:
    async with _peer(_says(text)) as address:
        error = await _failed_start(address, fail_fast=True)
    assert [failure.cause for failure in error.failures] == [cause]


async def test_an_http_server_that_waits_for_an_empty_line_is_recognized() -> None:
    async with _peer(_http) as address:
        error = await _failed_start(address, fail_fast=True)
    assert [failure.cause for failure in error.failures] == [ConnectCause.HTTP]


@pytest.fixture
def tls_server(tmp_path: Path) -> ssl.SSLContext:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", *curve, "-nodes", "-days", "1", "-subj", "/CN=x", *files],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_a_tls_server_that_closes_without_a_response_is_recognized(
    tls_server: ssl.SSLContext,
) -> None:
    async with _peer(_silent, ssl=tls_server) as address:
        error = await _failed_start(address, fail_fast=True)
    assert [failure.cause for failure in error.failures] == [ConnectCause.TLS]


async def test_the_error_at_the_timeout_names_a_silent_peer() -> None:
    async with _peer(_silent) as address:
        error = await _failed_start(address, fail_fast=True, timeout_ms=800)
    assert [failure.cause for failure in error.failures] == [ConnectCause.SILENT]
    assert f"{address}: accepts connections, but does not respond" in str(error)


def test_a_broker_that_is_starting_is_waited_for_and_each_failed_connect_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = ScriptedBroker()

    async def scenario() -> None:
        admin = Admin("nowhere:1", request_timeout_ms=1_000)
        with pytest.raises(RetriableError) as caught:
            await admin.start()
        assert "nowhere:1: connection refused" in str(caught.value)
        assert caught.value.failures

    with caplog.at_level(logging.WARNING, "oncelog_client"):
        simulated(broker, scenario)
    assert 2 <= len(broker.attempts) <= 20
    lines = [line for line in logged(caplog, "oncelog_client.io.cluster") if "nowhere" in line]
    assert len(lines) == len(broker.attempts)
    assert all("nowhere:1: connection refused" in line for line in lines)


BAD_ADDRESSES = [
    ("broker", -1),
    ("broker", 70_000),
    ("a\0b", 9092),
    ("", 1),
    ("a" * 300, 9092),
    ("x..y", 9092),
]


class _Misplaced:
    """A broker. While `wrong` is True, its metadata has a wrong address and the broker leads no
    partition."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.wrong = False
        self.address = address
        self.broker = ScriptedBroker(self.script)

    def script(self, api: ApiKey, request: Any) -> Any:
        if not self.wrong:
            return None
        if api is ApiKey.METADATA:
            response = self.broker.respond(api, 0, request)
            response.brokers[0].host, response.brokers[0].port = self.address
            return response
        if api in (ApiKey.PRODUCE, ApiKey.FETCH):
            return self.broker.respond(api, 12, request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_a_producer_recovers_from_an_invalid_address_in_the_metadata(
    address: tuple[str, int],
) -> None:
    """In a former version, `send` and `close` raised OverflowError, ValueError or UnicodeError."""
    misplaced = _Misplaced(address)

    async def scenario() -> None:
        producer = Producer(
            SERVER,
            linger_ms=0,
            request_timeout_ms=1_000,
            delivery_timeout_ms=3_000,
            max_block_ms=3_000,
            connections_max_idle_ms=500,
        )
        await producer.start()
        await (await producer.send(TOPIC, b"1"))
        misplaced.wrong = True
        with pytest.raises(RetriableError):
            await (await producer.send(TOPIC, b"2"))
        await asyncio.sleep(2)  # simulated time, longer than connections_max_idle_ms
        misplaced.wrong = False
        await (await producer.send(TOPIC, b"3"))
        await producer.close()

    simulated(misplaced.broker, scenario)


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_a_consumer_recovers_from_an_invalid_address_in_the_metadata(
    address: tuple[str, int],
) -> None:
    misplaced = _Misplaced(address)

    async def scenario() -> None:
        consumer = Consumer(
            SERVER,
            group_id="g",
            auto_offset_reset="earliest",
            request_timeout_ms=1_000,
            default_api_timeout_ms=3_000,
            session_timeout_ms=3_000,
            heartbeat_interval_ms=300,
            connections_max_idle_ms=500,
        )
        await consumer.start()
        await consumer.subscribe([TOPIC])
        await consumer.poll(1_000)
        misplaced.wrong = True
        await consumer.poll(3_000)
        misplaced.wrong = False
        await consumer.poll(3_000)
        before = misplaced.broker.counts[ApiKey.FETCH]
        await consumer.poll(3_000)
        assert misplaced.broker.counts[ApiKey.FETCH] > before
        await consumer.close()

    simulated(misplaced.broker, scenario)


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_invalid_bootstrap_server_beside_a_valid_one_does_no_harm(
    address: tuple[str, int],
) -> None:
    broker = ScriptedBroker()

    async def scenario() -> None:
        admin = Admin([SERVER, "other:1"])
        object.__setattr__(admin.config, "bootstrap_servers", (address, ADDRESS))
        await admin.start()
        await admin.close()

    for seed in range(5):
        broker.attempts.clear()
        simulated(broker, scenario, seed)
        assert ADDRESS in broker.attempts
    assert broker.counts[ApiKey.METADATA] >= 5


def test_errors_are_equal_after_pickling() -> None:
    failure = ConnectFailure(("h", 1), ConnectCause.REFUSED)
    for error in (ConnectError(failure), KafkaError("m", ErrorCode.INVALID_CONFIG)):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
        assert vars(again) == vars(error)


def test_the_size_of_an_api_versions_response_is_not_taken_for_another_protocol() -> None:
    assert foreign_protocol(b"\0\0\x02\x10") is None


def test_unprintable_characters_of_an_address_are_escaped() -> None:
    text = str(ConnectFailure(("a\0\x1b[2Jb", 1), ConnectCause.BAD_ADDRESS))
    assert text.isprintable()
