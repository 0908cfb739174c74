"""The client with TLS and SASL against Apache Kafka: each listener with each mechanism."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

import pytest

from oncelog_client import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog_client.cli.connecting import unreachable
from oncelog_client.connect_failures import ConnectCause
from oncelog_client.errors import AuthenticationError, ConnectError, KafkaError, RetriableError
from oncelog_client.io.connection import Connection
from tests.harness.certificates import PASSWORD as STORE_PASSWORD
from tests.harness.certificates import Certificates
from tests.harness.client_reading import DEADLINE_S, eventually, read
from tests.harness.kafka.secured import (
    MAX_REAUTH_MS,
    MECHANISMS,
    PASSWORD,
    SASL_LISTENERS,
    SecuredKafka,
    jaas,
)

from .conftest import led

ROUTES: Final = [("SSL", None), *((name, m) for name in SASL_LISTENERS for m in MECHANISMS)]
CANARY: Final = "C4nary-wrong-password"


@pytest.fixture(params=ROUTES, ids=lambda route: "-".join(filter(None, route)))
def route(request: pytest.FixtureRequest, secured_kafka: SecuredKafka) -> tuple[str, Any]:
    """The address of a listener, and the settings of its clients."""
    listener, mechanism = request.param
    settings = secured_kafka.client_settings(listener, mechanism)
    return secured_kafka.addresses[listener], settings


async def _topic(address: str, settings: Any, name: str) -> None:
    async with Admin(address, **settings) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
        await eventually(lambda: led(admin, name, 1))


async def test_records_groups_transactions_and_admin_work_on_each_listener(
    route: tuple[str, Any], name: str
) -> None:
    address, settings = route
    await _topic(address, settings, name)
    async with Producer(address, transactional_id=name, **settings) as producer:
        await producer.init_transactions()
        for number in range(3):
            async with producer.transaction():
                await producer.send(name, b"%d" % number)
    async with Consumer(
        address,
        group_id=name,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        **settings,
    ) as consumer:
        await consumer.subscribe([name])
        records = await read(consumer, 3)
        assert [record.value for record in records] == [b"0", b"1", b"2"]
        await consumer.commit()
    async with Admin(address, **settings) as admin:
        offsets = await admin.list_group_offsets(name)
        assert offsets[TopicPartition(name, 0)].offset >= 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_sessions_are_renewed_under_load_and_every_record_is_written_once_in_order(
    secured_kafka: SecuredKafka, mechanism: str, name: str
) -> None:
    """The broker ends a session after 2 s. Three connections work for 2.5 times as long, so each
    renews its session at least twice."""
    settings = secured_kafka.client_settings("SASL_SSL", mechanism)
    address = secured_kafka.addresses["SASL_SSL"]
    await _topic(address, settings, name)
    end = monotonic() + 2.5 * MAX_REAUTH_MS / 1000
    sent = 0
    got: list[bytes | None] = []
    used: set[Connection] = set()
    async with (
        Producer(address, linger_ms=0, **settings) as producer,
        Consumer(address, auto_offset_reset="earliest", **settings) as consumer,
    ):
        await consumer.assign([TopicPartition(name, 0)])
        while monotonic() < end:
            futures = [await producer.send(name, b"%d" % n) for n in range(sent, sent + 50)]
            sent += len(futures)
            placed = [await future for future in futures]
            assert [record.offset for record in placed] == list(range(sent - 50, sent))
            got += [record.value for record in await consumer.poll(0)]
            connections = {*producer._cluster._connections, *consumer._cluster._connections}
            used |= connections
        got += [record.value for record in await read(consumer, sent - len(got))]
        # No connection was replaced. Both connections that carry records are in a session that
        # began late.
        assert used == connections
        late_ms = (end * 1000) - MAX_REAUTH_MS
        busy = [made for made in used if made.last_used_ms > late_ms]
        assert len(busy) >= 2
        assert all(made._renew_at_ms > end * 1000 - 0.2 * MAX_REAUTH_MS for made in busy)
    assert sent > 300
    assert got == [b"%d" % number for number in range(sent)]


def _wrong_password(mechanism: str) -> dict[str, Any]:
    return {"sasl_mechanism": mechanism, "sasl_jaas_config": jaas(mechanism, password=CANARY)}


async def _start_error(address: str, settings: dict[str, Any]) -> KafkaError:
    """Return the error of a start, which must come long before the deadline of a start."""
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(KafkaError) as caught:
            await Producer(address, request_timeout_ms=60_000, **settings).start()
    return caught.value


@pytest.mark.parametrize("listener", SASL_LISTENERS)
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
async def test_a_wrong_password_fails_at_once_and_appears_nowhere(
    secured_kafka: SecuredKafka,
    listener: str,
    mechanism: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = secured_kafka.client_settings(listener, mechanism) | _wrong_password(mechanism)
    with caplog.at_level(logging.DEBUG):
        error = await _start_error(secured_kafka.addresses[listener], settings)
    assert isinstance(error, AuthenticationError)
    assert [failure.cause for failure in error.failures] == [ConnectCause.AUTHENTICATION_FAILED]
    assert "Authentication failed" in str(error)
    shown = "".join(traceback.format_exception(error)) + caplog.text + str(vars(error))
    assert "cannot reach a broker" in caplog.text
    assert CANARY not in shown
    assert PASSWORD not in shown


async def test_a_mechanism_that_the_listener_does_not_have_is_named_with_its_mechanisms(
    secured_kafka: SecuredKafka,
) -> None:
    settings = secured_kafka.client_settings("SASL_PLAINTEXT", "PLAIN")
    error = await _start_error(secured_kafka.address, settings)
    assert isinstance(error, AuthenticationError)
    assert "the listener expects no SaslHandshake now" in str(error)


@pytest.mark.parametrize("has_certificate", [False, True])
async def test_a_client_certificate_that_the_broker_does_not_trust_fails_at_once(
    secured_kafka: SecuredKafka, tmp_path: Any, has_certificate: bool
) -> None:
    """With TLS 1.3 the broker's refusal comes after the handshake."""
    unknown = Certificates(tmp_path).client("mallory")
    settings = secured_kafka.client_settings("SSL")
    for name in [name for name in settings if name.startswith("ssl_keystore")]:
        del settings[name]
    if has_certificate:
        settings["ssl_keystore_type"] = "PEM"
        settings["ssl_keystore_key"] = unknown.key
        settings["ssl_keystore_certificate_chain"] = unknown.chain
    error = await _start_error(secured_kafka.addresses["SSL"], settings)
    assert isinstance(error, AuthenticationError)
    assert [failure.cause for failure in error.failures] == [ConnectCause.CERTIFICATE_REFUSED]


