"""A transactional copy loop over re-authentications, new certificates and a new password: every
record is copied once, and every connection stays open (KIP-368)."""

from __future__ import annotations

import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.testing.wire import Closed
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.plain_client import PlainClient
from tests.harness.certificates import Certificates
from tests.harness.waiting import wait_until
from tests.security.conftest import add_scram_user
from tests.security.logins import Login
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog
from tests.security.secured_wire import SecuredWire, context_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

LISTENER: Final = "SASL_SSL"
LIFETIME_MS: Final = 3_000
RELOADS: Final = 20
NEW_PASSWORD: Final = "canary-of-the-rotation"
INPUT, OUTPUT, GROUP = "input", "output", "copiers"
RECORDS_PER_TRANSACTION: Final = 20
# Every tenth transaction is aborted, and its records are copied by the next one.
ABORTED: Final = 10
CALL_S: Final = 20.0
# The states of a TCP socket in /proc/net/tcp.
ESTABLISHED: Final = "01"


class CopyLoop:
    """Feeds the input and copies it, each in a thread. `fed` is the number of acknowledged
    records."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.fed = self.commits = 0
        self.failures: list[str] = []
        self._may_feed = self._may_copy = True
        self._feeder = Producer({**settings, "enable.idempotence": True, "linger.ms": 2})
        self._producer = Producer({**settings, "transactional.id": "copier", "linger.ms": 1})
        self._consumer = Consumer(
            {
                **settings,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._threads = [
            threading.Thread(target=self._run, args=(step,), daemon=True)
            for step in (self._feed, self._copy)
        ]
        for thread in self._threads:
            thread.start()

    def change_password(self, password: str) -> None:
        for client in (self._feeder, self._producer, self._consumer):
            client.set_sasl_credentials(USER, password)

    def has_committed(self, before: int) -> Callable[[], bool]:
        """Return a condition: the loop has committed more transactions than `before`, or failed."""
        return lambda: self.commits > before or bool(self.failures)

    def finish(self, committed: Callable[[], int]) -> None:
        """Stop to feed, copy the rest, and close. `committed` returns the offset of the group."""
        self._may_feed = False
        self._threads[0].join()
        wait_until(lambda: self.failures or committed() == self.fed, "all records are copied")
        self._may_copy = False
        self._threads[1].join()
        self._consumer.close()

    def _run(self, steps: Callable[[], None]) -> None:
        try:
            steps()
        except Exception as error:
            self.failures.append(repr(error))

    def _feed(self) -> None:
        number = 0
        while self._may_feed:
            self._feeder.produce(INPUT, f"{number:06}", on_delivery=self._delivered)
            self._feeder.poll(0.005)
            number += 1
        if self._feeder.flush(CALL_S):
            self.failures.append("records without a response")

    def _delivered(self, error: Any, _: Any) -> None:
        if error is None:
            self.fed += 1
        else:
            self.failures.append(str(error))

    def _copy(self) -> None:
        self._producer.init_transactions(CALL_S)
        self._consumer.subscribe([INPUT])
        transactions = 0
        while self._may_copy:
            polled = self._consumer.consume(RECORDS_PER_TRANSACTION, 0.1)
            self.failures += [str(record.error()) for record in polled if record.error()]
            records = [record for record in polled if record.error() is None]
            if not records:
                continue
            for aborts in (True, False) if transactions % ABORTED == 0 else (False,):
                self._transfer(records, aborts=aborts)
            transactions += 1

    def _transfer(self, records: list[Any], *, aborts: bool) -> None:
        self._producer.begin_transaction()
        for record in records:
            self._producer.produce(OUTPUT, record.value())
        if aborts:
            self._producer.flush(CALL_S)
            self._producer.abort_transaction(CALL_S)
            return
        places = self._consumer.position(self._consumer.assignment())
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(places, group, CALL_S)
        self._producer.commit_transaction(CALL_S)
        self.commits += 1


@pytest.fixture
def broker(tmp_path: Path, certificates: Certificates) -> Iterator[SecuredOncelog]:
    """A broker with its certificate in a file that the test may replace."""
    store = tmp_path / "broker.pem"
    store.write_text(certificates.server.pem)
    settings = {
        "ssl.keystore.location": str(store),
        "connections.max.reauth.ms": str(LIFETIME_MS),
    }
    with SecuredOncelog(tmp_path, certificates, settings) as broker:
        add_scram_user(broker.address_of("PLAINTEXT"), USER, PASSWORD)
        yield broker


def peers(port: int) -> set[str]:
    """Return the clients with an open connection to a port of this computer."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {row[2] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == ESTABLISHED}


