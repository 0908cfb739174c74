"""Stores are read by their bytes, and every store that cannot be used says why."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.secret import Secret
from oncelog_protocol.security import jks as jks_module
from oncelog_protocol.security import pkcs12
from oncelog_protocol.security.stores import (
    StoreError,
    key_pair,
    pem_pair,
    trusted,
    trusted_pem,
)
from tests.conformance.principals.questions import identifier
from tests.examples import examples
from tests.harness.certificates import PASSWORD, Certificates
from tests.protocol.security import store_files
from tests.protocol.security.store_files import der_chain, jks, jks_key, jks_trusted, pkcs12_of

RIGHT, WRONG = Secret(PASSWORD), Secret("S3cret!")
# The identifier of the encryption of keys in JKS.
KEY_PROTECTOR = identifier("1.3.6.1.4.1.42.2.17.1.1")
FORMATS = ("JKS", "JKS 1", "PKCS12", "PEM")


def store(certificates: Certificates, kind: str) -> bytes:
    """Return a key store of a format."""
    server = certificates.with_intermediate
    if kind == "JKS":
        return jks(jks_trusted(certificates.server.der), jks_key(server))
    if kind == "JKS 1":
        first = jks_key(server).replace(b"\x00\x05X.509", b"")
        return jks(first, version=1)
    if kind == "PKCS12":
        return pkcs12_of(server.key, server.chain, [None])
    return server.pem.encode()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_key_pair_of_each_format_is_the_same(certificates: Certificates, kind: str) -> None:
    password = None if kind == "PEM" else RIGHT
    pair = key_pair(store(certificates, kind), password, None)
    server = certificates.with_intermediate
    assert list(pair.chain) == der_chain(server.chain)
    expected = pem_pair(server.key if kind == "PEM" else server.pkcs8_key(), server.chain, None)
    assert pair == expected
    assert pair.text() == expected.text()


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_wrong_password_is_named(certificates: Certificates, kind: str) -> None:
    with pytest.raises(StoreError, match="another password") as error:
        key_pair(store(certificates, kind), WRONG, None)
    assert "S3cret" not in str(error.value)
    with pytest.raises(StoreError, match=r"another password than ssl\.key"):
        key_pair(store(certificates, kind), RIGHT, WRONG)
    with pytest.raises(StoreError, match=r"no password is set|none is set"):
        key_pair(store(certificates, kind), None, None)


def test_a_key_of_jks_may_have_its_own_password(certificates: Certificates) -> None:
    data = jks(jks_key(certificates.server, password="own"))
    assert key_pair(data, RIGHT, Secret("own")).chain == (certificates.server.der,)
    with pytest.raises(StoreError, match="another password than the password of the store"):
        key_pair(data, RIGHT, None)


def test_a_damaged_key_of_jks_is_not_called_a_wrong_password(certificates: Certificates) -> None:
    begin, protector, end = jks_key(certificates.server).partition(KEY_PROTECTOR)
    for other, reason in (
        (protector[:-1] + b"\x02", "has a key with an unknown encryption"),
        (b"\x06\x7f" + protector[2:], "has a damaged key"),
    ):
        with pytest.raises(StoreError) as error:
            key_pair(jks(begin + other + end), RIGHT, None)
        assert str(error.value) == reason


def test_a_store_with_another_password_is_not_trusted(certificates: Certificates) -> None:
    """The digest of a JKS store is its only protection against a change."""
    data = jks(jks_trusted(certificates.server.der), jks_key(certificates.server, password="own"))
    with pytest.raises(StoreError, match="a JKS store with another password, or a damaged one"):
        trusted(data, WRONG)
    with pytest.raises(StoreError, match="a JKS store with another password, or a damaged one"):
        key_pair(data, WRONG, Secret("own"))


def test_a_store_with_several_keys_names_them(certificates: Certificates) -> None:
    first, second = certificates.server, certificates.client("second")
    data = jks(jks_key(first, "first"), jks_key(second, "second"))
    with pytest.raises(StoreError, match=r"must have one private key, and has 2 \(first, second\)"):
        key_pair(data, RIGHT, None)
    with pytest.raises(StoreError, match=r"and has 0 \(none\)"):
        key_pair(jks(jks_trusted(first.der)), RIGHT, None)
    with pytest.raises(StoreError, match=r"and has 0 \(none\)"):
        key_pair(store_files.pkcs12_trust(first.chain), RIGHT, None)
    with pytest.raises(StoreError, match="must have one private key, and has 2"):
        key_pair((first.pem + second.pem).encode(), None, None)
    with pytest.raises(StoreError, match="must have one private key, and has 0"):
        key_pair(first.chain.encode(), None, None)
    with pytest.raises(StoreError, match="has no certificate in PEM"):
        key_pair(first.key.encode(), None, None)


def test_a_key_password_belongs_to_an_encrypted_key(certificates: Certificates) -> None:
    server = certificates.server
    encrypted = server.encrypted_key("own")
    assert pem_pair(encrypted, server.chain, WRONG).key.label == "ENCRYPTED PRIVATE KEY"
    with pytest.raises(StoreError, match=r"encrypted, and ssl\.key\.password is not set"):
        pem_pair(encrypted, server.chain, None)
    with pytest.raises(StoreError, match=r"not encrypted, but ssl\.key\.password is set"):
        pem_pair(server.key, server.chain, WRONG)


def test_a_chain_out_of_order_is_refused(certificates: Certificates) -> None:
    server = certificates.with_intermediate
    chain = server.chain + certificates.server.chain
    with pytest.raises(StoreError, match="certificate 3 did not issue certificate 2"):
        pem_pair(server.key, chain, None)
    broken = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
    with pytest.raises(StoreError, match="has a certificate with"):
        pem_pair(server.key, broken, None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is neither PEM nor PKCS12 nor JKS"),
        (b"hello", "is neither PEM nor PKCS12 nor JKS"),
        (bytes.fromhex("cececece00000002"), "is of the format JCEKS"),
        (bytes.fromhex("feedfeed00000009"), "has a damaged JKS store"),
        (bytes.fromhex("feedfeed0000000900000000") + bytes(20), "JKS store of an unknown version"),
        (bytes.fromhex("3006020103300102"), "has another password, or is a damaged PKCS12"),
    ],
)
def test_other_bytes_are_named(data: bytes, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        key_pair(data, RIGHT, None)
    with pytest.raises(StoreError, match=reason):
        trusted(data, RIGHT)


def test_a_certificate_in_der_is_named(certificates: Certificates) -> None:
    with pytest.raises(StoreError, match="is a certificate or a key in DER: convert it to PEM"):
        trusted(certificates.server.der, None)


def test_a_store_in_pem_has_no_password(certificates: Certificates) -> None:
    with pytest.raises(StoreError, match="is PEM, which has no password"):
        key_pair(certificates.server.pem.encode(), RIGHT, None)
    with pytest.raises(StoreError, match="is PEM, which has no password"):
        trusted(certificates.authority_pem.encode(), RIGHT)


def test_trusted_certificates_of_each_format_are_the_same(certificates: Certificates) -> None:
    authority = der_chain(certificates.authority_pem)
    text = certificates.authority_pem + certificates.server.chain
    expected = (*authority, certificates.server.der)
    assert trusted(text.encode(), None) == trusted_pem(text) == expected
    assert trusted(jks(*map(jks_trusted, expected)), RIGHT) == expected
    assert trusted(jks(*map(jks_trusted, expected)), None) == expected
    assert set(trusted(store_files.pkcs12_trust(text), RIGHT)) == set(expected)


def test_a_key_entry_trusts_its_own_certificate_and_not_its_issuers(
    certificates: Certificates,
) -> None:
    """Java trusts the first certificate of a chain. The issuers would let in all certificates that
    they have signed."""
    server = certificates.with_intermediate
    leaf, intermediate = der_chain(server.chain)
    assert trusted(jks(jks_key(server)), RIGHT) == (leaf,)
    for name in (None, b"CN=issuer,O=trustme"):
        assert trusted(pkcs12_of(server.key, server.chain, [name]), RIGHT) == (leaf,)
    named = pkcs12_of(server.key, server.chain, [b"alias"])
    assert trusted(named, RIGHT) == (leaf, intermediate)


@pytest.mark.parametrize("data", [jks(), b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_trust_store_without_certificates_is_refused(data: bytes) -> None:
    with pytest.raises(StoreError):
        trusted(data, RIGHT if data.startswith(b"\xfe") else None)


def test_pkcs12_without_its_library_names_the_extra(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other formats need only the standard library."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StoreError, match=r"pip install 'oncelog\[security\]'"):
        key_pair(store(certificates, "PKCS12"), RIGHT, None)


def test_secrets_are_not_printed(certificates: Certificates) -> None:
    data = store(certificates, "JKS")
    assert "bytes)" in repr(key_pair(data, RIGHT, None).key)
    for entry in jks_module.entries(data, PASSWORD):
        assert repr(entry) == f"JksEntry({entry.alias!r}, {len(entry.chain)} certificates)"
    opened = pkcs12.store(store(certificates, "PKCS12"), PASSWORD)
    assert repr(opened) == "Pkcs12Store(2 and 1 certificates)"


@settings(max_examples=examples(300), deadline=None, database=None)
@given(kind=st.sampled_from(FORMATS), data=st.data())
def test_damaged_stores_raise_one_error(
    certificates: Certificates, kind: str, data: st.DataObject
) -> None:
    changed = bytearray(store(certificates, kind))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    password = data.draw(st.sampled_from([None, RIGHT]))
    for read in (key_pair, trusted):
        secrets = (password, None) if read is key_pair else (password,)
        try:
            found = read(bytes(changed), *secrets)
        except StoreError:
            continue
        assert isinstance(found, tuple)
