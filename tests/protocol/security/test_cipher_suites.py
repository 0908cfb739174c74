"""Versions and suites are chosen as Java chooses them, or refused by name."""

from __future__ import annotations

import ssl

import pytest

from oncelog_protocol.security.cipher_suites import (
    DEFAULT_CIPHERS,
    OPENSSL_NAMES,
    SUITES_OF_TLS_1_3,
    Offer,
    offer_of,
)
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError

ECDSA = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
DHE = "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"
ALL_1_3 = tuple(sorted(SUITES_OF_TLS_1_3))


def offer(versions: str = "TLSv1.2,TLSv1.3", *suites: str, is_server: bool = True) -> Offer:
    return offer_of(
        TlsSettings(enabled_protocols=tuple(versions.split(",")), cipher_suites=suites),
        is_server=is_server,
    )


def test_versions_are_a_range() -> None:
    assert offer() == Offer("TLSv1.2", "TLSv1.3", DEFAULT_CIPHERS)
    assert offer("TLSv1.3,TLSv1.2") == offer()
    assert offer("TLSv1.3") == Offer("TLSv1.3", "TLSv1.3", DEFAULT_CIPHERS)
    assert offer("TLSv1.2") == Offer("TLSv1.2", "TLSv1.2", DEFAULT_CIPHERS)
    assert offer_of(TlsSettings(enabled_protocols=()), is_server=False) == offer()


@pytest.mark.parametrize("versions", ["TLSv1.1", "TLSv1,TLSv1.2", "TLSv1.3,SSLv3", "", "tlsv1.2"])
def test_other_versions_are_refused(versions: str) -> None:
    with pytest.raises(TlsSettingsError, match=r"^ssl\.enabled\.protocols: has '"):
        offer(versions)


def test_a_list_of_suites_also_chooses_the_versions() -> None:
    """Java cannot agree on a version without a suite."""
    name = OPENSSL_NAMES[ECDSA]
    assert offer("TLSv1.2,TLSv1.3", ECDSA) == Offer("TLSv1.2", "TLSv1.2", name)
    assert offer("TLSv1.2,TLSv1.3", *ALL_1_3) == Offer("TLSv1.3", "TLSv1.3", DEFAULT_CIPHERS)
    assert offer("TLSv1.2,TLSv1.3", ECDSA, *ALL_1_3) == Offer("TLSv1.2", "TLSv1.3", name)


@pytest.mark.parametrize(
    ("versions", "suites", "message"),
    [
        ("TLSv1.2", ("TLS_RSA_WITH_AES_128_CBC_SHA",), "has 'TLS_RSA_WITH_AES_128_CBC_SHA', which"),
        ("TLSv1.2", (OPENSSL_NAMES[ECDSA],), "not among the suites"),
        ("TLSv1.2", (DHE,), f"Use {DHE.replace('_DHE_', '_ECDHE_')}"),
        ("TLSv1.3", (ALL_1_3[0],), f"cannot be chosen singly: add {ALL_1_3[1]}, {ALL_1_3[2]}"),
        ("TLSv1.3", (ECDSA,), r"has no suite of ssl\.enabled\.protocols=TLSv1\.3"),
        ("TLSv1.2", ALL_1_3, r"has no suite of ssl\.enabled\.protocols=TLSv1\.2"),
    ],
)
def test_suites_are_refused_by_name(versions: str, suites: tuple[str, ...], message: str) -> None:
    with pytest.raises(TlsSettingsError, match=rf"^ssl\.cipher\.suites: .*{message}"):
        offer(versions, *suites)


def test_a_client_may_offer_dhe() -> None:
    assert offer("TLSv1.2", DHE, is_server=False).ciphers == OPENSSL_NAMES[DHE]


def test_every_name_is_known_to_openssl() -> None:
    for name in OPENSSL_NAMES.values():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_ciphers(name)
        assert name in {cipher["name"] for cipher in context.get_ciphers()}
    context.set_ciphers(DEFAULT_CIPHERS)
    defaults = {cipher["name"] for cipher in context.get_ciphers()} - SUITES_OF_TLS_1_3
    assert defaults == {name for name in OPENSSL_NAMES.values() if name.startswith("ECDHE")}