def lifetimes(count: int) -> Callable[[], bool]:
    """Return a condition that is true when this number of sessions in a row have expired."""
    end = time.monotonic() + count * LIFETIME_MS / 1000
    return lambda: time.monotonic() > end


def test_a_copy_loop_over_sessions_certificates_and_a_password(
    broker: SecuredOncelog, certificates: Certificates, tmp_path: Path
) -> None:
    """Sessions end every three seconds. The broker gets 20 certificates, and the user another
    password. No connection is closed, and each record is copied once."""
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
    settings = {**login.librdkafka, "bootstrap.servers": broker.address_of(LISTENER)}
    loop = CopyLoop(settings)
    wait_until(loop.has_committed(10), "the copy loop works")
    connected = peers(broker.ports[LISTENER])
    for number in range(1, RELOADS + 1):
        reload_certificate(broker, certificates, number)
        wait_until(loop.has_committed(loop.commits), "a commit after the reload")
    stays_connected(broker, connected)
    add_scram_user(broker.address_of("PLAINTEXT"), USER, NEW_PASSWORD)
    loop.change_password(NEW_PASSWORD)
    # A client may authenticate between these two changes, with the old password.
    wait_until(lifetimes(1), "all sessions are renewed")
    connected_anew = peers(broker.ports[LISTENER])
    assert connected <= connected_anew or "wrong password" in broker.log.read_text()
    stays_connected(broker, connected_anew)
    loop.finish(lambda: committed(broker))
    assert loop.failures == []
    assert copied(broker) == [f"{number:06}" for number in range(loop.fed)]


def stays_connected(broker: SecuredOncelog, connected: set[str]) -> None:
    """Check that the broker closes none of these connections while the sessions expire twice. A
    client on a busy computer may authenticate too late."""
    wait_until(lifetimes(2), "the sessions have expired twice")
    closed = connected - peers(broker.ports[LISTENER])
    assert not closed or "the session has expired" in broker.log.read_text(), closed


def reload_certificate(broker: SecuredOncelog, certificates: Certificates, count: int) -> None:
    """Give the broker another certificate of the same names. `count` certificates have been
    reloaded then by each listener with TLS."""
    identity = certificates.identity("localhost", "127.0.0.1", "::1", name=f"server-{count}")
    new = broker.directory / "new.pem"
    new.write_text(identity.pem)
    new.rename(broker.directory / "broker.pem")
    os.kill(broker.pid, signal.SIGHUP)
    tls_listeners = 3
    wait_until(
        lambda: broker.log.read_text().count("certificates reloaded") >= count * tls_listeners,
        f"certificate {count} is loaded",
    )
    with SecuredWire(broker.address_of("SSL"), context_of(certificates)) as wire:
        assert isinstance(wire.socket, ssl.SSLSocket)
        assert wire.socket.getpeercert(binary_form=True) == identity.der


def committed(broker: SecuredOncelog) -> int:
    """Return the committed offset of the copiers. A call of the copier's own consumer would wait
    for ever, because the consumer polls in another thread."""
    reader = Consumer(
        {"bootstrap.servers": broker.address_of("PLAINTEXT"), "group.id": GROUP, "log_level": 0}
    )
    try:
        (place,) = reader.committed([TopicPartition(INPUT, 0)], CALL_S)
    finally:
        reader.close()
    return int(place.offset)


def copied(broker: SecuredOncelog) -> list[str]:
    """Return the committed records of the output, in their order."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.address_of("PLAINTEXT"),
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reader.subscribe([OUTPUT])
    values: list[str] = []
    while (record := reader.poll(CALL_S)) is not None and record.error() is None:
        values.append(record.value().decode())
    reader.close()
    return values


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


def test_h66_a_storm_of_reauthentications_is_refused(
    broker: SecuredOncelog, certificates: Certificates
) -> None:
    """A second one within a second gets ILLEGAL_SASL_STATE (Kafka's limit), and the session
    continues."""
    with SecuredWire(broker.address_of(LISTENER), context_of(certificates)) as wire:
        for _ in range(2):
            wire.authenticate(PlainClient(USER, Secret(PASSWORD)))
        refused = [wire.call(SaslHandshakeRequest("PLAIN"), 1).error_code for _ in range(3)]
        assert refused == [ErrorCode.ILLEGAL_SASL_STATE] * 3
        assert wire.call(ApiVersionsRequest("storm", "1"), 3).api_keys
