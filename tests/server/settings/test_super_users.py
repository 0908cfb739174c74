"""The start of a broker with access rules that no client could ever use or change."""

from __future__ import annotations

import pytest

from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_server.config import load_settings
from oncelog_server.settings.model import Settings
from oncelog_server.settings.super_users import unreachable_super_users, ways_out

PROTOCOLS = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:"
SCRAM_256, SCRAM_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
ALICE = (ScramMechanism.SCRAM_SHA_512, "alice")
STORES = (
    "ssl.keystore.location=/server.p12",
    "ssl.keystore.password=canary",
    "ssl.truststore.location=/trust.p12",
    "ssl.truststore.password=canary",
)
PLAIN = (
    "listener.name.external.plain.sasl.jaas.config="
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hunter2";'
)
CERTIFICATES = "ssl.client.auth="
TOKENS = (
    "sasl.enabled.mechanisms=OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url=https://keys.example/jwks",
)


def settings_of(protocol: str, super_users: str, *assignments: str) -> Settings:
    """Return the settings of a broker with a single listener, EXTERNAL."""
    return load_settings(
        assignments=[
            "listeners=EXTERNAL://127.0.0.1:9094",
            PROTOCOLS + protocol,
            f"super.users={super_users}",
            *(STORES if protocol.endswith("SSL") else ()),
            *assignments,
        ]
    ).settings


def mechanisms(*names: str) -> str:
    return f"sasl.enabled.mechanisms={','.join(names)}"


@pytest.mark.parametrize(
    ("protocol", "super_users", "assignments"),
    [
        ("PLAINTEXT", "User:ANONYMOUS", ()),
        ("PLAINTEXT", "User:admin;User:ANONYMOUS", ()),
        ("SSL", "User:ANONYMOUS", ()),
        ("SSL", "User:ANONYMOUS", (CERTIFICATES + "requested",)),
        ("SSL", "User:CN=admin,O=Example", (CERTIFICATES + "requested",)),
        ("SSL", "User:CN=admin,O=Example", (CERTIFICATES + "required",)),
        ("SASL_PLAINTEXT", "User:alice", (mechanisms("PLAIN"), PLAIN)),
        ("SASL_SSL", "User:bob;User:alice", (mechanisms(SCRAM_512),)),
        ("SASL_SSL", "User:alice", (mechanisms(SCRAM_256, SCRAM_512),)),
        ("SASL_SSL", "User:any subject", TOKENS),
    ],
)
def test_a_super_user_that_a_client_can_be(
    protocol: str, super_users: str, assignments: tuple[str, ...]
) -> None:
    settings = settings_of(protocol, super_users, *assignments)
    assert unreachable_super_users(settings, {ALICE}) == ""


@pytest.mark.parametrize(
    ("protocol", "super_users", "assignments", "reason"),
    [
        ("PLAINTEXT", "", (), "super.users is empty"),
        ("PLAINTEXT", "User:admin", (), "the clients of EXTERNAL are User:ANONYMOUS"),
        ("SSL", "User:CN=admin", (), "the clients of EXTERNAL are User:ANONYMOUS"),
        ("SSL", "Group:admins", (CERTIFICATES + "requested",), "clients with a certificate and"),
        ("SASL_PLAINTEXT", "User:bob", (mechanisms("PLAIN"), PLAIN), "plain.sasl.jaas.config"),
        ("SASL_PLAINTEXT", "User:ANONYMOUS", (mechanisms("PLAIN"), PLAIN), "EXTERNAL are the user"),
        ("SASL_SSL", "User:bob", (mechanisms(SCRAM_512),), "a credential of SCRAM-SHA-512"),
        ("SASL_SSL", "User:alice", (mechanisms(SCRAM_256),), "a credential of SCRAM-SHA-256"),
        # With SASL, the principal is that of SASL, although the client has a certificate.
        (
            "SASL_SSL",
            "User:CN=admin",
            (mechanisms(SCRAM_512), "listener.name.external.ssl.client.auth=required"),
            "a credential of SCRAM-SHA-512",
        ),
        ("SASL_SSL", "Group:admins", TOKENS, "the subjects of tokens"),
    ],
)
def test_a_super_user_that_no_client_can_be(
    protocol: str, super_users: str, assignments: tuple[str, ...], reason: str
) -> None:
    settings = settings_of(protocol, super_users, *assignments)
    found = unreachable_super_users(settings, {ALICE})
    assert reason in found
    assert "super.users" in found
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("super_users", "hint"),
    [
        ("User:alice,User:bob", "'User:alice,User:bob' is a single principal, because ';' "),
        ("User:alice, User:bob", "is a single principal, because ';' separates principals"),
        ("user:alice", "'user:alice' has another type: a principal begins with 'User:'"),
    ],
)
def test_a_principal_in_a_wrong_form_is_named(super_users: str, hint: str) -> None:
    enabled = f"sasl.enabled.mechanisms={SCRAM_512}"
    settings = settings_of("SASL_PLAINTEXT", super_users, enabled)
    reason = unreachable_super_users(settings, {ALICE})
    assert hint in reason
    other = unreachable_super_users(settings_of("SASL_PLAINTEXT", "User:carol", enabled), {ALICE})
    assert "principal" not in other


def test_the_file_of_first_users_is_a_way_out_only_without_a_credential() -> None:
    settings = settings_of("SASL_SSL", "User:bob", mechanisms(SCRAM_512))
    assert "ONCELOG_BOOTSTRAP_USER_FILE" in ways_out(settings, ())
    assert "ONCELOG_BOOTSTRAP_USER_FILE" not in ways_out(settings, {ALICE})
    plain = settings_of("PLAINTEXT", "User:bob")
    assert "ONCELOG_BOOTSTRAP_USER_FILE" not in ways_out(plain, ())
