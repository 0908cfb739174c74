"""Commands of a client that lacks a right on the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.client.cli.conftest import CommandLine
from tests.harness.certificates import Certificates
from tests.harness.writing import batch, new_identity, produce
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog

EXPLAIN = (
    "acls", "explain", "--principal", "User:bob", "--operation", "read", "--topic", "orders",
)  # fmt: skip

# A command, and the right on the cluster that it needs first.
REFUSED = (
    (("acls", "list"), "DESCRIBE"),
    (("acls", "add", "--allow", "User:bob", "--operation", "read", "--topic", "t"), "ALTER"),
    (("acls", "remove", "--all"), "ALTER"),
    (("users", "list"), "DESCRIBE"),
    (("users", "remove", "bob", "--mechanism", "SCRAM-SHA-256"), "DESCRIBE"),
    (("quotas", "list"), "DESCRIBE_CONFIGS"),
    (("quotas", "remove", "--user", "bob"), "DESCRIBE_CONFIGS"),
    (("config", "--describe", "--broker-defaults"), "DESCRIBE_CONFIGS"),
    (
        ("config", "--alter", "--broker", "1", "--add-config", "log.retention.ms=5"),
        "DESCRIBE_CONFIGS",
    ),
    (("cluster", "health"), "DESCRIBE"),
    (("cluster", "doctor"), "DESCRIBE"),
    (("cluster", "rebalance"), "DESCRIBE"),
    (("cluster", "rebalance", "--cancel"), "DESCRIBE"),
    (("cluster", "drain", "1", "--execute"), "DESCRIBE"),
    (("cluster", "unregister", "1"), "DESCRIBE"),
)
# A command about another resource, and the right that it needs.
REFUSED_RESOURCES = (
    (("topic", "create", "t"), "TOPIC_AUTHORIZATION_FAILED: t: Authorization failed", "CREATE"),
    (("topic", "describe", "t"), "TOPIC_AUTHORIZATION_FAILED: t", "DESCRIBE"),
    (("config", "--describe", "--topic", "t"), "TOPIC_AUTHORIZATION_FAILED: t", "DESCRIBE_CONFIGS"),
    (("consume", "t", "-e"), "TOPIC_AUTHORIZATION_FAILED: t", "READ"),
    (("produce", "t"), "TOPIC_AUTHORIZATION_FAILED: t", "WRITE"),
    (("group", "describe", "g"), "GROUP_AUTHORIZATION_FAILED: g", "DESCRIBE"),
    (("group", "delete", "g"), "GROUP_AUTHORIZATION_FAILED: g", "DELETE"),
    (("txn", "describe", "x"), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: x", "DESCRIBE"),
    (("txn", "abort", "x"), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: x", "DESCRIBE"),
)


@contextmanager
def alice_and_operator(
    tmp_path: Path, certificates: Certificates
) -> Iterator[tuple[CommandLine, tuple[str, str], CommandLine]]:
    """Yield a command line, its options for a login as a user without rights, and the command line
    of a super user."""
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    properties = tmp_path / "alice.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{PASSWORD}";\n'
    )
    with SecuredOncelog(tmp_path / "broker", certificates, settings) as broker:
        yield (
            CommandLine(broker.address_of("SASL_PLAINTEXT")),
            ("--command-config", str(properties)),
            CommandLine(broker.address_of("PLAINTEXT")),
        )


def test_the_error_names_the_missing_right_the_principal_and_the_way_out(
    tmp_path: Path, certificates: Certificates
) -> None:
    with alice_and_operator(tmp_path, certificates) as (alice, by_alice, operator):
        refused = alice.call(*EXPLAIN, *by_alice)
        assert refused.exit_code == 1
        text = refused.output
        assert "CLUSTER_AUTHORIZATION_FAILED" in text
        assert f"DESCRIBE on CLUSTER kafka-cluster, which User:{USER} does not have" in text
        way_out = f"oncelog acls add --allow User:{USER} --operation describe --cluster"
        assert way_out in " ".join(text.split())
        assert PASSWORD not in text
        operator.text(*way_out.split()[1:])
        denied = alice.call(*EXPLAIN, *by_alice)
        assert "User:bob may not READ TOPIC orders" in denied.stdout
        assert denied.exit_code == 3, "a refused question has the code 1"


def test_each_command_about_the_cluster_names_the_missing_right(
    tmp_path: Path, certificates: Certificates
) -> None:
    with alice_and_operator(tmp_path, certificates) as (alice, by_alice, operator):
        for command, right in REFUSED:
            text = " ".join(alice.refused(*command, *by_alice).split())
            assert f"{right} on CLUSTER kafka-cluster, which User:{USER} does not have" in text
            operation = right.lower().replace("_", "-")
            assert f"acls add --allow User:{USER} --operation {operation} --cluster" in text
        for operation in ("describe", "describe-configs"):
            way_out = f"acls add --allow User:{USER} --operation {operation} --cluster"
            operator.text(*way_out.split())
        limit = ("quotas", "set", "--user", "bob", "request_percentage=5")
        assert "ALTER_CONFIGS on CLUSTER kafka-cluster" in alice.refused(*limit, *by_alice)
        retention = ("config", "--alter", "--broker-defaults", "--add-config", "log.retention.ms=5")
        assert "ALTER_CONFIGS on CLUSTER kafka-cluster" in alice.refused(*retention, *by_alice)


def test_the_doctor_names_the_right_that_each_check_lacks(
    tmp_path: Path, certificates: Certificates
) -> None:
    with alice_and_operator(tmp_path, certificates) as (alice, by_alice, _):
        rows = json.loads(alice.call("doctor", "--json", *by_alice).stdout)
        found = {row["check"]: row["found"] for row in rows}
        for check, right in (("settings", "DESCRIBE_CONFIGS"), ("disk", "DESCRIBE")):
            needed = f"this needs {right} on CLUSTER kafka-cluster, which User:{USER} does not have"
            assert needed in found[check]


def test_an_open_transaction_of_a_hidden_id_is_not_called_hanging(
    tmp_path: Path, certificates: Certificates
) -> None:
    """A coordinator knows the transaction. The user may not describe its transactional id, so the
    brokers do not list it."""
    with alice_and_operator(tmp_path, certificates) as (alice, by_alice, operator):
        nothing = alice.call("txn", "blocking", *by_alice).output
        needed = f"this needs DESCRIBE on TOPIC, which User:{USER} has for no topic"
        assert f"no open transaction is visible: {needed}" in nothing
        operator.create("t")
        allow = ("acls", "add", "--allow", f"User:{USER}", "--topic", "t", "--operation", "read")
        operator.text(*allow)
        nothing = alice.call("txn", "blocking", *by_alice).output
        assert f"in 1 topic that User:{USER} may describe" in nothing
        with Wire(operator.address) as wire:
            producer = new_identity(wire, "secret-id")
            sent = produce(wire, "t", batch(producer, 0), producer=producer)
            assert sent.error_code == ErrorCode.NONE
            text = " ".join(alice.text("txn", "blocking", *by_alice).split())
            (row,) = alice.json("txn", "blocking", *by_alice)
            hanging = alice.call(
                "transactions",
                "find-hanging",
                "--topic",
                "t",
                "--max-transaction-timeout",
                "0",
                *by_alice,
            )
            aborting = str(producer.producer_id)
            refused = alice.refused("txn", "blocking", "--abort", aborting, *by_alice)
        assert "this user does not see its transactional id" in text
        assert "DESCRIBE on its TRANSACTIONAL_ID" in text
        assert "Hanging" not in text
        assert "abort" not in text
        assert row["state"] == "Not visible"
        assert "no hanging transactions" in hanging.output
        assert "DESCRIBE on TRANSACTIONAL_ID" in hanging.output
        assert "Nothing was aborted" in refused
        assert "Ongoing" in operator.text("txn", "blocking")


def test_each_command_about_another_resource_names_the_missing_right(
    tmp_path: Path, certificates: Certificates
) -> None:
    with alice_and_operator(tmp_path, certificates) as (alice, by_alice, operator):
        operator.create("t")
        for command, refusal, operation in REFUSED_RESOURCES:
            text = " ".join(alice.refused(*command, *by_alice, lines="x\n").split())
            kind = refusal.split("_AUTH")[0]
            right = f"{operation} on {kind}, which User:{USER} does not have"
            assert f"{refusal}: this needs {right}" in text, command
