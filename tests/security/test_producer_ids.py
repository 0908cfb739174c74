"""A producer id belongs to the user that got it, even after a crash of the broker (H49)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from oncelog_client import PreparedTxnState
from oncelog_client import Producer as AsyncProducer
from oncelog_client.errors import ProducerFencedError
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from tests.harness.certificates import Certificates
from tests.harness.client_reading import read_decided
from tests.harness.kafka.secured import jaas
from tests.harness.writing import (
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
    topic_id,
)
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog
from tests.security.secured_wire import SecuredWire
from tests.security.test_audit import events

LISTENER: Final = "SASL_PLAINTEXT"
PASSWORDS: Final = {USER: PASSWORD, "bob": "bobs"}
TOPIC: Final = "shared"
OF_ANOTHER: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NONE: Final = ErrorCode.NONE
TIMEOUT_S: Final = 60

Login = Callable[[str], SecuredWire]


@pytest.fixture
def broker(tmp_path: Path, certificates: Certificates) -> Iterator[SecuredOncelog]:
    settings = {"transaction.two.phase.commit.enable": "true"}
    with SecuredOncelog(tmp_path, certificates, settings) as broker:
        yield broker


@pytest.fixture
def login(broker: SecuredOncelog) -> Iterator[Login]:
    """Yield a function that returns the connection of a user."""
    with ExitStack() as opened:

        def log_in(user: str) -> SecuredWire:
            wire = opened.enter_context(SecuredWire(broker.address_of(LISTENER)))
            wire.authenticate(PlainClient(user, Secret(PASSWORDS[user])))
            # The request creates the topic.
            topic_id(wire, TOPIC)
            return wire

        yield log_in


def settings(broker: SecuredOncelog, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.address_of(LISTENER),
        "security.protocol": LISTENER,
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
    }


def test_h49_a_user_cannot_fence_or_use_the_producer_of_another_user(
    broker: SecuredOncelog, login: Login
) -> None:
    """In Kafka, the batch with the next epoch is accepted, and fences the first producer."""
    alice, bob = login(USER), login("bob")
    producer = new_identity(alice)
    assert produce(alice, TOPIC, batch(producer, 0)).error_code == NONE
    for stolen, sequence in ((producer.aged(1), 0), (producer, 1)):
        refused = produce(bob, TOPIC, batch(stolen, sequence))
        assert refused.error_code == OF_ANOTHER
    assert produce(alice, TOPIC, batch(producer, 1)).base_offset == 1
    broker.kill()
    broker.start()
    alice, bob = login(USER), login("bob")
    assert produce(bob, TOPIC, batch(producer.aged(1), 0)).error_code == OF_ANOTHER
    assert produce(alice, TOPIC, batch(producer, 2)).base_offset == 2
    # The id of the other user is from a block of its own.
    own = new_identity(bob)
    assert own.producer_id // BLOCK_SIZE != producer.producer_id // BLOCK_SIZE
    assert produce(bob, TOPIC, batch(own, 0)).error_code == NONE
    assert produce(alice, TOPIC, batch(own.aged(1), 0)).error_code == OF_ANOTHER
    found = [
        (event["principal"], event["owner"], event["api"])
        for event in events(broker, "producer id of another principal")
    ]
    assert found == [
        ("User:bob", "User:alice", "Produce"),
        ("User:bob", "User:alice", "Produce"),
        ("User:alice", "User:bob", "Produce"),
    ]


def test_h49_another_user_takes_a_transactional_id_over(login: Login) -> None:
    alice, bob = login(USER), login("bob")
    producer = new_identity(alice, "t")
    assert produce(alice, TOPIC, batch(producer, 0), producer=producer).error_code == NONE
    # Before bob takes the transactional id over, bob's requests with the producer id of alice have
    # no effect.
    assert end_transaction(bob, producer, commit=True).error_code == OF_ANOTHER
    assert init_producer_id(bob, "t", current=producer).error_code == OF_ANOTHER
    taken = new_identity(bob, "t")
    assert (taken.producer_id != producer.producer_id, taken.producer_epoch) == (True, 0)
    assert end_transaction(alice, producer, commit=True).error_code == ErrorCode.PRODUCER_FENCED
    late = produce(alice, TOPIC, batch(producer, 1), producer=producer)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(bob, TOPIC, batch(taken, 0), producer=taken).error_code == NONE
    assert end_transaction(bob, taken, commit=True).error_code == NONE
    back = new_identity(alice, "t")
    assert back.producer_id not in (producer.producer_id, taken.producer_id)


def test_h49_clients_of_two_users_take_turns_with_one_transactional_id(
    broker: SecuredOncelog,
) -> None:
    """The user of a service is renamed, for example: the next instance continues."""
    for turn, user in enumerate((USER, "bob", USER)):
        producer = Producer({**settings(broker, user), "transactional.id": "renamed"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(TOPIC, b"%d" % turn)
        producer.commit_transaction(TIMEOUT_S)
    consumer = Consumer(
        {**settings(broker, "bob"), "group.id": "all", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    found = [message.value() for message in consumer.consume(3, TIMEOUT_S)]
    consumer.close()
    assert found == [b"0", b"1", b"2"]


def test_h49_the_client_of_another_user_fences_the_first_client(broker: SecuredOncelog) -> None:
    first = Producer({**settings(broker, USER), "transactional.id": "fenced"})
    first.init_transactions(TIMEOUT_S)
    first.begin_transaction()
    first.produce(TOPIC, b"aborted")
    assert first.flush(TIMEOUT_S) == 0
    second = Producer({**settings(broker, "bob"), "transactional.id": "fenced"})
    second.init_transactions(TIMEOUT_S)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].name() in ("_FENCED", "PRODUCER_FENCED")
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    second.produce(TOPIC, b"committed")
    second.commit_transaction(TIMEOUT_S)


def participant(broker: SecuredOncelog, user: str) -> AsyncProducer:
    return AsyncProducer(
        broker.address_of(LISTENER),
        transactional_id="participant",
        transaction_two_phase_commit_enable=True,
        security_protocol=LISTENER,
        sasl_mechanism="PLAIN",
        sasl_jaas_config=jaas("PLAIN", user, PASSWORDS[user]),
    )


@pytest.mark.parametrize("committed", [True, False])
async def test_h49_another_user_completes_a_prepared_transaction(
    broker: SecuredOncelog, login: Login, committed: bool
) -> None:
    login(USER)
    async with participant(broker, USER) as first:
        await first.init_transactions()
        await first.begin_transaction()
        await first.send(TOPIC, b"prepared")
        state = await first.prepare_transaction()
        async with participant(broker, "bob") as second:
            await second.init_transactions(keep_prepared_txn=True)
            with pytest.raises(ProducerFencedError):
                await first.commit_transaction()
            broker.kill()
            broker.start()
            await second.complete_transaction(state if committed else PreparedTxnState(1, 2))
            async with second.transaction():
                await second.send(TOPIC, b"after")
    expected = [b"prepared", b"after"] if committed else [b"after"]
    assert await read_decided(broker.address_of("PLAINTEXT"), TOPIC) == expected
