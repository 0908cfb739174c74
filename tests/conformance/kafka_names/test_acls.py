"""kafka-acls.sh: the same lines as Kafka's tool, from brokers with an authorizer and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK
from tests.harness.kafka.compared import BROKER, ToolPair, run_ours
from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until

SERVER = ("--bootstrap-server", BROKER)
SETTINGS = {
    **QUICK,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
ALICE = ("--allow-principal", "User:alice")


@pytest.fixture(scope="module")
def authorizing(
    kafka_jars: str, java_driver: JavaDriver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ToolPair]:
    """Both tools, each with a broker that has access rules."""
    folder = tmp_path_factory.mktemp("acls")
    with Kafka(folder / "kafka", SETTINGS) as kafka, Oncelog(folder / "o", SETTINGS) as oncelog:
        yield ToolPair(java_driver, kafka.address, oncelog.address)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--nosuch", "x"),
        ("--list",),
        ("--list", *SERVER, "--bootstrap-controller", "x"),
        SERVER,
        (*SERVER, "--list", "--add"),
        (*SERVER, "--list", "--producer", "--topic", "t"),
        (*SERVER, "--list", *ALICE),
        (*SERVER, "--add", "--producer", "--operation", "Read", "--topic", "t"),
        (*SERVER, "--add", "--consumer", "--deny-principal", "User:a", "--topic", "t"),
        (*SERVER, "--add", "--principal", "User:a"),
        (*SERVER, "--add", "--producer"),
        (*SERVER, "--add", "--idempotent", *ALICE),
        (*SERVER, "--add", "--consumer", "--topic", "t", *ALICE),
        (*SERVER, "--add", *ALICE),
        (*SERVER, "--add", "--topic", "t"),
        (*SERVER, "--add", "--topic", "t", *ALICE, "--resource-pattern-type", "match"),
        (*SERVER, "--add", "--topic", "t", *ALICE, "--resource-pattern-type", "some"),
        (*SERVER, "--add", "--topic", "t", "--allow-principal", "alice"),
    ],
    ids=" ".join,
)
def test_a_refused_command_line(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-acls", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [("--list",), ("--add", "--topic", "t", *ALICE), ("--remove", "--force", "--topic", "t")],
    ids=" ".join,
)
def test_a_broker_without_an_authorizer(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-acls", *SERVER, *arguments)


def lines(tools: ToolPair, *arguments: str) -> tuple[list[str], list[str]]:
    """Return what Kafka's tool and ours print. The order of lines is that of a hash table in
    Kafka's tool, so both are sorted. The first rule of a resource has a space before its tab, so
    lines are compared without the space."""
    theirs = tools.kafka_tool("kafka-acls", "--bootstrap-server", tools.kafka, *arguments)
    ours = run_ours("kafka-acls", "--bootstrap-server", tools.oncelog, *arguments)
    assert (theirs.returncode, ours.returncode) == (0, 0), (theirs, ours)
    return _sorted(theirs.stdout), _sorted(ours.stdout)


def _sorted(printed: str) -> list[str]:
    return sorted(line.lstrip(" ") for line in printed.splitlines())


ADDED = (
    ("--topic", "t", *ALICE),
    ("--topic", "t", *ALICE),
    ("--topic", "t", "--topic", "u", "--operation", "Read", "--operation", "alterconfigs", *ALICE),
    ("--group", "g", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1"),
    ("--transactional-id", "sink/", "--resource-pattern-type", "prefixed", *ALICE),
    ("--producer", "--topic", "p", "--transactional-id", "i", "--idempotent", *ALICE),
    ("--consumer", "--topic", "c", "--group", "cg", "--allow-principal", "User:*"),
    ("--cluster", "--operation", "Alter", *ALICE, "--allow-host", "10.0.0.1"),
)
LISTED = (
    (),
    ("--topic", "t"),
    ("--topic", "t", "--group", "g"),
    ("--cluster",),
    ("--transactional-id", "sink/x", "--resource-pattern-type", "match"),
    ("--transactional-id", "sink/", "--resource-pattern-type", "any"),
    ("--principal", "User:alice", "--principal", "User:bob"),
)
REMOVED = (
    ("--topic", "u"),
    ("--topic", "t", "--operation", "Read", *ALICE),
    ("--consumer", "--topic", "c", "--group", "cg", "--allow-principal", "User:*"),
    ("--transactional-id", "sink/x", "--resource-pattern-type", "match"),
)


def test_rules_are_added_listed_and_removed_with_the_same_lines(authorizing: ToolPair) -> None:
    def is_same(*arguments: str) -> bool:
        theirs, ours = lines(authorizing, *arguments)
        return theirs == ours

    for arguments in ADDED:
        # Kafka's broker may not have the rule yet, because its controller writes it.
        theirs, ours = lines(authorizing, "--add", *arguments)
        assert ours == theirs, arguments
        wait_until(lambda: is_same("--list"), "both brokers have the rules")
    for chosen in LISTED:
        theirs, ours = lines(authorizing, "--list", *chosen)
        assert ours == theirs, chosen
        assert theirs
    for removed in REMOVED:
        theirs, ours = lines(authorizing, "--remove", "--force", *removed)
        assert ours == theirs == [], removed
        wait_until(lambda: is_same("--list"), "both brokers have removed the rules")


def test_an_operation_that_a_resource_does_not_have(tools: ToolPair) -> None:
    for operation in ("IdempotentWrite", "ALTER_CONFIGS"):
        arguments = ("--add", "--topic", "t", "--operation", operation, *ALICE)
        ours = run_ours("kafka-acls", "--bootstrap-server", tools.oncelog, *arguments)
        assert ours.returncode == 1
        assert ours.stderr.startswith("ResourceType TOPIC only supports operations [READ, WRITE")
