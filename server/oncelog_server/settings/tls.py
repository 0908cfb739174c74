"""Honored settings of TLS. Each can be set for a listener: `listener.name.<listener>.ssl.…`."""

from __future__ import annotations

from oncelog_protocol.secret import Secret
from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, honoured, one_of

LOW = Importance.LOW


class TlsSettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's, unless the text of a setting says otherwise."""

    ssl_keystore_type: str = honoured(
        Kind.STRING,
        "JKS",
        "The type of the key store: JKS, PKCS12 or PEM. The first bytes of the file decide between "
        "JKS and PKCS12, as in Java.",
    )
    ssl_keystore_location: str | None = honoured(
        Kind.STRING, None, "The file with the private key and the certificate chain of the broker."
    )
    ssl_keystore_password: Secret | None = honoured(
        Kind.PASSWORD, None, "The password of the key store; not for PEM."
    )
    ssl_keystore_key: Secret | None = honoured(
        Kind.PASSWORD, None, "The private key as PEM in PKCS#8, in place of a file."
    )
    ssl_keystore_certificate_chain: Secret | None = honoured(
        Kind.PASSWORD, None, "The certificate chain as PEM, in place of a file."
    )
    ssl_key_password: Secret | None = honoured(
        Kind.PASSWORD, None, "The password of the private key, if the key is encrypted."
    )
    ssl_truststore_type: str = honoured(
        Kind.STRING,
        "JKS",
        "The type of the trust store: JKS, PKCS12 or PEM. The first bytes of the file decide "
        "between JKS and PKCS12, as in Java.",
    )
    ssl_truststore_location: str | None = honoured(
        Kind.STRING, None, "The file with the certificates that the broker trusts."
    )
    ssl_truststore_password: Secret | None = honoured(
        Kind.PASSWORD, None, "The password of the trust store; not for PEM."
    )
    ssl_truststore_certificates: Secret | None = honoured(
        Kind.PASSWORD, None, "The trusted certificates as PEM, in place of a file."
    )
    ssl_client_auth: str = honoured(
        Kind.STRING,
        "none",
        "Whether clients authenticate with a certificate: none, requested or required. Listeners "
        "of SASL_SSL obey it only with the prefix `listener.name.<listener>.`.",
        one_of("none", "requested", "required"),
    )
    ssl_enabled_protocols: tuple[str, ...] = honoured(
        Kind.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS: TLSv1.2, TLSv1.3 or both. Older versions are refused.",
    )
    ssl_cipher_suites: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "The cipher suites of TLS 1.2, by Java's names; if empty, all with authenticated "
        "encryption and forward secrecy. Those of TLS 1.3 cannot be chosen.",
        importance=LOW,
    )
    ssl_endpoint_identification_algorithm: str = honoured(
        Kind.STRING,
        "https",
        "Whether the name in the certificate of another broker must be its host: https, or empty.",
        one_of("https", ""),
        importance=LOW,
    )
    ssl_principal_mapping_rules: str = honoured(
        Kind.STRING,
        "DEFAULT",
        "How the name in a client's certificate becomes a user: DEFAULT, which is the whole "
        "distinguished name, or RULE:pattern/replacement/[LU], the first that matches. Without a "
        "match the client is refused.",
        importance=LOW,
    )
    ssl_allow_dn_changes: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Whether a reloaded certificate may have another distinguished name.",
        importance=LOW,
    )
    ssl_allow_san_changes: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Whether a reloaded certificate may lack a subject alternative name of the old one.",
        importance=LOW,
    )
