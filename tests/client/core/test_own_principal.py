"""The principal of a client, from its settings."""

from __future__ import annotations

import pytest

from oncelog_client.config import AdminSettings, admin_config
from oncelog_client.core.own_principal import own_principal

SCRAM = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="x"'
BEARER = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": lambda: "token"}


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security_protocol": "SSL"}, "User:ANONYMOUS"),
        (
            {
                "security_protocol": "SSL",
                "ssl_keystore_type": "PEM",
                "ssl_keystore_location": "/client.pem",
            },
            None,
        ),
        (SCRAM | {"sasl_username": "alice", "sasl_password": "x"}, "User:alice"),
        (SCRAM | {"sasl_jaas_config": JAAS.format("a b") + ";"}, "User:a b"),
        (SCRAM | {"sasl_jaas_config": JAAS.format("id") + " tokenauth=true;"}, None),
        ({"security_protocol": "SASL_SSL"} | BEARER, None),
    ],
)
def test_a_principal_is_known_by_name_or_unknown(
    settings: AdminSettings, principal: str | None
) -> None:
    assert own_principal(vars(admin_config("localhost:9092", settings))) == principal