async def test_an_untrusted_broker_fails_at_once(secured_kafka: SecuredKafka) -> None:
    settings = {"security_protocol": "SASL_SSL", **_wrong_password("PLAIN")}
    error = await _start_error(secured_kafka.addresses["SASL_SSL"], settings)
    assert isinstance(error, AuthenticationError)
    assert [failure.cause for failure in error.failures] == [ConnectCause.UNTRUSTED]


@pytest.mark.parametrize(
    ("client", "listener", "text"),
    [
        ("SSL", "PLAINTEXT", "is it a listener with security.protocol PLAINTEXT"),
        ("SASL_SSL", "SASL_PLAINTEXT", "is it a listener with security.protocol PLAINTEXT"),
        ("PLAINTEXT", "SSL", "not in Kafka's protocol (TLS)"),
        ("SASL_PLAINTEXT", "SASL_SSL", "not in Kafka's protocol (TLS)"),
    ],
)
async def test_a_client_of_another_protocol_than_its_listener_gets_the_reason(
    secured_kafka: SecuredKafka, client: str, listener: str, text: str
) -> None:
    mechanism = "PLAIN" if client.startswith("SASL") else None
    settings = secured_kafka.client_settings(client, mechanism)
    address = secured_kafka.addresses.get(listener, secured_kafka.address)
    with pytest.raises(ConnectError) as caught:
        await Admin(address, **settings).start(fail_fast=True)
    assert text in str(caught.value)


