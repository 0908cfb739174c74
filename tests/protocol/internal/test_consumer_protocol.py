"""Subscriptions and assignments, compared with bytes of Apache Kafka and of the library kio."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.protocol.drawing import messages
from tests.protocol.internal.golden import ASSIGNMENT_V0, ASSIGNMENT_V3, SUBSCRIPTIONS
from tests.protocol.kio_oracle import kio_read, kio_write, same

OWNED = [TopicPartition(topic="purchases", partitions=[0, 2])]


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_in_every_version(version: int) -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["purchases", "invoices"],
        user_data=b"\x09",
        owned_partitions=OWNED if version >= 1 else [],
        generation_id=5 if version >= 2 else -1,
        rack_id="r1" if version >= 3 else None,
    )
    assert encode_subscription(subscription, version) == SUBSCRIPTIONS[version]
    assert decode_subscription(SUBSCRIPTIONS[version]) == subscription


def test_an_assignment() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=OWNED)
    assert encode_assignment(assignment, 0) == ASSIGNMENT_V0
    assert encode_assignment(assignment) == ASSIGNMENT_V3
    assert decode_assignment(ASSIGNMENT_V0) == decode_assignment(ASSIGNMENT_V3) == assignment


def test_empty_bytes_are_no_assignment() -> None:
    with pytest.raises(ProtocolError):
        decode_assignment(b"")


def kio_class(name: str, version: int) -> Any:
    folder = {"Subscription": "subscription", "Assignment": "assignment"}[name]
    module = importlib.import_module(f"kio.schema.consumer_protocol_{folder}.v{version}.data")
    return getattr(module, f"ConsumerProtocol{name}")


@pytest.mark.parametrize("version", range(4))
@given(data=st.data())
def test_kio_reads_and_writes_the_same_subscription(version: int, data: st.DataObject) -> None:
    ours = data.draw(messages(ConsumerProtocolSubscription, version))
    raw = encode_subscription(ours, version)
    theirs = kio_read(kio_class("Subscription", version), raw[2:])
    assert same(ours, theirs, version)
    assert kio_write(theirs) == raw[2:]


@pytest.mark.parametrize("version", range(4))
@given(data=st.data())
def test_kio_reads_and_writes_the_same_assignment(version: int, data: st.DataObject) -> None:
    ours = data.draw(messages(ConsumerProtocolAssignment, version))
    raw = encode_assignment(ours, version)
    theirs = kio_read(kio_class("Assignment", version), raw[2:])
    assert same(ours, theirs, version)
    assert kio_write(theirs) == raw[2:]
