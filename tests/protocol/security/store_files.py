"""Stores in bytes for tests without Java: JKS as keytool writes it, and PKCS12."""

from __future__ import annotations

import hashlib
import ssl
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    KeySerializationEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from tests.conformance.principals.questions import element, identifier
from tests.harness.certificates import PASSWORD, Identity

SALT: Final = bytes(range(20))


def der_chain(text: str) -> list[bytes]:
    """Return the certificates of a PEM text."""
    end = "-----END CERTIFICATE-----\n"
    return [ssl.PEM_cert_to_DER_cert(block + end) for block in text.split(end) if block.strip()]


def encryption(password: str) -> KeySerializationEncryption:
    """Return an encryption for tests, which is quick."""
    builder = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1)
    return builder.build(password.encode())


def jks(*entries: bytes, password: str = PASSWORD, version: int = 2) -> bytes:
    body = b"\xfe\xed\xfe\xed" + version.to_bytes(4) + len(entries).to_bytes(4) + b"".join(entries)
    digest = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    return body + digest


def jks_key(identity: Identity, alias: str = "server", password: str = PASSWORD) -> bytes:
    """Return an entry with a key and its chain."""
    plain = ssl.PEM_cert_to_DER_cert(
        identity.pkcs8_key().replace("PRIVATE KEY", "CERTIFICATE")
    )  # the same base64
    stream, block, words = b"", SALT, password.encode("utf-16-be")
    while len(stream) < len(plain):
        block = hashlib.sha1(words + block).digest()
        stream += block
    secret = bytes(a ^ b for a, b in zip(plain, stream, strict=False))
    protected = element(
        0x30,
        element(0x30, identifier("1.3.6.1.4.1.42.2.17.1.1") + element(0x05, b""))
        + element(0x04, SALT + secret + hashlib.sha1(words + plain).digest()),
    )
    chain = der_chain(identity.chain)
    certificates = b"".join(map(_certificate, chain))
    return (
        (1).to_bytes(4) + _text(alias) + bytes(8) + _bytes(protected)
        + len(chain).to_bytes(4) + certificates
    )  # fmt: skip


def jks_trusted(der: bytes, alias: str = "authority") -> bytes:
    """Return an entry with a trusted certificate."""
    return (2).to_bytes(4) + _text(alias) + bytes(8) + _certificate(der)


def _certificate(der: bytes) -> bytes:
    return _text("X.509") + _bytes(der)


def _text(text: str) -> bytes:
    return len(text).to_bytes(2) + text.encode()


def _bytes(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def pkcs12_trust(text: str, password: str = PASSWORD) -> bytes:
    """Return a PKCS12 store without a key."""
    certificates = x509.load_pem_x509_certificates(text.encode())
    return pkcs12.serialize_key_and_certificates(
        None, None, None, certificates, encryption(password)
    )


def pkcs12_of(key: str, chain: str, names: list[bytes | None], password: str = PASSWORD) -> bytes:
    """Return a PKCS12 store with a key; `names` are those of the certificates after the first."""
    leaf, *others = x509.load_pem_x509_certificates(chain.encode())
    loaded = load_pem_private_key(key.encode(), None)
    return pkcs12.serialize_key_and_certificates(
        b"server",
        loaded,  # type: ignore[arg-type]
        leaf,
        [pkcs12.PKCS12Certificate(each, name) for each, name in zip(others, names, strict=True)],
        encryption(password),
    )