async def test_a_plain_client_at_a_listener_with_sasl_gets_a_hint(
    secured_kafka: SecuredKafka,
) -> None:
    with pytest.raises(KafkaError, match="if its listener needs SASL, set security_protocol"):
        await Admin(secured_kafka.addresses["SASL_PLAINTEXT"]).start(
            timeout_ms=3_000, fail_fast=True
        )


@pytest.mark.parametrize(
    ("client", "listener"), [("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")]
)
async def test_a_client_without_sasl_at_a_listener_with_sasl_fails_at_once(
    secured_kafka: SecuredKafka, client: str, listener: str
) -> None:
    """A former defect: at the deadline, the error said that no broker was running."""
    settings = secured_kafka.client_settings(client, None)
    with pytest.raises(RetriableError) as caught:
        await Admin(secured_kafka.addresses[listener], **settings).start(fail_fast=True)
    assert [failure.cause for failure in caught.value.failures] == [ConnectCause.NEEDS_SASL]
    said = unreachable(caught.value, Admin(secured_kafka.addresses[listener]).config, 10)
    assert "its listener probably needs SASL. Set security.protocol to SASL_SSL" in said


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
async def test_stores_of_java_work_as_pem_does(
    secured_kafka: SecuredKafka, name: str, kind: str
) -> None:
    certificates = secured_kafka.certificates
    own = certificates.client("alice")
    settings = {
        "security_protocol": "SSL",
        "ssl_truststore_type": kind,
        "ssl_truststore_location": str(certificates.trust_store(kind)),
        "ssl_truststore_password": STORE_PASSWORD,
        "ssl_keystore_type": kind,
        "ssl_keystore_location": str(own.pkcs12_path if kind == "PKCS12" else own.jks_path),
        "ssl_keystore_password": STORE_PASSWORD,
    }
    await _topic(secured_kafka.addresses["SSL"], settings, name)


async def _forever(call: Callable[[], Awaitable[object]]) -> None:
    while True:
        await call()


@asynccontextmanager
async def _user(broker: SecuredKafka, name: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the settings of a new user of SCRAM."""
    await broker.set_password(CANARY, name)
    settings = broker.client_settings("SASL_SSL", "SCRAM-SHA-256")
    yield settings | {"sasl_jaas_config": jaas("SCRAM-SHA-256", name, CANARY)}


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_a_changed_password_ends_a_producer_at_its_next_authentication(
    secured_kafka: SecuredKafka, name: str, is_transactional: bool
) -> None:
    """Every later record fails with the reason, and none waits for delivery_timeout_ms."""
    address = secured_kafka.addresses["SASL_SSL"]
    async with _user(secured_kafka, name) as settings:
        await _topic(address, settings, name)
        transactional_id = name if is_transactional else None
        producer = Producer(address, transactional_id=transactional_id, **settings)
        await producer.start()
        if is_transactional:
            await producer.init_transactions()
            await producer.begin_transaction()
        await producer.send_and_wait(name, b"before")
        await secured_kafka.set_password("another", name)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(AuthenticationError) as caught:
                await _forever(lambda: producer.send_and_wait(name, b"after"))
            assert CANARY not in "".join(traceback.format_exception(caught.value))
            with pytest.raises(AuthenticationError):
                await producer.send_and_wait(name, b"later")
            await producer.close()


async def test_a_changed_password_ends_a_consumer_at_its_next_authentication(
    secured_kafka: SecuredKafka, name: str
) -> None:
    address = secured_kafka.addresses["SASL_SSL"]
    async with _user(secured_kafka, name) as settings:
        await _topic(address, settings, name)
        consumer = Consumer(address, group_id=name, **settings)
        await consumer.start()
        await consumer.subscribe([name])
        await consumer.poll(200)
        await secured_kafka.set_password("another", name)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(AuthenticationError):
                await _forever(lambda: consumer.poll(200))
            await consumer.close()
