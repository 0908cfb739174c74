"""kafka-configs.sh of the image prints the lines of Kafka's tool about quotas."""

from __future__ import annotations

import pytest

from tests.harness.kafka.compared import BROKER, ToolPair
from tests.harness.waiting import wait_until

SERVER = ("--bootstrap-server", BROKER)
ALTER, DESCRIBE = (*SERVER, "--alter"), (*SERVER, "--describe")
RATE, FETCH = "producer_byte_rate", "consumer_byte_rate"
PERCENT, MUTATIONS = "request_percentage", "controller_mutation_rate"


def same(tools: ToolPair, *arguments: str) -> list[str]:
    return tools.check_same("kafka-configs", *arguments).out


@pytest.mark.parametrize(
    "arguments",
    [
        (*ALTER, "--user", "a"),
        (*ALTER, "--entity-type", "users", "--add-config", f"{RATE}=1"),
        (*ALTER, "--user", "a", "--add-config", "nosuch=1"),
        (*ALTER, "--user", "a", "--delete-config", "nosuch"),
        (*ALTER, "--client", "a", "--add-config", "nosuch=1"),
        (*ALTER, "--user", "a", "--client", "a", "--delete-config", f"nosuch,{RATE}"),
        (*ALTER, "--ip", "10.0.0.1", "--add-config", f"{RATE}=1"),
        (*ALTER, "--ip", "not an address", "--add-config", "connection_creation_rate=1"),
        (*ALTER, "--user", "a", "--add-config", f"{RATE}=soon"),
        (*ALTER, "--user", "a", "--add-config", f"{RATE}=0"),
        (*ALTER, "--user", "a", "--add-config", f"{RATE}=1.5"),
        (*ALTER, "--user", "a", "--delete-config", RATE),
        (*ALTER, "--user", "a", "--ip", "10.0.0.1", "--add-config", f"{RATE}=1"),
        (*ALTER, "--user", "a", "--entity-type", "clients", "--add-config", f"{RATE}=1"),
        (*DESCRIBE, "--user", "a", "--entity-name", "b"),
        (*DESCRIBE, "--user", "a", "--add-config", f"{RATE}=1"),
        (*DESCRIBE, "--entity-type", "users", "--entity-type", "users"),
        (*DESCRIBE, "--entity-type", "users", "--entity-name", "a", "--entity-name", "b"),
        ("--describe", "--user", "a"),
        (*DESCRIBE, "--entity-type", "ips"),
        (*DESCRIBE, "--user-defaults"),
    ],
    ids=" ".join,
)
def test_a_command_line_that_changes_nothing(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-configs", *arguments)


@pytest.mark.parametrize(
    "entity",
    [
        ("--user", "NAME"),
        ("--client", "NAME"),
        ("--user", "NAME", "--client", "NAME"),
        ("--entity-type", "users", "--entity-name", "NAME", "--entity-type", "clients",
         "--entity-default"),
        ("--entity-type", "clients", "--entity-name", "NAME", "--entity-type", "users",
         "--entity-default"),
        ("--user-defaults", "--client", "NAME"),
        ("--entity-type", "users", "--entity-name", "NAME"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_quotas_are_set_described_and_removed(
    tools: ToolPair, name: str, entity: tuple[str, ...]
) -> None:
    named = tuple(name if word == "NAME" else word for word in entity)
    quotas = f"{RATE}=10485760,{FETCH}=1024,{PERCENT}=12.5,{MUTATIONS}=0.0001"
    (line,) = same(tools, *ALTER, *named, "--add-config", quotas)
    assert line.startswith("Completed updating")
    (described,) = same(tools, *DESCRIBE, *named)
    assert f"{RATE}=1.048576E7" in described
    same(
        tools, *ALTER, *named, "--delete-config", f"{RATE},{PERCENT}", "--add-config", f"{FETCH}=7"
    )
    same(tools, *DESCRIBE, *named)
    same(tools, *ALTER, *named, "--delete-config", f"{FETCH},{MUTATIONS}")
    assert same(tools, *DESCRIBE, *named) == []


def test_a_user_with_quotas_and_a_credential(tools: ToolPair, name: str) -> None:
    credential = "SCRAM-SHA-256=[iterations=8192,password=a-secret]"
    same(tools, *ALTER, "--user", name, "--add-config", credential)
    same(tools, *ALTER, "--user", name, "--add-config", f"{RATE}=5")
    arguments = ("kafka-configs", "--bootstrap-server", tools.kafka, "--describe", "--user", name)
    wait_until(lambda: "SCRAM" in tools.kafka_tool(*arguments).stdout, "the credential")
    described = same(tools, *DESCRIBE, "--user", name)
    assert [line.split(" configs ")[0] for line in described] == ["Quota", "SCRAM credential"]
    assert len(same(tools, *DESCRIBE, "--entity-type", "users")) == 2
    assert len(same(tools, *DESCRIBE, "--user", name, "--client", "c")) == 0
    same(tools, *ALTER, "--user", name, "--client", "c", "--add-config", credential)
    same(tools, *ALTER, "--client", "c", "--add-config", f"{credential},nosuch=1")
    same(tools, *ALTER, "--client", "c", "--delete-config", "SCRAM-SHA-256,nosuch")
    same(tools, *ALTER, "--user", name, "--delete-config", f"SCRAM-SHA-256,{RATE}")
    same(tools, *ALTER, "--user", name, "--delete-config", RATE)
    same(tools, *ALTER, "--user", name, "--delete-config", "SCRAM-SHA-256")


def test_quotas_of_addresses(tools: ToolPair) -> None:
    rate = "connection_creation_rate"
    for entity in (("--ip", "10.1.2.3"), ("--ip-defaults",), ("--ip", "fe80::1")):
        same(tools, *ALTER, *entity, "--add-config", f"{rate}=5")
        assert len(same(tools, *DESCRIBE, *entity)) == 1
    assert len(same(tools, *DESCRIBE, "--entity-type", "ips")) == 3
    for entity in (("--ip", "10.1.2.3"), ("--ip-defaults",), ("--ip", "fe80::1")):
        same(tools, *ALTER, *entity, "--delete-config", rate)


def test_many_entities_are_in_the_order_of_kafkas_tool(tools: ToolPair, name: str) -> None:
    users = [f"{name}-{number}" for number in range(8)]
    for user in users:
        same(tools, *ALTER, "--user", user, "--client-defaults", "--add-config", f"{RATE}=5")
    kinds = ("--entity-type", "users", "--entity-type", "clients")
    assert len(same(tools, *DESCRIBE, *kinds)) == len(users)
    for user in users:
        same(tools, *ALTER, "--user", user, "--client-defaults", "--delete-config", RATE)
