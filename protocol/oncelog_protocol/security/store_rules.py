"""The combinations of settings of a key store or a trust store that Kafka refuses
(DefaultSslEngineFactory.createKeystore and createTruststore)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError

PEM: Final = "PEM"
STORE_TYPES: Final = ("JKS", "PKCS12", PEM)


class _Rule(NamedTuple):
    """A combination that is refused, with the setting and the reason that the error names."""

    applies: Callable[[TlsSettings], bool]
    setting: str
    reason: str


_KEY_STORE_RULES: Final = (
    _Rule(
        lambda s: s.keystore_type.upper() not in STORE_TYPES,
        "ssl.keystore.type",
        "is not one of JKS, PKCS12 and PEM",
    ),
    _Rule(
        lambda s: s.keystore_key is not None and s.keystore_type.upper() != PEM,
        "ssl.keystore.key",
        "is only for ssl.keystore.type=PEM",
    ),
    _Rule(
        lambda s: s.keystore_key is not None and s.keystore_certificate_chain is None,
        "ssl.keystore.key",
        "needs ssl.keystore.certificate.chain, which is not set",
    ),
    _Rule(
        lambda s: s.keystore_key is not None and s.keystore_location is not None,
        "ssl.keystore.key",
        "is set beside ssl.keystore.location: remove either of the two",
    ),
    _Rule(
        lambda s: s.keystore_key is None and s.keystore_certificate_chain is not None,
        "ssl.keystore.certificate.chain",
        "needs ssl.keystore.key, which is not set",
    ),
    _Rule(
        lambda s: (
            s.keystore_password is not None
            and s.keystore_type.upper() == PEM
            and (s.keystore_key is not None or s.keystore_location is not None)
        ),
        "ssl.keystore.password",
        "is not for ssl.keystore.type=PEM: the password of a key in PEM is ssl.key.password",
    ),
    _Rule(
        lambda s: s.keystore_password is not None and s.keystore_location is None,
        "ssl.keystore.password",
        "needs ssl.keystore.location, which is not set",
    ),
    _Rule(
        lambda s: (
            s.keystore_location is not None
            and s.keystore_password is None
            and s.keystore_type.upper() != PEM
        ),
        "ssl.keystore.location",
        "needs ssl.keystore.password, which is not set (or ssl.keystore.type=PEM for PEM)",
    ),
)

_TRUST_STORE_RULES: Final = (
    _Rule(
        lambda s: s.truststore_type.upper() not in STORE_TYPES,
        "ssl.truststore.type",
        "is not one of JKS, PKCS12 and PEM",
    ),
    _Rule(
        lambda s: s.truststore_certificates is not None and s.truststore_type.upper() != PEM,
        "ssl.truststore.certificates",
        "is only for ssl.truststore.type=PEM",
    ),
    _Rule(
        lambda s: s.truststore_certificates is not None and s.truststore_location is not None,
        "ssl.truststore.certificates",
        "is set beside ssl.truststore.location: remove either of the two",
    ),
    _Rule(
        lambda s: (
            s.truststore_password is not None
            and s.truststore_type.upper() == PEM
            and (s.truststore_certificates is not None or s.truststore_location is not None)
        ),
        "ssl.truststore.password",
        "is not for ssl.truststore.type=PEM",
    ),
    _Rule(
        lambda s: s.truststore_password is not None and s.truststore_location is None,
        "ssl.truststore.password",
        "needs ssl.truststore.location, which is not set",
    ),
)


def check_stores(settings: TlsSettings) -> None:
    """Raise TlsSettingsError for the first combination that is refused."""
    for rule in (*_KEY_STORE_RULES, *_TRUST_STORE_RULES):
        if rule.applies(settings):
            raise TlsSettingsError(rule.setting, rule.reason)


def check_listener(settings: TlsSettings) -> None:
    """Raise TlsSettingsError if a listener lacks a store.

    Kafka starts without a key store, and then fails every handshake. Without a trust store it
    accepts every certificate that a public authority has signed.
    """
    if settings.keystore_location is None and settings.keystore_key is None:
        raise TlsSettingsError(
            "ssl.keystore.location", "a listener with TLS needs a key and a certificate"
        )
    if settings.client_auth not in CLIENT_AUTH:
        raise TlsSettingsError("ssl.client.auth", f"is not one of {', '.join(CLIENT_AUTH)}")
    if (
        settings.client_auth != "none"
        and settings.truststore_location is None
        and settings.truststore_certificates is None
    ):
        raise TlsSettingsError(
            "ssl.client.auth",
            f"{settings.client_auth} needs ssl.truststore.location or ssl.truststore.certificates, "
            "with the authorities that sign the certificates of clients",
        )


CLIENT_AUTH: Final = ("none", "requested", "required")
