"""Key stores and trust stores of all formats, as bytes. The first bytes of a store decide its
format: Java, too, reads PKCS12 from a store of the type JKS, and JKS from a store of the type
PKCS12."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_protocol.secret import Secret
from oncelog_protocol.security import certificate, jks, pem, pkcs12
from oncelog_protocol.security.der import INTEGER, SEQUENCE, DerError, sequence
from oncelog_protocol.security.jks import JksError, WrongKeyPassword
from oncelog_protocol.security.pem import PemBlock, PemError
from oncelog_protocol.security.pkcs12 import Pkcs12Error

_JCEKS_MAGIC: Final = bytes.fromhex("cececece")


class StoreError(ValueError):
    """A store cannot be used. The message is the rest of a sentence that begins with the store, and
    holds no secret."""


class KeyPair(NamedTuple):
    """A private key, which may be encrypted with `ssl.key.password`, and its certificates in DER:
    first the certificate of the key, then those of the issuers, each issued by the next."""

    key: PemBlock
    chain: tuple[bytes, ...]

    def text(self) -> str:
        """Return both as PEM, in the form that OpenSSL reads."""
        certificates = (PemBlock(pem.CERTIFICATE, der).text() for der in self.chain)
        return self.key.text() + "".join(certificates)


def key_pair(data: bytes, password: Secret | None, key_password: Secret | None) -> KeyPair:
    """Return the key pair of a store. The key of a PEM store stays encrypted. Raises StoreError."""
    try:
        if _is_jks(data):
            found = _jks_pair(data, password, key_password)
        elif _is_pkcs12(data):
            found = _pkcs12_pair(data, password, key_password)
        else:
            text = _pem_text(data, password)
            found = pem_pair(text, text, key_password)
    except (DerError, JksError, PemError, Pkcs12Error) as error:
        raise StoreError(f"has {error}") from None
    return found


def pem_pair(key: str, chain: str, key_password: Secret | None) -> KeyPair:
    """Return the key pair of two PEM texts. Raises StoreError if `key` has no key or several keys,
    or if `chain` has no certificate. Raises StoreError too if `key_password` is set for a key
    without encryption, or is missing for an encrypted key (Kafka's PemStore)."""
    try:
        keys = [block for block in pem.blocks(key) if block.is_key]
        certificates = _certificates(chain)
    except PemError as error:
        raise StoreError(f"has {error}") from None
    if len(keys) != 1:
        raise StoreError(f"must have one private key, and has {len(keys)}")
    if (keys[0].label == pem.ENCRYPTED_KEY) != (key_password is not None):
        state = "not encrypted, but" if key_password is not None else "encrypted, and"
        verb = "is set" if key_password is not None else "is not set"
        raise StoreError(f"has a private key that is {state} ssl.key.password {verb}")
    found = KeyPair(keys[0], certificates)
    _check_chain(found.chain)
    return found


def trusted(data: bytes, password: Secret | None) -> tuple[bytes, ...]:
    """Return the trusted certificates of a store, in DER. An entry with a key adds its own
    certificate, not those of its issuers, as in Java. Raises StoreError."""
    try:
        if _is_jks(data):
            entries = jks.entries(data, _revealed(password))
            found = tuple(entry.chain[0] for entry in entries if entry.chain)
        elif _is_pkcs12(data):
            found = pkcs12.store(data, _revealed(password)).trusted
        else:
            return trusted_pem(_pem_text(data, password))
    except (DerError, JksError, Pkcs12Error) as error:
        raise StoreError(f"has {error}") from None
    if not found:
        raise StoreError("has no trusted certificate")
    return found


def trusted_pem(text: str) -> tuple[bytes, ...]:
    """Return the certificates of a PEM text, in DER. Raises StoreError."""
    try:
        return _certificates(text)
    except PemError as error:
        raise StoreError(f"has {error}") from None


def _certificates(text: str) -> tuple[bytes, ...]:
    found = tuple(block.der for block in pem.blocks(text) if block.label == pem.CERTIFICATE)
    if not found:
        raise StoreError("has no certificate in PEM")
    return found


def _check_chain(chain: tuple[bytes, ...]) -> None:
    try:
        gap = certificate.gap_in(chain)
    except DerError as error:
        raise StoreError(f"has a certificate with {error}") from None
    if gap is not None:
        raise StoreError(
            f"has a chain in the wrong order: certificate {gap + 1} did not issue certificate {gap}"
        )


# -- the format


def _is_jks(data: bytes) -> bool:
    if data.startswith(_JCEKS_MAGIC):
        raise StoreError("is of the format JCEKS: convert it with `keytool -importkeystore`")
    return data.startswith(jks.MAGIC)


def _is_pkcs12(data: bytes) -> bool:
    """Return True for PKCS12, which is a sequence that begins with its version."""
    if data[:1] != bytes([SEQUENCE]):
        return False
    try:
        if sequence(data)[0].tag == INTEGER:
            return True
    except (DerError, IndexError):
        # A damaged store, or one in BER. The library decides.
        return True
    raise StoreError("is a certificate or a key in DER: convert it to PEM")


def _pem_text(data: bytes, password: Secret | None) -> str:
    # PEM is ASCII. The text around the blocks may have any encoding.
    text = data.decode("latin-1")
    if "-----BEGIN " not in text:
        raise StoreError("is neither PEM nor PKCS12 nor JKS")
    if password is not None:
        raise StoreError("is PEM, which has no password: set the type to PEM, without a password")
    return text


# -- JKS and PKCS12


def _jks_pair(data: bytes, password: Secret | None, key_password: Secret | None) -> KeyPair:
    opening = key_password if key_password is not None else password
    entries = jks.entries(data, _revealed(password))
    keys = [entry for entry in entries if entry.protected_key is not None]
    if len(keys) != 1:
        aliases = ", ".join(entry.alias for entry in keys)
        raise StoreError(f"must have one private key, and has {len(keys)} ({aliases or 'none'})")
    (entry,) = keys
    if opening is None or entry.protected_key is None:
        raise StoreError("has a private key, and no password is set")
    try:
        der = jks.private_key(entry.protected_key, opening.reveal())
    except WrongKeyPassword as error:
        name = "ssl.key.password" if key_password is not None else "the password of the store"
        raise StoreError(f"has {error} than {name}") from None
    return KeyPair(PemBlock(pem.PRIVATE_KEY, der), entry.chain)


def _pkcs12_pair(data: bytes, password: Secret | None, key_password: Secret | None) -> KeyPair:
    store = pkcs12.store(data, _revealed(password))
    if store.key is None:
        raise StoreError("must have one private key, and has 0 (none)")
    if key_password is not None and key_password != password:
        # Java would not open the key with ssl.key.password: the key has the password of the store.
        raise StoreError("has a private key with another password than ssl.key.password")
    return KeyPair(PemBlock(pem.PRIVATE_KEY, store.key), store.chain)


def _revealed(secret: Secret | None) -> str | None:
    return secret.reveal() if secret is not None else None
