"""A transactional copy loop over re-authentications, new certificates and a new password: every
record is copied once, and every connection stays open (KIP-368)."""

from __future__ import annotations

import os
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.testing.wire import Closed
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_server.metrics import table as metrics
from tests.harness.certificates import Certificates
from tests.harness.scraping import PORT, scrape
from tests.harness.waiting import wait_until
from tests.security.conftest import add_scram_user
from tests.security.copy_loop import CALL_S, INPUT, OUTPUT, CopyLoop, committed, copied
from tests.security.logins import Login
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog
from tests.security.secured_wire import SecuredWire, context_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

LISTENER: Final = "SASL_SSL"
LIFETIME_MS: Final = 3_000
RELOADS: Final = 100
TLS_LISTENERS: Final = 3
NEW_PASSWORD: Final = "canary-of-the-rotation"
# The states of a TCP socket in /proc/net/tcp.
ESTABLISHED: Final = "01"


class Attentive(SecuredOncelog):
    """A broker that looks for changed certificates several times a second."""

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        return [python, "-m", "tests.security.frequent_looks", *rest]


class Drops(NamedTuple):
    """The numbers of connections that the broker had to end. `expired`: the client did not
    authenticate again in time, which happens on a busy computer. `refused`: the authentication
    failed, or the client closed the connection instead."""

    expired: int
    refused: int


@pytest.fixture
def broker(tmp_path: Path, certificates: Certificates) -> Iterator[SecuredOncelog]:
    """A broker with its certificate in a file that the test may replace."""
    store = tmp_path / "broker.pem"
    store.write_text(certificates.server.pem)
    settings = {
        **PORT,
        "ssl.keystore.location": str(store),
        "connections.max.reauth.ms": str(LIFETIME_MS),
    }
    with Attentive(tmp_path, certificates, settings, ["--allow-faults"]) as broker:
        add_scram_user(broker.address_of("PLAINTEXT"), USER, PASSWORD)
        yield broker


