"""The settings of TLS and SASL: what a client accepts, and what it refuses by name, without the
value of a secret."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import pytest

from oncelog_client.core.client_config import AdminConfig, admin_config
from oncelog_client.core.sasl_login import password_login, token_place
from oncelog_client.core.tls_config import tls_settings
from oncelog_client.errors import ConfigError
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.login import SaslCredentials
from oncelog_protocol.security.mechanisms import SaslMechanism

CANARY = "S3cret!"
_MODULES = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_MODULES}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_MODULES}.scram.ScramLoginModule"
OAUTH_MODULE = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
PLAIN_JAAS = f'{PLAIN_MODULE} required username="u" password="{CANARY}";'
SCRAM_JAAS = f'{SCRAM_MODULE} required username="u" password="{CANARY}";'
USER = {"sasl_username": "u", "sasl_password": CANARY}
PLAIN: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
OAUTH: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
ENDPOINT = {"sasl_oauthbearer_token_endpoint_url": "https://issuer/token"}
CLIENT = {
    "sasl_oauthbearer_client_credentials_client_id": "me",
    "sasl_oauthbearer_client_credentials_client_secret": CANARY,
}


def config(**settings: Any) -> AdminConfig:
    return admin_config("broker:9092", settings)  # type: ignore[arg-type]  # typed by name


def token() -> str:
    return "a token"


@pytest.mark.parametrize("name", ["ssl", "Sasl_Ssl", "SASL_PLAINTEXT", "plaintext"])
def test_the_protocol_is_accepted_in_any_case_as_in_kafka(name: str) -> None:
    login = {"sasl_mechanism": "PLAIN", **USER}
    assert config(security_protocol=name, **login).security_protocol == name.upper()


@pytest.mark.parametrize(
    ("settings", "has_tls", "has_sasl"),
    [
        ({}, False, False),
        ({"security_protocol": "SSL"}, True, False),
        ({**PLAIN, **USER, "security_protocol": "SASL_PLAINTEXT"}, False, True),
        ({**PLAIN, **USER}, True, True),
    ],
)
def test_the_protocol_decides_about_tls_and_sasl(
    settings: dict[str, Any], has_tls: bool, has_sasl: bool
) -> None:
    made = config(**settings)
    assert (made.has_tls, made.has_sasl) == (has_tls, has_sasl)


@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        ("PLAIN", USER),
        ("PLAIN", {"sasl_jaas_config": PLAIN_JAAS}),
        ("PLAIN", {"sasl_jaas_config": Secret("shaded." + PLAIN_JAAS)}),
        ("SCRAM-SHA-256", {"sasl_jaas_config": SCRAM_JAAS}),
        ("SCRAM-SHA-512", {"sasl_jaas_config": SCRAM_JAAS}),
        ("SCRAM-SHA-512", USER),
    ],
)
def test_a_name_and_a_password_come_from_either_form(
    mechanism: str, settings: dict[str, Any]
) -> None:
    made = config(security_protocol="SASL_SSL", sasl_mechanism=mechanism, **settings)
    expected = SaslCredentials(SaslMechanism(mechanism), "u", Secret(CANARY))
    assert password_login(vars(made)) == expected
    assert token_place(vars(made)) is None


@pytest.mark.parametrize(
    ("settings", "url", "client", "scope"),
    [
        ({**ENDPOINT, **CLIENT}, "https://issuer/token", "me", None),
        (
            {
                **ENDPOINT,
                "sasl_jaas_config": f'{OAUTH_MODULE} required clientId="me" '
                f'clientSecret="{CANARY}" scope="s";',
            },
            "https://issuer/token",
            "me",
            "s",
        ),
        ({"sasl_oauthbearer_token_endpoint_url": "file:///token"}, "file:///token", None, None),
    ],
)
def test_a_token_comes_from_an_endpoint_or_a_file(
    settings: dict[str, Any], url: str, client: str | None, scope: str | None
) -> None:
    made = config(**OAUTH, **settings)
    place = token_place(vars(made))
    assert place is not None
    assert place.url == url
    if client is None:
        assert place.credentials is None
    else:
        assert place.credentials is not None
        assert (place.credentials.client_id, place.credentials.scope) == (client, scope)
        assert place.credentials.client_secret == Secret(CANARY)
    assert password_login(vars(made)) is None


def test_a_token_comes_from_a_function() -> None:
    place = token_place(vars(config(**OAUTH, sasl_oauthbearer_token=token)))
    assert place is not None
    assert place.callback is token


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"security_protocol": "TLS"}, "security_protocol='TLS' is not one of PLAINTEXT, SSL"),
    ({"security_protocol": 1}, "security_protocol=1 is not a text"),
    ({"ssl_truststore_location": "x"}, "no effect without security_protocol: .* SSL or SASL_SSL"),
    (USER, "sasl_username has no effect without security_protocol: .* SASL_PLAINTEXT or SASL_SSL"),
    ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism, one of PLAIN, SCRAM-SHA-256"),
    ({**PLAIN, "sasl_mechanism": "GSSAPI"}, r"GSSAPI \(Kerberos\) is not supported"),
    ({**PLAIN, "sasl_mechanism": "plain"}, "sasl_mechanism='plain' is not one of PLAIN"),
    (PLAIN, "needs sasl_jaas_config, or sasl_username and sasl_password"),
    ({**PLAIN, "sasl_username": "u"}, "sasl_username needs sasl_password"),
    ({**PLAIN, "sasl_password": CANARY}, "sasl_password needs sasl_username"),
    ({**PLAIN, **USER, "sasl_jaas_config": PLAIN_JAAS}, "sasl_username cannot be used with sasl_j"),
    ({**PLAIN, "sasl_jaas_config": SCRAM_JAAS}, "sasl_jaas_config has ScramLoginModule, but"),
    ({**PLAIN, "sasl_jaas_config": PLAIN_JAAS[:-1]}, "sasl_jaas_config "),
    ({**PLAIN, "sasl_jaas_config": CANARY}, "sasl_jaas_config "),
    ({**PLAIN, "sasl_jaas_config": f"{PLAIN_MODULE} required;"}, "has no option username and no"),
    (
        {**PLAIN, **USER, "sasl_oauthbearer_token": token},
        "cannot be used with sasl_mechanism=PLAIN",
    ),
    (OAUTH, "needs sasl_oauthbearer_token or sasl_oauthbearer_token_endpoint_url"),
    ({**OAUTH, **USER}, "sasl_username cannot be used with sasl_mechanism=OAUTHBEARER"),
    ({**OAUTH, **ENDPOINT}, "needs sasl_oauthbearer_client_credentials_client_id and sasl_oauth"),
    (
        {**OAUTH, **ENDPOINT, "sasl_oauthbearer_token": token},
        "cannot be used with sasl_oauthbearer",
    ),
    ({**OAUTH, **ENDPOINT, "sasl_jaas_config": PLAIN_JAAS}, "has PlainLoginModule, but"),
    (
        {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "ldap"},
        "neither https",
    ),
    ({"security_protocol": "SSL", "ssl_truststore_type": "DER"}, "ssl_truststore_type: is not one"),
    ({"security_protocol": "SSL", "ssl_keystore_key": CANARY}, "ssl_keystore_key: is only for"),
    (
        {"security_protocol": "SSL", "ssl_keystore_type": "PEM", "ssl_keystore_key": CANARY},
        "ssl_keystore_key: needs ssl.keystore.certificate.chain",
    ),
    (
        {"security_protocol": "SSL", "ssl_truststore_password": CANARY},
        "ssl_truststore_password: needs ssl.truststore.location",
    ),
    ({"security_protocol": "SSL", "ssl_enabled_protocols": ["TLSv1"]}, "ssl_enabled_protocols: "),
    ({"security_protocol": "SSL", "ssl_cipher_suites": "RC4"}, "ssl_cipher_suites: "),
    ({"ssl_engine_factory_class": "x"}, "ssl_engine_factory_class is not supported: it names a"),
    ({"sasl.jaas.confg": CANARY}, "did you mean sasl_jaas_config"),
]


@pytest.mark.parametrize(("settings", "reason"), REFUSED)
def test_a_contradiction_is_refused_by_name_without_a_secret(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        config(**settings)
    error = caught.value
    assert CANARY not in "".join(traceback.format_exception(error)) + repr(error)
    assert CANARY not in str(vars(error))


def test_an_explicit_plaintext_ignores_the_other_settings_as_kafka_does() -> None:
    made = config(security_protocol="PLAINTEXT", ssl_truststore_location="x", **USER)
    assert not made.has_tls
    assert not made.has_sasl


SECRETS = (
    "sasl_jaas_config",
    "sasl_password",
    "sasl_oauthbearer_client_credentials_client_secret",
    "ssl_truststore_password",
    "ssl_truststore_certificates",
    "ssl_keystore_password",
    "ssl_keystore_key",
    "ssl_keystore_certificate_chain",
    "ssl_key_password",
)


def test_no_config_shows_a_secret_and_every_secret_survives_pickling() -> None:
    made = config(security_protocol="PLAINTEXT", **dict.fromkeys(SECRETS, CANARY))
    shown = f"{made!r} {made} {vars(made)}"
    assert CANARY not in shown
    assert shown.count("sasl_password=[hidden]") == 2
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert hash(again) == hash(made)
    for name in SECRETS:
        assert getattr(again, name) == Secret(CANARY)


def test_configs_with_different_passwords_are_different() -> None:
    assert config(**PLAIN, **USER) != config(**PLAIN, **USER | {"sasl_password": "another"})


def test_tls_settings_have_kafkas_defaults_and_the_given_values() -> None:
    assert tls_settings(vars(config(security_protocol="SSL"))) == tls_settings({})
    made = config(
        security_protocol="SSL",
        ssl_enabled_protocols="TLSv1.3",
        ssl_cipher_suites=[],
        ssl_truststore_type="pem",
        ssl_truststore_location="ca.pem",
        ssl_endpoint_identification_algorithm="",
    )
    settings = tls_settings(vars(made))
    assert settings.enabled_protocols == ("TLSv1.3",)
    assert settings.cipher_suites == ()
    assert (settings.truststore_type, settings.truststore_location) == ("pem", "ca.pem")
    assert settings.endpoint_identification_algorithm == ""
