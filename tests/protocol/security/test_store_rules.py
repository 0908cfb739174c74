"""The combinations of settings that Kafka refuses. tests/conformance/stores tries all of them."""

from __future__ import annotations

import re

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.store_rules import check_listener, check_stores
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError

X = Secret("S3cret!")
KEY = TlsSettings(keystore_type="PEM", keystore_key=X, keystore_certificate_chain=X)
TRUST = TlsSettings(truststore_type="PEM", truststore_certificates=X)
FILES = TlsSettings(keystore_location="/k", keystore_password=X, truststore_location="/t")

REFUSED = {
    "key of another type": (KEY._replace(keystore_type="JKS"), "ssl.keystore.key: is only for"),
    "key without chain": (
        KEY._replace(keystore_certificate_chain=None),
        "ssl.keystore.key: needs ssl.keystore.certificate.chain",
    ),
    "key and location": (
        KEY._replace(keystore_location="/k"),
        "ssl.keystore.key: is set beside ssl.keystore.location",
    ),
    "key and password": (
        KEY._replace(keystore_password=X),
        "ssl.keystore.password: is not for ssl.keystore.type=PEM",
    ),
    "chain without key": (
        KEY._replace(keystore_key=None),
        "ssl.keystore.certificate.chain: needs ssl.keystore.key",
    ),
    "PEM file and password": (
        FILES._replace(keystore_type="PEM"),
        "ssl.keystore.password: is not for ssl.keystore.type=PEM",
    ),
    "password without location": (
        FILES._replace(keystore_location=None),
        "ssl.keystore.password: needs ssl.keystore.location",
    ),
    "location without password": (
        FILES._replace(keystore_password=None),
        "ssl.keystore.location: needs ssl.keystore.password",
    ),
    "trusted of another type": (
        TRUST._replace(truststore_type="PKCS12"),
        "ssl.truststore.certificates: is only for ssl.truststore.type=PEM",
    ),
    "trusted and location": (
        TRUST._replace(truststore_location="/t"),
        "ssl.truststore.certificates: is set beside ssl.truststore.location",
    ),
    "trusted and password": (
        TRUST._replace(truststore_password=X),
        "ssl.truststore.password: is not for ssl.truststore.type=PEM",
    ),
    "trusted password without location": (
        TlsSettings(truststore_password=X),
        "ssl.truststore.password: needs ssl.truststore.location",
    ),
    "unknown type": (TlsSettings(keystore_type="BCFKS"), "ssl.keystore.type: is not one of"),
    "unknown trust type": (
        TlsSettings(truststore_type="Windows"),
        "ssl.truststore.type: is not one of",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_combination_is_refused_by_its_setting(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises(TlsSettingsError, match=f"^{re.escape(message)}") as error:
        check_stores(settings)
    assert error.value.setting.startswith("ssl.")
    assert "S3cret" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [TlsSettings(), KEY, TRUST, FILES, FILES._replace(keystore_type="pkcs12"),
     KEY._replace(key_password=X)],
)  # fmt: skip
def test_other_combinations_pass(settings: TlsSettings) -> None:
    check_stores(settings)
    assert "S3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TlsSettings(), "ssl.keystore.location: a listener with TLS needs a key"),
        (KEY._replace(client_auth="Required"), "ssl.client.auth: is not one of none, requested"),
        (KEY._replace(client_auth="required"), "ssl.client.auth: required needs ssl.truststore"),
        (KEY._replace(client_auth="requested"), "ssl.client.auth: requested needs ssl.truststore"),
    ],
)
def test_a_listener_needs_its_stores(settings: TlsSettings, message: str) -> None:
    with pytest.raises(TlsSettingsError, match=f"^{re.escape(message)}"):
        check_listener(settings)


def test_a_listener_with_its_stores_passes() -> None:
    for settings in (KEY, FILES, FILES._replace(client_auth="required")):
        check_listener(settings)
        assert settings.client_auth in ("none", "required")
