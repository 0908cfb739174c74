"""Each client in consumer groups of the classic protocol (KIP-62, KIP-345, KIP-429)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients import Client, Record, Refused
from tests.conformance.clients.interface import Consumer
from tests.conformance.conftest import CLIENTS, Target, create_topic
from tests.conformance.polling import poll_until, read
from tests.harness.kafka.tools import start_tool
from tests.harness.waiting import wait_until

STRATEGIES = ("range", "roundrobin", "cooperative-sticky")


def shared_out(members: Sequence[Consumer], partitions: int) -> bool:
    """Return True if every partition has exactly one owner and every member has a partition."""
    owned = [member.assignment() for member in members]
    flat = [partition for member in owned for partition in member]
    return all(owned) and sorted(flat) == list(range(partitions))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_the_partitions_and_inherit_them(
    target: Target, client: Client, topic: str, strategy: str
) -> None:
    """Two members join and one leaves. At any time each partition has one owner."""
    if strategy not in client.strategies:
        assert client.name == "aiokafka"  # aiokafka has no cooperative assignor
        return
    first = client.consumer(target.address, topic, group=topic, strategy=strategy)
    poll_until([first], lambda: shared_out([first], 3), "the first member owns all partitions")
    second = client.consumer(target.address, topic, group=topic, strategy=strategy)
    both = (first, second)
    poll_until(both, lambda: shared_out(both, 3), "both members own partitions")
    first.close()
    poll_until([second], lambda: shared_out([second], 3), "the second member owns all partitions")


def test_a_group_continues_where_it_committed(target: Target, client: Client, topic: str) -> None:
    """The next member reads all records after the committed offset and none before it."""
    producer = client.producer(target.address)
    producer.send(topic, [Record(b"%d" % number) for number in range(10)])
    producer.close()
    first = client.consumer(target.address, topic, group=topic)
    assert len(read(first, 10)) == 10
    first.commit({0: 7})
    first.close()
    second = client.consumer(target.address, topic, group=topic)
    assert [record.offset for record in read(second, 3)] == [7, 8, 9]


def test_all_clients_in_one_group(
    target: Target, clients: dict[str, Client], admin: Any, name: str
) -> None:
    """The range assignors of all client libraries agree on the owners, and each member reads its
    own partitions."""
    create_topic(admin, name, partitions=10)
    members: list[Consumer] = []
    for client in clients.values():
        members.append(client.consumer(target.address, name, group=name, strategy="range"))
        poll_until(members, lambda: shared_out(members, 10), f"with {client.name}")
    assert len(members) == len(CLIENTS)
    producer = clients["java"].producer(target.address)
    producer.send(name, [Record(b"%d" % at, partition=at) for at in range(10)])
    producer.close()
    owned: list[set[int]] = [set() for _ in members]
    found: list[set[int]] = [set() for _ in members]

    def everything_is_read() -> bool:
        """Poll all members in turn: a member that rejoins needs the others."""
        for member, own, its in zip(members, owned, found, strict=True):
            own |= member.assignment()
            its |= {record.partition for record in member.poll(0.1)}
            own |= member.assignment()
        return shared_out(members, 10) and all(
            member.assignment() <= its for member, its in zip(members, found, strict=True)
        )

    wait_until(everything_is_read, "each member has read its own part")
    for own, its in zip(owned, found, strict=True):
        assert its <= own
    assert set().union(*found) == set(range(10))


def test_a_static_member_comes_back_to_its_partitions(
    target: Target, client: Client, topic: str
) -> None:
    """KIP-345: a static member that restarts within its session timeout causes no rebalance."""

    def member(instance_id: str) -> Consumer:
        return client.consumer(target.address, topic, group=topic, instance_id=instance_id)

    first, second = member("one"), member("two")
    poll_until(
        (first, second), lambda: shared_out((first, second), 3), "both members own partitions"
    )
    kept, of_second = first.assignment(), second.assignment()
    first.close()
    returned = member("one")
    poll_until([returned], returned.assignment, "the returned member owns partitions")
    assert returned.assignment() == kept
    assert second.assignment() == of_second


def test_a_second_instance_of_a_static_member_fences_the_first(
    target: Target, clients: dict[str, Client], topic: str
) -> None:
    """KIP-345: of two members with one instance id, the older gets FENCED_INSTANCE_ID."""
    client = clients["java"]
    older = client.consumer(target.address, topic, group=topic, instance_id="same")
    poll_until([older], lambda: shared_out([older], 3), "the first member owns all partitions")
    newer = client.consumer(target.address, topic, group=topic, instance_id="same")
    poll_until([newer], lambda: shared_out([newer], 3), "the newer member owns all partitions")
    with pytest.raises(Refused) as refusal:
        poll_until([older], lambda: False, "the older member is fenced")
    assert refusal.value.fenced, refusal.value


def test_a_crashed_member_loses_its_partitions_after_its_session_timeout(
    target: Target,
    kafka_jars: str,
    python_clients: dict[str, Client],
    topic: str,
    tmp_path: Path,
) -> None:
    """After a session timeout without a heartbeat the other members get its partitions."""
    server = ("--bootstrap-server", target.address, "--topic", topic, "--group-id", topic)
    session = ("--session-timeout", "6000")
    crashing = start_tool("verifiable-consumer", *server, *session, log=tmp_path / "log")
    live = python_clients["confluent-kafka"].consumer(target.address, topic, group=topic)
    try:
        poll_until([live], lambda: 0 < len(live.assignment()) < 3, "both members own partitions")
    finally:
        crashing.kill()
        crashing.wait()
    poll_until([live], lambda: shared_out([live], 3), "the live member owns all partitions")
