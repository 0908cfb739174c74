"""The reason that oncelog reports for a producer's error code. The code itself is Kafka's. `oncelog
transactions describe` and the log events name the producer, the time, and the client that caused
the error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.heartbeat import HeartbeatRequest
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.client.cli.conftest import CommandLine
from tests.harness.broker import Oncelog
from tests.harness.hanging import VERIFICATION, hanging
from tests.harness.transacting import add_partitions, commit_offset, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
)

QUICK = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
}


@dataclass(frozen=True)
class Broker:
    """A broker, its command line, and its log events."""

    process: Oncelog
    call: CommandLine

    def events(self, transactional_id: str) -> list[dict[str, Any]]:
        lines = self.process.log.read_text().splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in events if event.get("transactional_id") == transactional_id]

    def refused(self, transactional_id: str) -> list[dict[str, Any]]:
        (row,) = self.call.json("transactions", "describe", transactional_id)
        listed: list[dict[str, Any]] = row["refused"]
        return listed


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as process:
        yield Broker(process, CommandLine(process.address))


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that does not verify transactions."""
    settings = {**QUICK, VERIFICATION: "false"}
    with Oncelog(tmp_path_factory.mktemp("trusting"), settings) as process:
        yield Broker(process, CommandLine(process.address))


@pytest.fixture
def topic(broker: Broker, name: str) -> str:
    broker.call.create(name, partitions=2)
    return name


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.process.address, "the-old-one") as connection:
        yield connection


def opened(wire: Wire, topic: str, timeout_ms: int = 60_000) -> Identity:
    producer = new_identity(wire, topic, timeout_ms=timeout_ms)
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    return producer


def is_refused(wire: Wire, producer: Identity) -> None:
    """Check that three requests are refused. The broker logs one event for them, which the caller
    checks."""
    for _ in range(3):
        ended = end_transaction(wire, producer, commit=True)
        assert ErrorCode(ended.error_code) is ErrorCode.PRODUCER_FENCED


def test_a_refusal_after_a_timeout_has_the_cause_timed_out(
    broker: Broker, wire: Wire, topic: str
) -> None:
    before_ms = time.time() * 1000
    producer = opened(wire, topic, timeout_ms=200)
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    is_refused(wire, producer)
    (fence,) = broker.refused(topic)
    assert before_ms < fence.pop("since_ms") < before_ms + 60_000
    assert fence == {
        "refused_producer_id": producer.producer_id,
        "up_to_epoch": producer.producer_epoch,
        "cause": "timed out",
        "by_client_id": None,
        "by_client_address": None,
        "by_principal": None,
        "refusals": 3,
    }
    aborted, refused = broker.events(topic)
    assert (aborted["event"], refused["event"]) == ("transaction aborted", "producer refused")
    assert {aborted["cause"], refused["cause"]} == {"timed out"}
    assert (refused["client_id"], refused["client_address"]) == ("the-old-one", "/127.0.0.1")
    assert "by_client_id" not in refused


def test_a_refusal_of_an_older_instance_names_the_newer_one(
    broker: Broker, wire: Wire, topic: str
) -> None:
    producer = opened(wire, topic)
    with Wire(broker.process.address, "the-new-one") as newer:
        new_identity(newer, topic)
    written = produce(wire, topic, batch(producer, 1), producer=producer)
    assert written.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert "the-new-one at /127.0.0.1: newer instance" in (written.error_message or "")
    is_refused(wire, producer)
    (fence,) = broker.refused(topic)
    assert (fence["cause"], fence["by_client_id"]) == ("newer instance", "the-new-one")
    assert (fence["by_client_address"], fence["refusals"]) == ("/127.0.0.1", 4)
    assert [event["event"] for event in broker.events(topic)] == [
        "transaction aborted",
        "producer refused",
    ]
    text = broker.call.text("transactions", "describe", topic)
    assert "newer instance" in text
    assert "the-new-one" in text


def test_a_restart_of_an_idle_producer_is_no_event(broker: Broker, wire: Wire, topic: str) -> None:
    for _ in range(3):
        new_identity(wire, topic)
    assert broker.events(topic) == []
    assert [refusal["refusals"] for refusal in broker.refused(topic)] == [0, 0]


