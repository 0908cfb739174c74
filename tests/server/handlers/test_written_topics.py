"""The rights and the partitions at the moment of a write count, although the broker keeps what it
has found out about a connection's topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.requests.session import Handshake, Session
from oncelog_server.security.acls import WILDCARD, Acl, Pattern, PatternType, Permission
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import Operation, Principal, ResourceType
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.rights.broker import HOST, RightsBroker, rights_broker
from tests.server.log.driver import batch
from tests.server.partition.partitions import partition

TOPIC = "t"
WRITES = (
    Pattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
    Acl("User:alice", WILDCARD, Operation.WRITE, Permission.ALLOW),
)
DENIED = (
    Pattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
    Acl("User:alice", HOST, Operation.WRITE, Permission.DENY),
)
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


@pytest.fixture(scope="module")
def started() -> Iterator[RightsBroker]:
    with rights_broker(prepared=False) as broker:
        yield broker


@pytest.fixture
def broker(started: RightsBroker) -> Iterator[RightsBroker]:
    """The broker with a topic, and a rule by which alice may write to it."""
    metadata = started.services.metadata
    started.run(metadata.create_topics([NewTopic(TOPIC)]))
    started.allow([WRITES])
    yield started
    rules = [(pattern, list(acls)) for pattern, acls in metadata.image.acls.items()]
    for pattern, acls in rules:
        started.remove((pattern, acl) for acl in acls)
    if TOPIC in metadata.image.topics:
        started.run(metadata.delete_topics([TOPIC]))


def session_of(principal: Principal) -> Session:
    return Session(principal, HOST, "PLAINTEXT", lambda: False)


def produce(broker: RightsBroker, session: Session, version: int = 12) -> ErrorCode:
    """Produce a batch to partition 0. Return the error code of its row."""
    topic = broker.services.metadata.image.topics.get(TOPIC)
    data = [PartitionProduceData(0, batch())]
    id_ = topic.id if topic is not None else bytes(16)
    topics = [TopicProduceData(TOPIC, topic_id=id_, partition_data=data)]
    response: Any = broker.ask_in(session, ProduceRequest(acks=-1, topic_data=topics), version)
    (row,) = response.responses[0].partition_responses
    return ErrorCode(row.error_code)


@pytest.mark.parametrize("version", [12, 13])
def test_a_removed_right_holds_from_the_next_request(broker: RightsBroker, version: int) -> None:
    session = session_of(ALICE)
    assert produce(broker, session, version) == ErrorCode.NONE
    assert session.writable.topics
    broker.remove([WRITES])
    assert produce(broker, session, version) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker.allow([WRITES])
    assert produce(broker, session, version) == ErrorCode.NONE


def test_a_new_rule_that_denies_holds_from_the_next_request(broker: RightsBroker) -> None:
    session = session_of(ALICE)
    assert produce(broker, session) == ErrorCode.NONE
    broker.allow([DENIED])
    assert produce(broker, session) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_rights_of_a_principal_end_when_the_connection_authenticates_as_another(
    broker: RightsBroker,
) -> None:
    """The broker already refuses another principal at the authentication (KIP-368). The check of
    rights must not rely on this."""
    handshake = Handshake("EXTERNAL", SecurityProtocol.SASL_PLAINTEXT)
    session = handshake.transport_open(HOST, lambda: False)
    of_alice = handshake.authenticated(session, ALICE)
    assert produce(broker, of_alice) == ErrorCode.NONE
    of_bob = handshake.authenticated(of_alice, BOB)
    assert produce(broker, of_bob) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert produce(broker, of_alice) == ErrorCode.NONE


def test_a_topic_that_is_deleted_and_created_again_gets_the_records(broker: RightsBroker) -> None:
    session, metadata = session_of(ALICE), broker.services.metadata
    assert [produce(broker, session) for _ in range(2)] == [ErrorCode.NONE] * 2
    broker.run(metadata.delete_topics([TOPIC]))
    assert produce(broker, session) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.run(metadata.create_topics([NewTopic(TOPIC)]))
    assert produce(broker, session) == ErrorCode.NONE
    assert broker.services.partitions.require(TOPIC, 0).log_end_offset == 1


def test_a_partition_that_is_opened_again_gets_the_records(broker: RightsBroker) -> None:
    """A partition with a failed disk is opened again without a change of the metadata."""
    session, partitions = session_of(ALICE), broker.services.partitions
    assert produce(broker, session) == ErrorCode.NONE
    name = TopicPartition(TOPIC, 0)
    closed = partitions.remove(name)
    assert closed is not None
    opened = partition(name=name)
    opened.become_leader(0, 0, (0,), (0,))
    partitions.add(opened)
    try:
        assert produce(broker, session) == ErrorCode.NONE
        assert (closed.log_end_offset, opened.log_end_offset) == (1, 1)
    finally:
        partitions.remove(name)
        partitions.add(closed)


@pytest.mark.parametrize(
    ("version", "code"), [(13, ErrorCode.UNKNOWN_TOPIC_ID), (12, ErrorCode.NONE)]
)
def test_records_by_id_reach_no_partition_of_another_topic_with_the_name(
    broker: RightsBroker, version: int, code: ErrorCode
) -> None:
    """The session has sent to the topic by its name before."""
    session, partitions = session_of(ALICE), broker.services.partitions
    assert produce(broker, session, 12) == ErrorCode.NONE
    found = partitions.require(TOPIC, 0)
    known, found.topic_id = found.topic_id, bytes([7] * 16)
    try:
        assert produce(broker, session, version) == code
    finally:
        found.topic_id = known
