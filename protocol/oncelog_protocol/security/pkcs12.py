"""Stores in PKCS12 (RFC 7292), read by the package cryptography, which the extra `security`
installs.

The package is imported at its first use, because the import takes 60 ms.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

from oncelog_protocol.security.certificate import ordered_chain


class Pkcs12Error(ValueError):
    """The store cannot be read. The message is the rest of a sentence that begins "… has", and
    holds no secret."""


class Pkcs12Store(NamedTuple):
    """`key` is PKCS#8 in DER without encryption, None if the store has no key. `chain` belongs to
    the key. `trusted` has the certificates of the other entries. All certificates are in DER."""

    key: bytes | None
    chain: tuple[bytes, ...]
    trusted: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Pkcs12Store({len(self.chain)} and {len(self.trusted)} certificates)"


def store(data: bytes, password: str | None) -> Pkcs12Store:
    """Return the content of a store. Raises Pkcs12Error, and DerError for a damaged certificate.

    If the store has a key, certificates without an alias only complete the chain of the key, and
    are not trusted. Java marks trusted certificates by an attribute that the library does not show.
    So the name decides. A certificate that Java wrote as an entry has its alias as name. An issuer
    in a chain has its subject as name (`CN=…`), and is not trusted.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise Pkcs12Error(
            "the format PKCS12, which needs the extra `security`: pip install 'oncelog[security]'"
        ) from None
    try:
        # The library warns of stores in BER, which it reads nevertheless.
        with warnings.catch_warnings(action="ignore"):
            found = pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        other = "a password, and none is set" if password is None else "another password"
        raise Pkcs12Error(f"{other}, or is a damaged PKCS12 store") from None
    der = serialization.Encoding.DER
    others = [
        (each.friendly_name, each.certificate.public_bytes(der)) for each in found.additional_certs
    ]
    if found.key is None or found.cert is None:
        own = [] if found.cert is None else [found.cert.certificate.public_bytes(der)]
        return Pkcs12Store(None, (), (*own, *(encoded for _, encoded in others)))
    key = found.key.private_bytes(
        der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    leaf = found.cert.certificate.public_bytes(der)
    chain = ordered_chain(leaf, [encoded for _, encoded in others])
    return Pkcs12Store(
        key, chain, (leaf, *(encoded for name, encoded in others if name and b"=" not in name))
    )