def test_a_refusal_after_force_terminate_has_the_cause_operator(
    broker: Broker, wire: Wire, topic: str
) -> None:
    producer = opened(wire, topic)
    broker.call.text("transactions", "force-terminate", topic)
    is_refused(wire, producer)
    (fence,) = broker.refused(topic)
    assert (fence["cause"], fence["by_client_address"]) == ("operator", "/127.0.0.1")
    assert [event["cause"] for event in broker.events(topic)] == ["operator", "operator"]


def test_markers_written_past_the_coordinator_are_remembered_without_a_fence(
    trusting: Broker, name: str
) -> None:
    """The coordinator remembers the markers in two partitions as one cause. The producer can
    continue."""
    trusting.call.create(name, partitions=2)
    with Wire(trusting.process.address, "the-old-one") as wire:
        producer = hanging(wire, name)
        sent = produce(wire, name, batch(producer, 0), producer=producer, partition=1, version=9)
        assert sent.error_code == ErrorCode.NONE
        for partition in ("0", "1"):
            place = ("--topic", name, "--partition", partition, "--start-offset", "0")
            trusting.call.text("transactions", "abort", *place, "--force")
        (fence,) = trusting.refused(name)
        assert (fence["cause"], fence["refusals"]) == ("operator, past the coordinator", 0)
        assert fence["by_client_id"].startswith("oncelog")
        assert fence["by_client_address"] == "/127.0.0.1"
        assert add_partitions(wire, producer, (name, 0)) == [ErrorCode.NONE]
        assert end_transaction(wire, producer, commit=False).error_code == ErrorCode.NONE
        (row,) = trusting.call.json("transactions", "describe", name)
        assert (row["client_id"], row["client_address"]) == ("the-old-one", "/127.0.0.1")


def joining(group: str, member_id: str = "", **changed: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
        **fields | changed,
    )


def join(wire: Wire, group: str, version: int = 3, **changed: Any) -> dict[str, Any]:
    """Join the group. Return the fields of TxnOffsetCommit that name the member."""
    find_coordinator(wire, group, key_type=0)
    joined = wire.call(joining(group, **changed), version)
    assert joined.error_code == ErrorCode.NONE, ErrorCode(joined.error_code)
    return {
        "member_id": joined.member_id,
        "generation_id_or_member_epoch": joined.generation_id,
        "group_instance_id": changed.get("group_instance_id"),
    }


def is_refused_by_its_group(
    broker: Broker, wire: Wire, topic: str, member: dict[str, Any], code: ErrorCode
) -> dict[str, Any]:
    """Check that two requests are refused, that only the first is logged, and that the reason is
    reported. The producer is not fenced: it may abort, rejoin and continue. Return the refusal, as
    `oncelog transactions describe` shows it."""
    producer = new_identity(wire, topic)
    assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
    for _ in range(2):
        assert ErrorCode(commit_offset(wire, producer, topic, 1, **member)) is code
    (fence,) = broker.refused(topic)
    (event,) = broker.events(topic)
    assert (fence["refusals"], event["event"]) == (2, "producer refused")
    assert (fence["cause"], fence["since_ms"]) == (event["cause"], event["fenced_at_ms"])
    assert fence["by_client_id"] == event.get("by_client_id")
    assert (event["client_id"], event["client_address"]) == ("the-old-one", "/127.0.0.1")
    text = broker.call.text("transactions", "describe", topic)
    assert fence["cause"] in text
    assert end_transaction(wire, producer, commit=False).error_code == ErrorCode.NONE
    return fence


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_refusal_of_an_older_generation_has_the_cause_newer_generation(
    broker: Broker, wire: Wire, topic: str
) -> None:
    """KIP-447: all members rejoin the group for a new generation, but a process continues in the
    old generation."""
    member = join(wire, topic)
    heartbeat = HeartbeatRequest(topic, member["generation_id_or_member_epoch"])
    heartbeat.member_id = member["member_id"]
    before_ms = now_ms()
    with Wire(broker.process.address, "the-new-one") as newer:
        newer.send(joining(topic), 3)
        wait_until(
            lambda: wire.call(heartbeat).error_code == ErrorCode.REBALANCE_IN_PROGRESS,
            "the rebalance",
        )
        again = wire.call(joining(topic, member["member_id"]), 3)
        assert newer.answer().generation_id == again.generation_id
        after_ms = now_ms()
        code = ErrorCode.ILLEGAL_GENERATION
        fence = is_refused_by_its_group(broker, wire, topic, member, code)
    assert fence["cause"] == "newer generation"
    assert (fence["by_client_id"], fence["by_client_address"]) == ("the-new-one", "/127.0.0.1")
    assert before_ms <= fence["since_ms"] <= after_ms, "the new generation's time"


