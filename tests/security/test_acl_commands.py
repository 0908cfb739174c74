"""Commands of a client that lacks a right on the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.client.cli.conftest import CommandLine
from tests.harness.certificates import Certificates
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
        text = alice.refused(*EXPLAIN, *by_alice)
        assert "CLUSTER_AUTHORIZATION_FAILED" in text
        assert f"DESCRIBE on CLUSTER kafka-cluster, which User:{USER} does not have" in text
        way_out = f"oncelog acls add --allow User:{USER} --operation describe --cluster"
        assert way_out in " ".join(text.split())
        assert PASSWORD not in text
        operator.text(*way_out.split()[1:])
        assert "User:bob may not READ TOPIC orders" in alice.text(*EXPLAIN, *by_alice)


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