def peers(port: int) -> set[str]:
    """Return the clients with an open connection to a port of this computer."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {row[2] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == ESTABLISHED}


def drops(broker: SecuredOncelog) -> Drops:
    page = scrape(broker)
    names = (metrics.EXPIRED_SESSIONS.name, metrics.FAILED_AUTHENTICATIONS.name)
    return Drops(*(int(page.value(name, listener=LISTENER)) for name in names))


def lifetimes(count: int) -> Callable[[], bool]:
    """Return a condition that is true when this number of sessions in a row have expired."""
    end = time.monotonic() + count * LIFETIME_MS / 1000
    return lambda: time.monotonic() > end


def test_a_copy_loop_over_sessions_certificates_and_a_password(
    broker: SecuredOncelog, certificates: Certificates, tmp_path: Path
) -> None:
    """Sessions end every three seconds. The broker gets new certificates, alternately with a signal
    and without, and the user gets another password. No connection is closed without need, and each
    record is copied once."""
    admin = AdminClient({"bootstrap.servers": broker.address_of("PLAINTEXT")})
    for created in admin.create_topics([NewTopic(INPUT, 1), NewTopic(OUTPUT, 1)]).values():
        created.result(CALL_S)
    login = Login(
        LISTENER,
        tmp_path,
        authority=certificates.authority_path,
        mechanism="SCRAM-SHA-256",
        user=USER,
        secret=PASSWORD,
    )
    loop = CopyLoop({**login.librdkafka, "bootstrap.servers": broker.address_of(LISTENER)})
    wait_until(loop.has_committed(10), "the copy loop works")
    connected = peers(broker.ports[LISTENER])
    for number in range(1, RELOADS + 1):
        reload_certificate(broker, certificates, number)
        wait_until(loop.has_committed(loop.commits), "a commit after the reload")
    wait_until(lifetimes(2), "the sessions have expired twice")
    reloaded = stays_connected(broker, connected)
    assert "wrong password" not in broker.log.read_text()
    rotate_password(broker, loop)
    wait_until(lifetimes(1), "all sessions are renewed")
    if "wrong password" in broker.log.read_text():
        # A client authenticated between the two changes of the password. librdkafka then closes
        # connections itself.
        connected = peers(broker.ports[LISTENER])
    wait_until(lifetimes(2), "the renewed sessions have expired twice")
    rotated = stays_connected(broker, connected)
    loop.finish(lambda: committed(broker))
    assert loop.failures == []
    assert copied(broker) == [f"{number:06}" for number in range(loop.fed)]
    # pytest -rP shows this line.
    said = f"{RELOADS} certificates, {loop.fed} records; closed by then {reloaded}, later {rotated}"
    print(said)  # noqa: T201


def stays_connected(broker: SecuredOncelog, connected: set[str]) -> Drops:
    """Check that the broker has closed no more of these connections than it had to. Most clients
    are in time, however busy the computer is."""
    closed = connected - peers(broker.ports[LISTENER])
    needed = drops(broker)
    assert len(closed) <= min(sum(needed), len(connected) // 2), (closed, needed, broker.said())
    return needed


def rotate_password(broker: SecuredOncelog, loop: CopyLoop) -> None:
    """Give the clients, then the broker, another password. A session continues until its client
    authenticates again. The two changes follow each other at once, because between them the broker
    has to refuse such a client."""
    address = broker.address_of("PLAINTEXT")
    with ThreadPoolExecutor() as pool, broker.faults.hold("AlterUserScramCredentials") as held:
        changed = pool.submit(add_scram_user, address, USER, NEW_PASSWORD)
        held.wait()
        loop.change_password(NEW_PASSWORD)
        held.release()
        changed.result(CALL_S)


def reload_certificate(broker: SecuredOncelog, certificates: Certificates, number: int) -> None:
    """Give the broker another certificate of the same names. Every second one comes with SIGHUP."""
    identity = certificates.identity("localhost", "127.0.0.1", "::1", name=f"server-{number}")
    new = broker.directory / "new.pem"
    new.write_text(identity.pem)
    new.rename(broker.directory / "broker.pem")
    if number % 2:
        os.kill(broker.pid, signal.SIGHUP)
    wait_until(
        lambda: broker.log.read_text().count("certificates reloaded") >= number * TLS_LISTENERS,
        f"certificate {number} is loaded",
    )
    wait_until(lambda: served(broker, certificates) == identity.der, f"certificate {number}")


def served(broker: SecuredOncelog, certificates: Certificates) -> bytes | None:
    """Return the certificate that the broker shows to a new client."""
    with SecuredWire(broker.address_of("SSL"), context_of(certificates)) as wire:
        assert isinstance(wire.socket, ssl.SSLSocket)
        return wire.socket.getpeercert(binary_form=True)


def test_a_client_that_does_not_authenticate_again_is_closed(
    broker: SecuredOncelog, certificates: Certificates
) -> None:
    """Its next request after the lifetime of the session gets no response. Without the lifetime,
    the copy loop would prove nothing."""
    with SecuredWire(broker.address_of(LISTENER), context_of(certificates)) as wire:
        assert wire.authenticate(PlainClient(USER, Secret(PASSWORD))) == LIFETIME_MS
        assert wire.call(ApiVersionsRequest("idle", "1"), 3).api_keys
        wait_until(lifetimes(1), "the session has expired")
        with pytest.raises((Closed, ConnectionError)):
            wire.call(ApiVersionsRequest("idle", "1"), 3)
    wait_until(lambda: "the session has expired" in broker.log.read_text(), "the reason is logged")
    assert drops(broker) == Drops(expired=1, refused=0)


def test_h66_a_storm_of_reauthentications_is_refused(
    broker: SecuredOncelog, certificates: Certificates
) -> None:
    """A second re-authentication within a second gets ILLEGAL_SASL_STATE (Kafka's limit), and the
    session continues."""
    with SecuredWire(broker.address_of(LISTENER), context_of(certificates)) as wire:
        for _ in range(2):
            wire.authenticate(PlainClient(USER, Secret(PASSWORD)))
        refused = [wire.call(SaslHandshakeRequest("PLAIN"), 1).error_code for _ in range(3)]
        assert refused == [ErrorCode.ILLEGAL_SASL_STATE] * 3
        assert wire.call(ApiVersionsRequest("storm", "1"), 3).api_keys