def test_a_refusal_of_a_replaced_static_member_has_the_cause_newer_instance(
    broker: Broker, wire: Wire, topic: str
) -> None:
    """KIP-345: another process now uses the instance id."""
    member = join(wire, topic, 5, group_instance_id="i")
    before_ms = now_ms()
    with Wire(broker.process.address, "the-new-one") as newer:
        newer.send(joining(topic, group_instance_id="i"), 5)
        wait_until(lambda: members_of(wire, topic) != [member["member_id"]], "the newer instance")
        after_ms = now_ms()
        code = ErrorCode.FENCED_INSTANCE_ID
        fence = is_refused_by_its_group(broker, wire, topic, member, code)
    assert fence["cause"] == "newer instance"
    assert (fence["by_client_id"], fence["by_client_address"]) == ("the-new-one", "/127.0.0.1")
    assert before_ms <= fence["since_ms"] <= after_ms


def test_a_refusal_of_a_removed_member_has_the_cause_left_the_group(
    broker: Broker, wire: Wire, topic: str
) -> None:
    member = join(wire, topic)
    before_ms = now_ms()
    with Wire(broker.process.address, "the-admin") as admin:
        leave = LeaveGroupRequest(topic, members=[MemberIdentity(member["member_id"])])
        assert admin.call(leave).error_code == ErrorCode.NONE
    after_ms = now_ms()
    code = ErrorCode.UNKNOWN_MEMBER_ID
    fence = is_refused_by_its_group(broker, wire, topic, member, code)
    assert fence["cause"] == "left the group"
    assert (fence["by_client_id"], fence["by_client_address"]) == ("the-admin", "/127.0.0.1")
    assert before_ms <= fence["since_ms"] <= after_ms


def test_a_refusal_of_an_expired_member_has_the_cause_session_timed_out(
    broker: Broker, wire: Wire, topic: str
) -> None:
    before_ms = now_ms()
    member = join(wire, topic, session_timeout_ms=200)
    wait_until(lambda: members_of(wire, topic) == [], "the end of the session")
    after_ms = now_ms()
    code = ErrorCode.UNKNOWN_MEMBER_ID
    fence = is_refused_by_its_group(broker, wire, topic, member, code)
    assert fence["cause"] == "session timed out"
    assert fence["by_client_id"] is None
    assert before_ms <= fence["since_ms"] <= after_ms


def test_a_refusal_by_a_missing_group_has_the_cause_unknown_to_the_group(
    broker: Broker, wire: Wire, topic: str
) -> None:
    """The group does not exist, so there is neither a newer generation nor a known cause."""
    find_coordinator(wire, topic, key_type=0)
    member: dict[str, Any] = {"generation_id_or_member_epoch": 3, "member_id": "gone"}
    code = ErrorCode.ILLEGAL_GENERATION
    fence = is_refused_by_its_group(broker, wire, topic, member, code)
    assert (fence["cause"], fence["by_client_id"]) == ("unknown to the group", None)


def members_of(wire: Wire, group: str) -> list[str]:
    (described,) = wire.call(DescribeGroupsRequest([group]), 5).groups
    return [member.member_id for member in described.members]


def test_l12_an_abort_that_bypasses_the_coordinator_is_a_log_event(
    trusting: Broker, name: str
) -> None:
    trusting.call.create(name)
    with Wire(trusting.process.address) as wire:
        hanging(wire, name)
    place = ("--topic", name, "--partition", "0", "--start-offset", "0")
    trusting.call.text("transactions", "abort", *place)
    (event,) = trusting.events(name)
    assert (event["event"], event["cause"]) == ("transaction aborted", "operator")
    assert event["by_client_address"] == "/127.0.0.1"
