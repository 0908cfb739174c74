"""Clients that never authenticate take little memory and no time of other clients, and the broker
closes them (scenarios H5, H6, H7, H66)."""

from __future__ import annotations

import json
import resource
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.plain_client import PlainClient
from tests.faults.holding import cpu_limit_ms, held_ms
from tests.harness.certificates import Certificates
from tests.harness.driving import Taken, taken
from tests.harness.waiting import wait_until
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog
from tests.security.secured_wire import SecuredWire, context_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

# The listeners that demand something of a client before its first request.
DEMANDING: Final = ("SSL", "MUTUAL", "SASL_PLAINTEXT", "SASL_SSL")
EACH: Final = 250
CROWD: Final = EACH * len(DEMANDING)
RSS_GROWTH: Final = 64 << 20
STALL_MS: Final = 50.0
# Longer than the deadline of an authentication (10 s). The broker then logs an event of the same
# client again.
REPEAT_MS: Final = 60_000
TOO_LATE: Final = "the client did not authenticate in time"
MOST_BYTES: Final = 65_536
# Bytes that each client sends, one at a time.
TRICKLED: Final = 30
# The handshakes of three seconds at 200 a second.
HANDSHAKES: Final = 600
# The largest ClientHello for which OpenSSL makes room.
LARGEST_HELLO: Final = 131_396


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecuredOncelog]:
    """A broker. It and this process may open enough descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD + 1_000
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"only {hard} descriptors"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    # If the listen backlog is full, the kernel delays a new connection by a second.
    settings = {"socket.listen.backlog.size": "4096"}
    folder = tmp_path_factory.mktemp("crowd")
    with SecuredOncelog(folder, certificates, settings, ["--allow-faults"]) as broker:
        yield broker
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def bystander(broker: SecuredOncelog) -> Iterator[Wire]:
    """A client that works."""
    with Wire(broker.address_of("PLAINTEXT")) as wire:
        wire.call(ApiVersionsRequest("bystander", "1"), 3)
        yield wire


@pytest.fixture
def before(broker: SecuredOncelog, bystander: Wire, certificates: Certificates) -> Taken:
    """The resources of the broker while only `bystander` is connected, after other clients."""
    idle = taken(broker.pid).descriptors
    shake_hands(broker, certificates)
    wait_until(lambda: taken(broker.pid).descriptors <= idle, "the clients are disconnected")
    return taken(broker.pid)


@pytest.fixture
def crowd(broker: SecuredOncelog, before: Taken) -> Iterator[dict[str, list[socket.socket]]]:
    """Accepted connections of clients that have sent nothing, for each listener."""
    with ExitStack() as stack:
        opened: dict[str, list[socket.socket]] = {}
        for listener in DEMANDING:
            address = broker.host, broker.ports[listener]
            opened[listener] = [
                stack.enter_context(socket.create_connection(address, 20)) for _ in range(EACH)
            ]
        wait_until(
            lambda: taken(broker.pid).descriptors == before.descriptors + CROWD,
            "all connections are accepted",
        )
        yield opened


def shake_hands(broker: SecuredOncelog, certificates: Certificates) -> None:
    with SecuredWire(broker.address_of("SASL_SSL"), context_of(certificates)) as wire:
        wire.authenticate(PlainClient(USER, Secret(PASSWORD)))


def events(broker: SecuredOncelog, reason: str) -> list[dict[str, Any]]:
    lines = broker.log.read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [event for event in found if event.get("reason") == reason]


def held_in_time(broker: SecuredOncelog, bystander: Wire) -> None:
    """Check that the loop serves a working client at once."""
    limit_ms = cpu_limit_ms(STALL_MS)
    assert max(held_ms(broker, bystander) for _ in range(20)) < limit_ms


def closed_in_time(broker: SecuredOncelog, bystander: Wire, before: Taken) -> None:
    """Advance the clock to the deadline. The broker closes the crowd, and logs an event for each
    listener."""
    logged = len(events(broker, TOO_LATE))
    broker.faults.ask("advance", ms=REPEAT_MS)
    wait_until(
        lambda: taken(broker.pid).descriptors <= before.descriptors, "the crowd is disconnected"
    )
    held_in_time(broker, bystander)
    late = events(broker, TOO_LATE)[logged:]
    assert sorted(event["listener"] for event in late) == sorted(DEMANDING)


def test_h7_silent_clients_are_closed(
    broker: SecuredOncelog,
    bystander: Wire,
    before: Taken,
    crowd: dict[str, list[socket.socket]],
) -> None:
    held_in_time(broker, bystander)
    assert taken(broker.pid).rss_bytes - before.rss_bytes < RSS_GROWTH
    closed_in_time(broker, bystander, before)


def beginning_of_a_hello(certificates: Certificates) -> bytes:
    """Return a ClientHello of OpenSSL."""
    outgoing = ssl.MemoryBIO()
    tls = context_of(certificates).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_h6_h7_trickling_clients_are_closed(
    broker: SecuredOncelog,
    bystander: Wire,
    before: Taken,
    crowd: dict[str, list[socket.socket]],
    certificates: Certificates,
) -> None:
    """The clients send the first bytes of a ClientHello, or of a frame, one at a time."""
    tls = beginning_of_a_hello(certificates)
    frame = struct.pack(">ihhi", MOST_BYTES, 17, 1, 1) + bytes(TRICKLED)
    for position in range(TRICKLED):
        for listener, clients in crowd.items():
            sent = (frame if listener == "SASL_PLAINTEXT" else tls)[position : position + 1]
            for client in clients:
                client.send(sent)
        if position % 10 == 0:
            held_in_time(broker, bystander)
    held_in_time(broker, bystander)
    assert taken(broker.pid).rss_bytes - before.rss_bytes < RSS_GROWTH
    closed_in_time(broker, bystander, before)


def test_h7_a_client_hello_that_claims_to_be_large_takes_no_memory(
    broker: SecuredOncelog,
    bystander: Wire,
    before: Taken,
    crowd: dict[str, list[socket.socket]],
) -> None:
    """The clients send the first record of a ClientHello that claims to be as large as OpenSSL
    allows. OpenSSL would make room for all of it, 128 KiB for each client."""
    part = b"\x01" + LARGEST_HELLO.to_bytes(3, "big") + bytes(TRICKLED)
    record = b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part
    clients = [client for listener in ("SSL", "MUTUAL", "SASL_SSL") for client in crowd[listener]]
    for client in clients:
        client.send(record)
    held_in_time(broker, bystander)
    wait_until(
        lambda: taken(broker.pid).descriptors <= before.descriptors + EACH,
        "the clients are disconnected at once",
    )
    assert taken(broker.pid).rss_bytes - before.rss_bytes < RSS_GROWTH


def test_h7_a_flood_of_handshakes_stalls_no_client(
    broker: SecuredOncelog, bystander: Wire, before: Taken, certificates: Certificates
) -> None:
    """Clients connect and shake hands without a pause. Every other one ends before the last
    step."""
    context, hello = context_of(certificates), beginning_of_a_hello(certificates)
    limit_ms = cpu_limit_ms(STALL_MS)
    slowest_ms = 0.0
    for number in range(HANDSHAKES):
        if number % 2:
            shaken = SecuredWire(broker.address_of("SSL"), context)
        else:
            shaken = SecuredWire(broker.address_of("SSL"))
            shaken.socket.sendall(hello)
        slowest_ms = max(slowest_ms, held_ms(broker, bystander))
        shaken.socket.close()
    assert slowest_ms < limit_ms
    assert taken(broker.pid).rss_bytes - before.rss_bytes < RSS_GROWTH
    wait_until(
        lambda: taken(broker.pid).descriptors <= before.descriptors, "the descriptors are free"
    )


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_h5_a_large_frame_is_refused_before_authentication(
    listener: str, broker: SecuredOncelog, certificates: Certificates
) -> None:
    """A frame of more than 64 KiB closes the connection at its first bytes. An authenticated client
    may send it."""
    context = context_of(certificates) if listener.endswith("SSL") else None
    address = broker.address_of(listener)
    names = [MetadataRequestTopic(name="x" * 100) for _ in range(MOST_BYTES // 100)]
    large = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    reason = f"a frame of {MOST_BYTES + 1} bytes; the limit is {MOST_BYTES}"
    logged = len(events(broker, reason))
    broker.faults.ask("advance", ms=REPEAT_MS)
    with SecuredWire(address, context) as wire:
        wire.socket.sendall(struct.pack(">i", MOST_BYTES + 1))
        assert wire.is_closed()
    (event,) = events(broker, reason)[logged:]
    assert event["listener"] == listener
    with SecuredWire(address, context) as wire:
        wire.authenticate(PlainClient(USER, Secret(PASSWORD)))
        assert wire.call(large, 9).topics


@pytest.mark.parametrize("nonce_bytes", [2_000, 60_000])
def test_h66_a_long_nonce_is_refused(nonce_bytes: int, broker: SecuredOncelog) -> None:
    first = b"n,,n=alice,r=" + b"x" * nonce_bytes
    with Wire(broker.address_of("SASL_PLAINTEXT")) as wire:
        wire.call(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
        response = wire.call(SaslAuthenticateRequest(first), 2)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert wire.is_closed()
