"""The producer id of a user, in a request of another client: Kafka accepts it, oncelog refuses it
(H49)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.conformance.differences import (
    NEXT_EPOCH_OF_ANOTHER_USER,
    PRODUCER_FENCED_BY_ANOTHER_USER,
)
from tests.harness.certificates import Certificates
from tests.harness.driving import create
from tests.harness.kafka.secured import SecuredKafka
from tests.harness.writing import batch, new_identity, produce
from tests.security.secured_broker import SecuredOncelog
from tests.security.secured_wire import SecuredWire, context_of


class Clients(NamedTuple):
    """Connections of a user with a certificate, and of User:ANONYMOUS. `target` is the name of the
    broker."""

    target: str
    user: Wire
    anonymous: Wire


@pytest.fixture(params=["kafka", "oncelog"])
def clients(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clients]:
    with ExitStack() as opened:
        if request.param == "kafka":
            kafka: SecuredKafka = request.getfixturevalue("secured_kafka")
            certificates = kafka.certificates
            addresses = kafka.addresses["SSL"], kafka.address
        else:
            certificates = Certificates(tmp_path)
            oncelog = opened.enter_context(SecuredOncelog(tmp_path / "oncelog", certificates))
            addresses = oncelog.address_of("MUTUAL"), oncelog.address_of("PLAINTEXT")
        context = context_of(certificates, certificates.client("alice"))
        user = opened.enter_context(SecuredWire(addresses[0], context))
        yield Clients(request.param, user, opened.enter_context(Wire(addresses[1])))


def test_h49_only_kafka_lets_another_user_fence_a_producer(clients: Clients, name: str) -> None:
    create(clients.anonymous, name)
    producer = new_identity(clients.user)
    assert produce(clients.user, name, batch(producer, 0)).error_code == ErrorCode.NONE
    stolen = produce(clients.anonymous, name, batch(producer.aged(1), 0))
    expected = NEXT_EPOCH_OF_ANOTHER_USER.expected(clients.target)
    assert ErrorCode(stolen.error_code).name == expected
    own = produce(clients.user, name, batch(producer, 1))
    expected = PRODUCER_FENCED_BY_ANOTHER_USER.expected(clients.target)
    assert ErrorCode(own.error_code).name == expected
