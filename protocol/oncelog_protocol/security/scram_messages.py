"""The four messages of SCRAM, and the proofs in them (RFC 5802, RFC 7677).

The grammar is that of Kafka's ScramMessages, with three differences. Names may have characters
outside ASCII, as in the RFC. The reserved attribute `m=` is refused, as the RFC demands. Nonces
have a limit. There is no channel binding: headers `y` and `p=` do not match the grammar.

Proofs are computed over the bytes that were sent and received, and not over parsed fields, so
extensions count (RFC 5802, section 3).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog_protocol.security.scram_credential import ScramMechanism

MOST_NONCE_LENGTH: Final = 1_024
"""Characters of the largest nonce of a client. Kafka's clients send 26, others up to 64. With the
server's part, a nonce has up to twice as many."""

RANDOM_BYTES: Final = 17
"""Number of random bytes that `random_text` needs: Kafka's nonces and salts have 130 bits."""

GS2_HEADER: Final = "n,,"
"""The header without channel binding and without an authorization id."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"

# The patterns are possessive where they can be: otherwise each character of a name takes 230 bytes
# of memory.
_NAME: Final = r"(?:[^\0=,]++|=2C|=3D)++"
_CLIENT_NONCE: Final = rf"[\x21-\x2b\x2d-\x7e]{{1,{MOST_NONCE_LENGTH}}}"
_NONCE: Final = rf"[\x21-\x2b\x2d-\x7e]{{1,{2 * MOST_NONCE_LENGTH}}}"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = r"(?:,[A-Za-z]++=[^\0,]++)*"

_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_CLIENT_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,10}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(
    rf"(?:e=(?P<error>[^\0=,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}"
)


class InvalidScramMessage(Exception):
    """A message does not match the grammar. The error names the message and quotes no part of
    it."""


class ClientFirst(NamedTuple):
    """`name` and `authorization_id` are unescaped; the id is empty if the client sent none. `bare`
    is the message without its header."""

    header: str
    authorization_id: str
    name: str
    nonce: str
    extensions: Mapping[str, str]
    bare: bytes


class ServerFirst(NamedTuple):
    """`nonce` begins with the client's nonce. `salt` is decoded."""

    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """`binding` and `proof` are decoded. `unproven` is the message without its proof."""

    binding: bytes
    nonce: str
    proof: bytes
    unproven: bytes


class ServerFinal(NamedTuple):
    """Either an error of the server or its signature, decoded."""

    error: str | None
    signature: bytes


def parse_client_first(message: bytes) -> ClientFirst:
    """Return the fields of a client's first message. Raises InvalidScramMessage."""
    found = _match(_CLIENT_FIRST, message, "client's first")
    pairs = (pair.split("=", 1) for pair in found["extensions"].split(",")[1:])
    return ClientFirst(
        found["header"],
        _unescaped(found["authzid"] or ""),
        _unescaped(found["name"]),
        found["nonce"],
        dict(pairs),
        found["bare"].encode(),
    )


def parse_server_first(message: bytes) -> ServerFirst:
    """Return the fields of a server's first message. Raises InvalidScramMessage."""
    found = _match(_SERVER_FIRST, message, "server's first")
    return ServerFirst(found["nonce"], b64decode(found["salt"]), int(found["iterations"]))


def parse_client_final(message: bytes) -> ClientFinal:
    """Return the fields of a client's final message. Raises InvalidScramMessage."""
    found = _match(_CLIENT_FINAL, message, "client's final")
    return ClientFinal(
        b64decode(found["binding"]),
        found["nonce"],
        b64decode(found["proof"]),
        found["unproven"].encode(),
    )


def parse_server_final(message: bytes) -> ServerFinal:
    """Return the fields of a server's final message. Raises InvalidScramMessage."""
    found = _match(_SERVER_FINAL, message, "server's final")
    return ServerFinal(found["error"], b64decode(found["signature"] or ""))


def client_first_bare(name: bytes, nonce: str, extensions: Mapping[str, str]) -> bytes:
    """Return a client's first message without its header. `name` is UTF-8 and not escaped yet."""
    escaped = name.replace(b"=", b"=3D").replace(b",", b"=2C")
    pairs = "".join(f",{name}={value}" for name, value in extensions.items())
    return b"n=%b,r=%b%b" % (escaped, nonce.encode(), pairs.encode())


def server_first(nonce: str, salt: bytes, iterations: int) -> bytes:
    return f"r={nonce},s={b64encode(salt).decode()},i={iterations}".encode()


def client_final_unproven(header: str, nonce: str) -> bytes:
    """Return a client's final message without its proof."""
    return f"c={b64encode(header.encode()).decode()},r={nonce}".encode()


def proven(unproven: bytes, proof: bytes) -> bytes:
    """Return a client's final message."""
    return b"%b,p=%b" % (unproven, b64encode(proof))


def server_final(signature: bytes) -> bytes:
    return b"v=" + b64encode(signature)


def auth_message(bare: bytes, first: bytes, unproven: bytes) -> bytes:
    """Return AuthMessage, which both proofs sign: the client's first message without header, the
    server's first, and the client's final without proof."""
    return b"%b,%b,%b" % (bare, first, unproven)


def signature_of(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    """Return ClientSignature for a StoredKey, or ServerSignature for a ServerKey."""
    return hmac.digest(key, message, mechanism.hash_name)


def client_proof(mechanism: ScramMechanism, salted: bytes, message: bytes) -> bytes:
    """Return ClientProof. `salted` is SaltedPassword, `message` is AuthMessage."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return _xor(client_key, signature_of(mechanism, stored_key, message))


def is_proof(mechanism: ScramMechanism, stored_key: bytes, message: bytes, proof: bytes) -> bool:
    """Return True if the sender of `proof` knows the password with this StoredKey. The time does
    not depend on the content of the proof."""
    signature = signature_of(mechanism, stored_key, message)
    if len(proof) != len(signature):
        return False
    client_key = _xor(signature, proof)
    return hmac.compare_digest(hashlib.new(mechanism.hash_name, client_key).digest(), stored_key)


def random_text(random: bytes) -> str:
    """Return random text in the form of Kafka's nonces and salts: 130 random bits in base 36, up to
    26 characters. `random` has RANDOM_BYTES bytes or more."""
    number = int.from_bytes(random[:RANDOM_BYTES], "big") >> (RANDOM_BYTES * 8 - 130)
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or "0"


def _match(pattern: re.Pattern[str], message: bytes, name: str) -> re.Match[str]:
    try:
        found = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise InvalidScramMessage(f"invalid format of the {name} message")
    return found


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(first, second, strict=True))
