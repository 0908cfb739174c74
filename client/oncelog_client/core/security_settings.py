"""Settings of TLS and SASL that every client has.

`security_config` checks them. It is imported only for a client with such a setting, so that other
clients start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypedDict

from oncelog_protocol.secret import Secret

SECURITY_PREFIXES: Final = ("sasl_", "security_", "ssl_")


class SecuritySettings(TypedDict, total=False):
    """Settings of the connection to a listener with TLS or SASL. They have Kafka's names and
    meanings; `sasl_username`, `sasl_password` and `sasl_oauthbearer_token` are oncelog's own.

    A client keeps passwords and keys as `oncelog_protocol.secret.Secret`, so that its settings can
    be printed.

    security_protocol (str): PLAINTEXT, SSL (TLS), SASL_PLAINTEXT or SASL_SSL (SASL over TLS).
        Default: "PLAINTEXT".
    sasl_mechanism (str | None): PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Kafka's own
        default, GSSAPI, is not supported. Default: None.
    sasl_jaas_config (str | Secret | None): the login module and its options, in Kafka's form:
        `org.apache.kafka.common.security.plain.PlainLoginModule required username="u"
        password="p";`. Default: None.
    sasl_username (str | None): user of PLAIN and SCRAM, instead of sasl_jaas_config. Default: None.
    sasl_password (str | Secret | None): password of sasl_username. Default: None.
    sasl_oauthbearer_token (Callable | None): function, or coroutine function, that returns the
        token of OAUTHBEARER: a text, or a pair of the text and its expiry (seconds since 1970). It
        runs in a thread, and again before the token expires. Default: None.
    sasl_oauthbearer_token_endpoint_url (str | None): where OAUTHBEARER gets its token: an https:
        URL for client credentials, or a file: URL of a file with the token. Default: None.
    sasl_oauthbearer_client_credentials_client_id (str | None): name of this client at the token
        endpoint. Default: None.
    sasl_oauthbearer_client_credentials_client_secret (str | Secret | None): its secret.
        Default: None.
    sasl_oauthbearer_scope (str | None): scope of the requested token. Default: None.
    sasl_oauthbearer_header_urlencode (bool): encode name and secret for URLs. Default: False.
    ssl_truststore_location (str | None): file with the certificates that are trusted: PEM, PKCS12
        or JKS. Without it and ssl_truststore_certificates, those of the system. Default: None.
    ssl_truststore_type (str): JKS, PKCS12 or PEM. A JKS or PKCS12 file is recognized by its bytes.
        Default: "JKS".
    ssl_truststore_password (str | Secret | None): password of the trust store. Default: None.
    ssl_truststore_certificates (str | Secret | None): trusted certificates as PEM text.
        Default: None.
    ssl_keystore_location (str | None): file with the key and the certificate of this client.
        Default: None.
    ssl_keystore_type (str): JKS, PKCS12 or PEM. Default: "JKS".
    ssl_keystore_password (str | Secret | None): password of the key store. Default: None.
    ssl_keystore_key (str | Secret | None): private key of this client as PEM text (PKCS#8).
        Default: None.
    ssl_keystore_certificate_chain (str | Secret | None): certificates of this client as PEM text.
        Default: None.
    ssl_key_password (str | Secret | None): password of the private key. Default: None.
    ssl_endpoint_identification_algorithm (str): "https" checks that the broker's certificate is for
        the host of its address; an empty text does not. Default: "https".
    ssl_enabled_protocols (Sequence | None): allowed versions, TLSv1.2 and TLSv1.3; None for both.
        Default: None.
    ssl_cipher_suites (Sequence | None): cipher suites of TLS 1.2, by Java's names; None for
        those of the client. Default: None.
    """

    security_protocol: str
    sasl_mechanism: str | None
    sasl_jaas_config: str | Secret | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_oauthbearer_token: Callable[[], object] | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    ssl_truststore_location: str | None
    ssl_truststore_type: str
    ssl_truststore_password: str | Secret | None
    ssl_truststore_certificates: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_type: str
    ssl_keystore_password: str | Secret | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_certificate_chain: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: Sequence[str] | None
    ssl_cipher_suites: Sequence[str] | None


def is_security(name: str) -> bool:
    """Return True if the name of a setting, with dots or underscores, is one of TLS or SASL."""
    return name.replace(".", "_").lower().startswith(SECURITY_PREFIXES)
