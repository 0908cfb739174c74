"""The protocol versions and cipher suites of TLS, by the names of Java and of OpenSSL."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError

TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"
VERSIONS: Final = (TLS_1_2, TLS_1_3)
# The suites of TLS 1.2 with forward secrecy and AEAD, without DHE: Mozilla's "intermediate" list
# without the suites that need Diffie-Hellman parameters.
DEFAULT_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"

OPENSSL_NAMES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
# Python cannot choose among the suites of TLS 1.3 before its version 3.15.
SUITES_OF_TLS_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_NEEDS_PARAMETERS: Final = "TLS_DHE_"


class Offer(NamedTuple):
    """The versions from `minimum` to `maximum`, and the suites of TLS 1.2 as OpenSSL's cipher
    list. All suites of TLS 1.3 are part of an offer that includes that version."""

    minimum: str
    maximum: str
    ciphers: str


def offer_of(settings: TlsSettings, *, is_server: bool) -> Offer:
    """Return the versions and suites of `ssl.enabled.protocols` and `ssl.cipher.suites`.

    As in Java, a list of suites disables a version if it names no suite of that version. Raises
    TlsSettingsError.
    """
    versions = _versions(settings.enabled_protocols)
    names = settings.cipher_suites
    if not names:
        return Offer(versions[0], versions[-1], DEFAULT_CIPHERS)
    for name in names:
        if name not in SUITES_OF_TLS_1_3:
            _check_suite(name, is_server=is_server)
    chosen = SUITES_OF_TLS_1_3.intersection(names)
    if chosen and chosen != SUITES_OF_TLS_1_3:
        missing = ", ".join(sorted(SUITES_OF_TLS_1_3 - chosen))
        raise TlsSettingsError(
            "ssl.cipher.suites",
            f"names some suites of TLS 1.3, which cannot be chosen singly: add {missing}, or name "
            "none of them to disable TLS 1.3",
        )
    suites = [OPENSSL_NAMES[name] for name in names if name in OPENSSL_NAMES]
    usable = [v for v in versions if (v == TLS_1_3 and chosen) or (v == TLS_1_2 and suites)]
    if not usable:
        raise TlsSettingsError(
            "ssl.cipher.suites",
            f"has no suite of ssl.enabled.protocols={','.join(settings.enabled_protocols)}",
        )
    return Offer(usable[0], usable[-1], ":".join(suites) or DEFAULT_CIPHERS)


def _versions(names: tuple[str, ...]) -> list[str]:
    for name in names:
        if name not in VERSIONS:
            raise TlsSettingsError(
                "ssl.enabled.protocols",
                f"has {name!r}, which is neither {TLS_1_2} nor {TLS_1_3} (older versions are "
                "unsafe: RFC 8996)",
            )
    return [version for version in VERSIONS if version in names or not names]


def _check_suite(name: str, *, is_server: bool) -> None:
    if name not in OPENSSL_NAMES:
        raise TlsSettingsError(
            "ssl.cipher.suites",
            f"has {name!r}, which is not among the suites with forward secrecy and AEAD: "
            + ", ".join(OPENSSL_NAMES),
        )
    if is_server and name.startswith(_NEEDS_PARAMETERS):
        raise TlsSettingsError(
            "ssl.cipher.suites",
            f"has {name}, which a listener cannot offer: it needs Diffie-Hellman parameters. Use "
            f"{name.replace('_DHE_', '_ECDHE_')}",
        )
