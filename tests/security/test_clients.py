"""Clients of five makers produce, consume in a group, commit transactions and create topics, with
each security protocol and each of its mechanisms."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.clients import Java, Record
from tests.conformance.clients.interface import Client
from tests.harness.certificates import Certificates
from tests.harness.kafka.driver import JavaDriver
from tests.harness.waiting import wait_until
from tests.security.clients import CLIENTS, PARTITIONS, SecuredClient, java_client
from tests.security.logins import Login
from tests.security.secured_broker import LISTENERS, MECHANISMS, PASSWORD, USER, SecuredOncelog

# The listeners, each with the mechanisms of its clients.
WAYS: Final[list[tuple[str, str | None]]] = [
    ("SSL", None),
    ("MUTUAL", None),
    *(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
    *(("SASL_SSL", mechanism) for mechanism in MECHANISMS),
]
# Java refuses to read a token from a file that this property does not name.
_ALLOWED_FILES: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@pytest.fixture(scope="module")
def java_driver(
    kafka_jars: str, secured: SecuredOncelog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaDriver]:
    """A JVM with Kafka's client and tools, for one token file."""
    folder = tmp_path_factory.mktemp("java")
    allowed = _token_folder(tmp_path_factory) / "token"
    with closing(JavaDriver(folder, [f"-D{_ALLOWED_FILES}={allowed.as_uri()}"])) as driver:
        yield driver


def _token_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp() / "java-logins"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(filter(None, way)))
def way(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    listener, mechanism = request.param
    return listener, mechanism


@pytest.fixture
def login(
    way: tuple[str, str | None],
    secured: SecuredOncelog,
    certificates: Certificates,
    tmp_path_factory: pytest.TempPathFactory,
) -> Login:
    listener, mechanism = way
    protocol = LISTENERS[listener]
    return Login(
        protocol,
        _token_folder(tmp_path_factory),
        authority=certificates.authority_path if protocol.endswith("SSL") else None,
        identity=certificates.client("carol") if listener == "MUTUAL" else None,
        mechanism=mechanism,
        user=USER,
        secret=secured.token() if mechanism == "OAUTHBEARER" else PASSWORD,
    )


@pytest.fixture
def client(request: pytest.FixtureRequest, login: Login) -> SecuredClient:
    if request.param == Java.name:
        return java_client(login, request.getfixturevalue("java_driver"))
    return CLIENTS[request.param](login)


@pytest.mark.parametrize("client", [*CLIENTS, Java.name], indirect=True)
def test_a_client_does_all_its_work(
    client: SecuredClient, way: tuple[str, str | None], secured: SecuredOncelog
) -> None:
    """The client creates a topic, writes with and without a transaction, and reads in a group. An
    aborted record is not read."""
    address = secured.address_of(way[0])
    topic = f"t-{uuid.uuid4().hex[:12]}"
    assert client.create(address, topic) == PARTITIONS
    library = client.client
    with (
        closing(library.producer(address)) as producer,
        closing(library.producer(address, transactional_id=topic)) as transactional,
    ):
        assert producer.send(topic, [Record(b"plain")]) == [(0, 0)]
        transactional.init_transactions()
        transactional.begin()
        transactional.send(topic, [Record(b"aborted")])
        transactional.abort()
        transactional.begin()
        transactional.send(topic, [Record(b"committed", partition=1)])
        transactional.commit()
    assert read_in_group(library, address, topic, 2) == {b"plain", b"committed"}


def read_in_group(library: Client, address: str, topic: str, count: int) -> set[bytes | None]:
    """Return the values that a read_committed member of a new group reads."""
    with closing(library.consumer(address, topic, group=topic, read_committed=True)) as consumer:
        values: list[bytes | None] = []

        def all_read() -> bool:
            values.extend(record.value for record in consumer.poll(0.2))
            return len(values) >= count

        wait_until(all_read, f"{count} records of {topic}")
        consumer.commit({0: 1})
    return set(values)
