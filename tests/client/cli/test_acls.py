"""`oncelog acls` with brokers that have an authorizer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.client.cli.conftest import QUICK, CommandLine
from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka

SINK = ("add", "--allow", "User:a", "--oncelog-sink", "s", "--topic", "t")


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def authorizing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    settings = {
        **QUICK,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:root",
    }
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
    kind = Kafka if request.param == "kafka" else Oncelog
    with kind(tmp_path_factory.mktemp("authorizing"), settings) as broker:
        yield CommandLine(broker.address)


def row(name: str, operation: str, principal: str, **other: str) -> dict[str, str]:
    return {
        "permission": "ALLOW",
        "operation": operation,
        "principal": principal,
        "host": "*",
        "resource": "TOPIC",
        "name": name,
        "pattern": "LITERAL",
    } | other


def explained(command_line: CommandLine, name: str, principal: str, operation: str) -> Any:
    question = ("--principal", principal, "--operation", operation, "--topic", name)
    return answer(command_line, *question)


def answer(command_line: CommandLine, *question: str) -> Any:
    """Return the answer to a question. Its exit code is 0 for yes and 3 for no."""
    result = command_line.call("acls", "explain", *question, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == (0 if found["allowed"] else 3), result.output
    return found


def test_only_prefixed_rules_of_a_principal_are_removed(
    authorizing: CommandLine, name: str
) -> None:
    carol = f"User:c-{name}"
    to_read = ("--operation", "read", "--topic", name)
    authorizing.text("acls", "add", "--allow", carol, *to_read, "--prefixed")
    authorizing.text("acls", "add", "--deny", carol, *to_read)
    by_name = ("acls", "list", "--principal", carol)
    authorizing.settled(lambda rows: len(rows) == 2, *by_name)
    removed = authorizing.json("acls", "remove", "--principal", carol, "--prefixed")
    assert removed == [{**row(name, "READ", carol, pattern="PREFIXED"), "result": "removed"}]
    left = row(name, "READ", carol, permission="DENY")
    authorizing.settled(lambda rows: rows == [left], *by_name)
    for other in ("--all", "--cluster"):
        assert authorizing.call("acls", "remove", other, "--prefixed").exit_code == 2


def test_rules_are_added_listed_and_removed(authorizing: CommandLine, name: str) -> None:
    alice, bob = f"User:a-{name}", f"User:b-{name}"
    both = ("--operation", "read", "--operation", "describe-configs")
    added = authorizing.json("acls", "add", "--allow", alice, *both, "--topic", name)
    expected = [row(name, "READ", alice), row(name, "DESCRIBE_CONFIGS", alice)]
    assert added == [{**rule, "result": "added"} for rule in expected]
    prefix = name[:-2]
    authorizing.text(
        "acls", "add", "--deny", bob, "--operation", "all", "--topic", prefix, "--prefixed",
        "--host", "10.0.0.1",
    )  # fmt: skip
    denied = row(prefix, "ALL", bob, permission="DENY", host="10.0.0.1", pattern="PREFIXED")
    by_name = ("acls", "list", "--topic", name)
    authorizing.settled(lambda rows: len(rows) == 3, *by_name)
    listed = authorizing.json(*by_name)
    assert sorted(map(str, listed)) == sorted(map(str, [*expected, denied]))
    assert denied not in authorizing.json(*by_name, "--exact")
    assert authorizing.json("acls", "list", "--principal", bob) == [denied]
    removed = authorizing.json("acls", "remove", "--principal", alice, "--operation", "read")
    assert removed == [{**expected[0], "result": "removed"}]
    authorizing.settled(lambda rows: len(rows) == 2, *by_name)
    assert authorizing.json("acls", "remove", "--topic", name) == [
        {**expected[1], "result": "removed"}
    ]
    assert "no access rule" in authorizing.refused("acls", "remove", "--topic", name)
    authorizing.text("acls", "remove", "--principal", bob)


def test_the_suggested_commands_allow_the_operation(authorizing: CommandLine, name: str) -> None:
    alice = f"User:a {name}"
    for denied in (("--deny", "User:*", "--host", "10.0.0.1"), ("--deny", alice)):
        authorizing.text("acls", "add", *denied, "--operation", "write", "--topic", name)
    authorizing.text("acls", "add", "--allow", alice, "--operation", "read", "--topic", name)
    authorizing.settled(lambda rows: len(rows) == 3, "acls", "list", "--topic", name)
    found = explained(authorizing, name, alice, "write")
    assert (found["allowed"], found["reason"]) == (False, "denied")
    assert found["deciding"] == [row(name, "WRITE", alice, permission="DENY")]
    assert found["near"] == [{**row(name, "READ", alice), "differs": ["operation"]}]
    assert len(found["to_allow"]) == 2
    for command in found["to_allow"]:
        program, *words = shlex.split(command)
        assert program == "oncelog"
        authorizing.text(*words)
    question = ("--principal", alice, "--operation", "write", "--topic", name)
    authorizing.settled(lambda rows: rows["allowed"], "acls", "explain", *question)
    found = explained(authorizing, name, alice, "write")
    assert found["deciding"] == [row(name, "WRITE", alice)]
    # The rule of another host is still there.
    assert not answer(authorizing, *question, "--host", "10.0.0.1")["allowed"]
    authorizing.text("acls", "remove", "--topic", name)


def test_the_explanation_for_people_is_a_sentence(authorizing: CommandLine, name: str) -> None:
    question = ("--principal", "User:x", "--operation", "read", "--group", name)
    denied = authorizing.call("acls", "explain", *question)
    assert denied.exit_code == 3, denied.output
    text = denied.stdout
    assert f"User:x may not READ GROUP {name}: no rule is about the resource" in text
    assert f"to allow it: oncelog acls add --allow User:x --operation read --group {name}" in text


def test_a_recipe_adds_the_rules_of_a_query_of_spark(authorizing: CommandLine, name: str) -> None:
    spark = f"User:s-{name}"
    rules: dict[str, set[tuple[str, ...]]] = {
        "--oncelog-source": {
            ("READ", "TOPIC", name, "LITERAL"),
            ("READ", "GROUP", f"{name}-lag", "LITERAL"),
        },
        "--oncelog-sink": {
            ("WRITE", "TOPIC", name, "LITERAL"),
            ("WRITE", "TRANSACTIONAL_ID", f"{name}-sink", "LITERAL"),
            ("WRITE", "TRANSACTIONAL_ID", f"{name}-sink/", "PREFIXED"),
            ("READ", "GROUP", f"{name}-sink", "LITERAL"),
            ("READ", "TOPIC", "__oncelog_sink", "LITERAL"),
            ("DESCRIBE", "TOPIC", "__spark_sink_state", "LITERAL"),
        },
    }
    words = {
        "--oncelog-source": ("--oncelog-source", "--group", f"{name}-lag"),
        "--oncelog-sink": ("--oncelog-sink", f"{name}-sink"),
    }
    for option, expected in rules.items():
        added = authorizing.json("acls", "add", "--allow", spark, *words[option], "--topic", name)
        columns = ("operation", "resource", "name", "pattern")
        assert {tuple(rule[column] for column in columns) for rule in added} == expected
        assert {(rule["permission"], rule["principal"]) for rule in added} == {("ALLOW", spark)}
    by_name = ("acls", "list", "--principal", spark)
    authorizing.settled(lambda rows: len(rows) == 8, *by_name)
    authorizing.text("acls", "remove", "--principal", spark)


@pytest.mark.parametrize("authorizing", ["oncelog"], indirect=True)
def test_the_recipe_of_a_sink_names_the_optional_rights(
    authorizing: CommandLine, name: str
) -> None:
    words = ("--oncelog-sink", name, "--sink-protocol", "record", "--topic", name)
    done = authorizing.call("acls", "add", "--allow", "User:s", *words, "--prefixed")
    assert "WRITE" in done.stdout
    assert "CREATE" not in done.stdout
    assert "optional: CREATE on topic __spark_sink_state: the sink creates" in done.stderr
    two_phase = f"TWO_PHASE_COMMIT on transactional ids that begin with {name}: "
    assert f"optional: {two_phase}" in done.stderr
    authorizing.text("acls", "remove", "--principal", "User:s")


@pytest.mark.parametrize("authorizing", ["oncelog"], indirect=True)
def test_a_super_user_is_recognized(authorizing: CommandLine, name: str) -> None:
    found = explained(authorizing, name, "User:root", "write")
    assert (found["allowed"], found["reason"]) == (True, "super_user")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("add", "--allow", "alice", "--operation", "read", "--topic", "t"), "User:alice"),
        (("add", "--operation", "read", "--topic", "t"), "--allow or --deny"),
        (("add", "--allow", "User:a", "--topic", "t"), "--operation is needed"),
        (("add", "--allow", "User:a", "--operation", "read"), "a resource is needed"),
        (
            ("add", "--allow", "User:a", "--operation", "read", "--cluster"),
            "a cluster has no operation read",
        ),
        ((*SINK, "--operation", "read"), "--oncelog-sink chooses the operations"),
        ((*SINK, "--group", "g"), "--oncelog-sink chooses the resources, so --group must be"),
        ((*SINK, "--oncelog-source"), "are for two commands"),
        ((*SINK, "--deny", "User:a"), "have no --deny"),
        (("add", "--allow", "User:a", "--oncelog-sink", "s"), "--oncelog-sink needs --topic"),
        (("add", "--allow", "User:a", "--oncelog-source"), "--oncelog-source needs --topic"),
        (("add", "--oncelog-source", "--topic", "t"), "--allow or --deny"),
        (("add", "--allow", "User:a", "--topic", "t", "--sink-protocol", "record"),
         "--sink-protocol needs --oncelog-sink"),
        (("remove",), "--all for every rule"),
        (("remove", "--all", "--topic", "t"), "--all for every rule"),
        (("explain", "--principal", "User:a", "--operation", "read"), "exactly one resource"),
        (
            ("explain", "--principal", "User:a", "--operation", "read", "--topic", "t",
             "--group", "g"),
            "exactly one resource",
        ),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused_before_it_reaches_a_broker(
    arguments: tuple[str, ...], reason: str
) -> None:
    assert reason in CommandLine("localhost:1").refused("acls", *arguments)


def test_a_broker_without_an_authorizer_says_so(here: CommandLine) -> None:
    assert "uthorizer" in here.refused("acls", "list")
