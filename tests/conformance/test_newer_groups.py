"""Clients of the group protocols that oncelog does not have get an error at once (KIP-848,
KIP-932). Apache Kafka, the control, does not have them either: their features are off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import confluent_kafka as ck
import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from oncelog_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncelog_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.conformance.clients import Client
from tests.conformance.conftest import Target
from tests.conformance.polling import poll_until
from tests.harness.kafka.driver import JavaDriver, JavaError, java_config
from tests.harness.kafka.features import turn_newer_groups
from tests.harness.waiting import wait_until

UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION
ERROR_S = 10.0
REVERT = (
    "The cluster does not support the new CONSUMER group protocol. Set group.protocol=classic on "
    "the consumer configs to revert to the CLASSIC protocol until the cluster is upgraded."
)


@pytest.fixture(autouse=True)
def without_newer_groups(target: Target) -> Iterator[None]:
    """Turns the newer group protocols of Apache Kafka off during a test."""
    if target.name != "kafka":
        yield
        return
    with Wire(target.address) as wire:
        turn_newer_groups(wire, 0)
        yield
        turn_newer_groups(wire, 1)


@pytest.mark.parametrize("version", [0, 1])
def test_every_heartbeat_of_the_consumer_protocol_is_refused(wire: Wire, version: int) -> None:
    """The request is refused before it is checked."""
    refused = ConsumerGroupHeartbeatResponse(error_code=UNSUPPORTED)
    joins = ConsumerGroupHeartbeatRequest(
        "group", "member", 0, subscribed_topic_names=["topic"], topic_partitions=[]
    )
    for request in (joins, ConsumerGroupHeartbeatRequest()):
        assert wire.call(request, version) == refused


def test_every_heartbeat_of_a_share_group_is_refused(wire: Wire) -> None:
    refused = ShareGroupHeartbeatResponse(error_code=UNSUPPORTED)
    joins = ShareGroupHeartbeatRequest("group", "member", 0, subscribed_topic_names=["topic"])
    for request in (joins, ShareGroupHeartbeatRequest()):
        assert wire.call(request, 1) == refused


@pytest.mark.parametrize("version", [0, 1])
def test_no_group_of_the_consumer_protocol_is_described(wire: Wire, version: int) -> None:
    names = ["group", "", "group"]
    response = wire.call(ConsumerGroupDescribeRequest(names, True), version)
    rows = [DescribedGroup(error_code=UNSUPPORTED, group_id=name) for name in names]
    assert response == ConsumerGroupDescribeResponse(groups=rows)


def failure(poll: Callable[[], Any]) -> ck.KafkaError:
    """Return the first error that librdkafka raises, or returns in place of a record."""
    end = time.monotonic() + ERROR_S
    while time.monotonic() < end:
        try:
            found = poll()
        except ck.KafkaException as raised:
            error: ck.KafkaError = raised.args[0]
            return error
        if found:
            error = found.error()
            return error
    pytest.fail(f"no error within {ERROR_S} s")


def test_librdkafkas_consumer_of_the_consumer_protocol_fails(target: Target, topic: str) -> None:
    """Without the API in ApiVersions, librdkafka 2.16 waits forever and reports nothing."""
    settings = {"bootstrap.servers": target.address, "group.id": topic, "log_level": 0}
    consumer = ck.Consumer(settings | {"group.protocol": "consumer"})
    try:
        consumer.subscribe([topic])
        error = failure(lambda: consumer.poll(0.1))
    finally:
        consumer.close()
    assert error.code() == ck.KafkaError._FATAL
    assert "ConsumerGroupHeartbeat fatal error: Broker: API version not supported" in error.str()


def test_librdkafkas_share_consumer_fails(target: Target, topic: str) -> None:
    settings = {"bootstrap.servers": target.address, "group.id": topic, "log_level": 0}
    consumer = ck.ShareConsumer(settings)
    try:
        consumer.subscribe([topic])
        error = failure(lambda: consumer.poll(0.1))
    finally:
        with suppress(ck.KafkaException):
            consumer.close()
    assert error.code() == ck.KafkaError.UNSUPPORTED_VERSION
    assert "ShareGroupHeartbeat fatal error: Broker: API version not supported" in error.str()


def test_javas_consumer_names_the_setting(
    target: Target, java_driver: JavaDriver, topic: str
) -> None:
    settings = {"bootstrap.servers": target.address, "group.id": topic}
    config = java_config(settings | {"group.protocol": "consumer"})
    java_driver.call("consumer", name=topic, topic=topic, config=config)
    try:
        with pytest.raises(JavaError) as raised:
            java_driver.call("poll", name=topic, timeout_ms=int(ERROR_S * 1000))
    finally:
        with suppress(JavaError):
            java_driver.call("close-consumer", name=topic)
    assert str(raised.value) == f"UnsupportedVersionException: {REVERT}"


def test_a_classic_group_is_described_by_admin_clients(
    target: Target, java_driver: JavaDriver, client: Client, admin: Any, topic: str
) -> None:
    """Java's admin client first sends ConsumerGroupDescribe, then DescribeGroups. The group has a
    member of each client in turn: all use the classic protocol."""
    member = client.consumer(target.address, topic, group=topic)
    poll_until([member], lambda: len(member.assignment()) == 3, "the member owns all partitions")
    described = admin.describe_consumer_groups([topic])[topic].result()
    assert (described.state.name, described.type.name) == ("STABLE", "CLASSIC")
    assert len(described.members) == 1
    asked = ("--bootstrap-server", target.address, "--describe", "--group", topic, "--state")

    def row() -> list[str]:
        return java_driver.tool("consumer-groups", *asked).lines[-1].split()

    wait_until(lambda: row()[-2:] == ["Stable", "1"], "Kafka's tool shows the member")
