"""Java's own key stores (JKS), which keytool wrote before Java 9, and writes with `-storetype JKS`.

The format has no specification; this is what sun.security.provider.JavaKeyStore and KeyProtector
write.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Any, Final, NamedTuple

from oncelog_protocol.security.der import DerError, sequence

MAGIC: Final = bytes.fromhex("feedfeed")

_PRIVATE_KEY: Final = 1
_CERTIFICATE: Final = 2
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = hashlib.sha1().digest_size
# 1.3.6.1.4.1.42.2.17.1.1, the identifier of KeyProtector's encryption.
_KEY_PROTECTOR: Final = bytes.fromhex("2b060104012a02110101")


class JksError(ValueError):
    """The bytes are no JKS store, or the password does not fit. The message holds no secret."""


class WrongKeyPassword(JksError):
    """The password does not fit a key of the store."""


class JksEntry(NamedTuple):
    """An entry. `protected_key` is an encrypted PKCS#8 key in DER; it is None for a trusted
    certificate. `chain` has certificates in DER."""

    alias: str
    protected_key: bytes | None
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"JksEntry({self.alias!r}, {len(self.chain)} certificates)"


def entries(data: bytes, password: str | None) -> list[JksEntry]:
    """Return the entries of a store, in its order. Without a password the digest of the store is
    not checked, as in Java. Raises JksError."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    try:
        found = _Reader(body).entries()
    except (struct.error, UnicodeDecodeError):
        raise JksError("a damaged JKS store") from None
    if password is not None:
        expected = hashlib.sha1(_password_bytes(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(digest, expected):
            raise JksError("a JKS store with another password, or a damaged one")
    return found


def private_key(protected: bytes, password: str) -> bytes:
    """Return a key of an entry as PKCS#8 in DER. Raises WrongKeyPassword; JksError for a damaged
    entry."""
    try:
        algorithm, encrypted = sequence(protected)
        if sequence(algorithm.raw)[0].content != _KEY_PROTECTOR:
            raise JksError("a key with an unknown encryption")
    except (DerError, ValueError, IndexError) as error:
        raise error if isinstance(error, JksError) else JksError("a damaged key") from None
    salt = encrypted.content[:_DIGEST_BYTES]
    secret = encrypted.content[_DIGEST_BYTES:-_DIGEST_BYTES]
    digest = encrypted.content[-_DIGEST_BYTES:]
    passwords = _password_bytes(password)
    stream = bytearray()
    block = salt
    while len(stream) < len(secret):
        block = hashlib.sha1(passwords + block).digest()
        stream += block
    number = int.from_bytes(secret) ^ int.from_bytes(stream[: len(secret)])
    plain = number.to_bytes(len(secret))
    if not hmac.compare_digest(digest, hashlib.sha1(passwords + plain).digest()):
        raise WrongKeyPassword("a key with another password")
    return plain


def _password_bytes(password: str) -> bytes:
    # Java's char[]: two bytes for each UTF-16 unit.
    return password.encode("utf-16-be", "surrogatepass")


class _Reader:
    """Reads the entries. Raises struct.error where the data ends too early."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def entries(self) -> list[JksEntry]:
        magic, version, count = self._unpack(">4sII")
        if magic != MAGIC or version not in (1, 2):
            raise JksError("a JKS store of an unknown version")
        found = [self._entry(version) for _ in range(count)]
        if self._at != len(self._body):
            raise JksError("a damaged JKS store")
        return found

    def _entry(self, version: int) -> JksEntry:
        (kind,) = self._unpack(">I")
        alias = self._text()
        self._unpack(">Q")  # the date of its creation
        if kind == _CERTIFICATE:
            return JksEntry(alias, None, (self._certificate(version),))
        if kind != _PRIVATE_KEY:
            raise JksError("a damaged JKS store")
        key = self._bytes()
        (length,) = self._unpack(">I")
        return JksEntry(alias, key, tuple(self._certificate(version) for _ in range(length)))

    def _certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self._text()) != "X.509":
            raise JksError(f"a certificate of the type {kind!r}")
        return self._bytes()

    def _text(self) -> str:
        (length,) = self._unpack(">H")
        # Java's modified UTF-8 differs from UTF-8 for NUL and beyond the first 65,536 characters.
        return self._take(length).decode("utf-8", "replace")

    def _bytes(self) -> bytes:
        (length,) = self._unpack(">I")
        return self._take(length)

    def _take(self, length: int) -> bytes:
        taken = self._body[self._at : self._at + length]
        if len(taken) != length:
            raise struct.error("too short")
        self._at += length
        return taken

    def _unpack(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._body, self._at)
        self._at += struct.calcsize(form)
        return values
