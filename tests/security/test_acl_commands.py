"""`oncelog acls` for a client that may not see access rules."""

from __future__ import annotations

from pathlib import Path

from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.client.cli.conftest import CommandLine
from tests.harness.certificates import Certificates
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog

EXPLAIN = (
    "acls", "explain", "--principal", "User:bob", "--operation", "read", "--topic", "orders",
)  # fmt: skip


def test_the_error_names_the_missing_right_the_principal_and_the_way_out(
    tmp_path: Path, certificates: Certificates
) -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    properties = tmp_path / "alice.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{PASSWORD}";\n'
    )
    with SecuredOncelog(tmp_path / "broker", certificates, settings) as broker:
        alice = CommandLine(broker.address_of("SASL_PLAINTEXT"))
        by_alice = ("--command-config", str(properties))
        text = alice.refused(*EXPLAIN, *by_alice)
        assert "CLUSTER_AUTHORIZATION_FAILED" in text
        assert f"DESCRIBE on CLUSTER kafka-cluster, which User:{USER} does not have" in text
        way_out = f"oncelog acls add --allow User:{USER} --operation describe --cluster"
        assert way_out in " ".join(text.split())
        assert PASSWORD not in text
        CommandLine(broker.address_of("PLAINTEXT")).text(*way_out.split()[1:])
        assert "User:bob may not READ TOPIC orders" in alice.text(*EXPLAIN, *by_alice)
