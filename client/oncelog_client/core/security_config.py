"""Checks the settings of TLS and SASL. Only a client that has such a setting imports this module.

The errors name the setting, and never contain the value of a secret. The rules are those of Kafka's
SaslConfigs, SslConfigs and JaasContext. The names of the settings have underscores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from oncelog_client.errors import ConfigError
from oncelog_protocol.secret import Secret, displayed
from oncelog_protocol.security.mechanisms import SaslMechanism

from .security_settings import is_security

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SECRETS: Final = (
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
_LISTS: Final = ("ssl_enabled_protocols", "ssl_cipher_suites")

_JAVA_CLASS: Final = "it names a class of Java"
_KERBEROS: Final = "GSSAPI (Kerberos) is not supported"
# Settings of Kafka's clients that this client refuses, with the reason.
_REFUSED: Final[Mapping[str, str]] = {
    "sasl_client_callback_handler_class": _JAVA_CLASS,
    "sasl_login_callback_handler_class": (
        f"{_JAVA_CLASS} other than OAuthBearerLoginCallbackHandler"
    ),
    "sasl_oauthbearer_jwt_retriever_class": (
        f"{_JAVA_CLASS} other than ClientCredentialsJwtRetriever and FileJwtRetriever"
    ),
    "sasl_login_class": _JAVA_CLASS,
    "security_providers": _JAVA_CLASS,
    "ssl_engine_factory_class": _JAVA_CLASS,
    "ssl_provider": "it names a provider of the Java runtime; this client uses OpenSSL",
}
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
# Settings of Kafka's clients that have no effect here, with the values that are accepted in files
# of Kafka's clients. None stands for any value.
_WITHOUT_EFFECT: Final[Mapping[str, Collection[str] | None]] = {
    # The URL of the token endpoint chooses between these classes: a file, or a server.
    "sasl_login_callback_handler_class": (
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
    ),
    "sasl_oauthbearer_jwt_retriever_class": (
        f"{_OAUTH}.ClientCredentialsJwtRetriever",
        f"{_OAUTH}.DefaultJwtRetriever",
        f"{_OAUTH}.FileJwtRetriever",
    ),
    "sasl_oauthbearer_jwt_validator_class": None,
    # Tokens are refreshed with the defaults of Kafka.
    "sasl_login_connect_timeout_ms": None,
    "sasl_login_read_timeout_ms": None,
    "sasl_login_refresh_buffer_seconds": None,
    "sasl_login_refresh_min_period_seconds": None,
    "sasl_login_refresh_window_factor": None,
    "sasl_login_refresh_window_jitter": None,
    "sasl_login_retry_backoff_max_ms": None,
    "sasl_login_retry_backoff_ms": None,
    # The name of Java's SSLContext. The versions are those of ssl.enabled.protocols.
    "ssl_protocol": ("TLS", "TLSv1.2", "TLSv1.3"),
    "ssl_keymanager_algorithm": ("SunX509", "PKIX"),
    "ssl_trustmanager_algorithm": ("SunX509", "PKIX"),
    "ssl_secure_random_implementation": None,
    # Settings of GSSAPI, which Kafka's clients ignore with other mechanisms.
    "sasl_kerberos_kinit_cmd": None,
    "sasl_kerberos_min_time_before_relogin": None,
    "sasl_kerberos_service_name": None,
    "sasl_kerberos_ticket_renew_jitter": None,
    "sasl_kerberos_ticket_renew_window_factor": None,
}


def unsupported_reason(name: str) -> str:
    """Return the reason for which this client refuses a setting of Kafka's clients. The text is
    empty for any other name. `name` has dots or underscores. A caller first asks `has_no_effect`,
    because some values are accepted."""
    return _REFUSED.get(name.replace(".", "_").lower(), "")


def has_no_effect(name: str, value: str) -> bool:
    """Return True if a setting of Kafka's clients, with dots or underscores, changes nothing for
    this client: it is about the Java runtime, Kerberos, or the refresh of tokens."""
    plain = name.replace(".", "_").lower()
    if plain not in _WITHOUT_EFFECT:
        return False
    allowed = _WITHOUT_EFFECT[plain]
    return allowed is None or value.strip() in allowed


def check_security(values: dict[str, Any], given: Collection[str]) -> None:
    """Check the settings of TLS and SASL among all `values` of a client, and give them their types:
    Secret for passwords and keys, tuples for lists. `given` are the names that the caller has set.

    Raises ConfigError for an unknown protocol or mechanism, and for stores and cipher suites that
    Kafka refuses. Also raises it for credentials that are missing, given twice or for another
    mechanism, and for settings of TLS or SASL without `security_protocol`: the client would then
    send everything in plain text.
    """
    for name in _SECRETS:
        if isinstance(values[name], str):
            values[name] = Secret(values[name])
    for name in _LISTS:
        values[name] = _parts(values[name])
    protocol = values["security_protocol"].upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(
            f"security_protocol={displayed('security_protocol', values['security_protocol'])} is "
            f"not one of {', '.join(PROTOCOLS)}"
        )
    values["security_protocol"] = protocol
    _refuse_without_protocol(values, given)
    if protocol.endswith("SSL"):
        _check_tls(values)
    if protocol.startswith("SASL_"):
        _check_sasl(values)


def _parts(value: Any) -> tuple[str, ...] | None:
    """Return a list of texts, or a text with commas as in Kafka, as a tuple. An empty list is
    None."""
    if value is None:
        return None
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip()) or None


def _refuse_without_protocol(values: Mapping[str, Any], given: Collection[str]) -> None:
    """Raise ConfigError if the caller has set TLS or SASL, but no security_protocol. With an
    explicit PLAINTEXT such settings are ignored, as in Kafka."""
    if "security_protocol" in given:
        return
    for name in given:
        if is_security(name) and values[name] is not None:
            protocols = ("SSL", "SASL_SSL") if name.startswith("ssl_") else PROTOCOLS[2:]
            raise ConfigError(
                f"{name} has no effect without security_protocol: set it to "
                f"{' or '.join(protocols)}, or to PLAINTEXT"
            )


def _check_tls(values: Mapping[str, Any]) -> None:
    from oncelog_protocol.security.cipher_suites import offer_of
    from oncelog_protocol.security.store_rules import check_stores
    from oncelog_protocol.security.tls_settings import TlsSettingsError

    from .tls_config import setting_error, tls_settings

    settings = tls_settings(values)
    if settings.endpoint_identification_algorithm.lower() not in ("https", ""):
        raise ConfigError("ssl_endpoint_identification_algorithm is neither https nor empty")
    try:
        check_stores(settings)
        offer_of(settings, is_server=False)
    except TlsSettingsError as error:
        raise setting_error(error) from None


def _check_sasl(values: Mapping[str, Any]) -> None:
    from .sasl_login import check_login

    mechanism = values["sasl_mechanism"]
    known = ", ".join(SaslMechanism)
    if mechanism is None:
        raise ConfigError(
            f"security_protocol={values['security_protocol']} needs sasl_mechanism, one of {known}"
            " (GSSAPI, the default in Kafka, is not supported)"
        )
    if mechanism == "GSSAPI":
        raise ConfigError(f"sasl_mechanism=GSSAPI: {_KERBEROS}; use one of {known}")
    if mechanism not in tuple(SaslMechanism):
        raise ConfigError(
            f"sasl_mechanism={displayed('sasl_mechanism', mechanism)} is not one of {known}"
        )
    check_login(values)
