"""A JSON Web Token in the compact form of RFC 7515: three parts, with dots between them."""

from __future__ import annotations

import json
from base64 import b64decode, urlsafe_b64encode
from typing import Any, Final

import msgspec

# The limit of a frame before authentication, so a longer token cannot arrive.
MOST_CHARACTERS: Final = 65_536


class JwtError(Exception):
    """A text is not a JWT. The message is the reason for the broker's log, without the token."""


class Jwt(msgspec.Struct, frozen=True):
    """The header and the claims of a token, the bytes that are signed, and the signature. Nothing
    is verified yet."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes

    def __repr__(self) -> str:
        return f"Jwt(alg={self.header.get('alg')!r})"


def read_jwt(token: str) -> Jwt:
    """Return the parts of a token. Raises JwtError.

    Each part is read strictly. Characters that Base64 ignores, or a repeated key in JSON, could
    mean different things to different readers.
    """
    if len(token) > MOST_CHARACTERS:
        raise JwtError(f"the token has {len(token)} characters, more than {MOST_CHARACTERS}")
    if not token.isascii():
        raise JwtError("not a JWT: it has characters that are not ASCII")
    parts = token.split(".")
    if len(parts) != 3:
        raise JwtError(f"not a JWT: it has {len(parts)} parts between dots, not 3")
    signed = token.rpartition(".")[0].encode()
    try:
        return Jwt(_object(parts[0]), _object(parts[1]), signed, decoded(parts[2]))
    except JwtError as error:
        raise JwtError(f"not a JWT: {error}") from None


def decoded(part: str) -> bytes:
    """Return the bytes of a text in Base64 for URLs, without padding (RFC 7515, section 2). Raises
    JwtError."""
    # `b64decode` replaces `-` and `_` but accepts `+` and `/` too, and excess bits at the end.
    if "+" in part or "/" in part or "=" in part:
        raise JwtError("a part is not in Base64 for URLs")
    try:
        data = b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True)
    except ValueError:
        raise JwtError("a part is not in Base64 for URLs") from None
    if urlsafe_b64encode(data).rstrip(b"=") != part.encode():
        raise JwtError("a part has excess bits in Base64")
    return data


def _object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(
            decoded(part).decode(), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except (RecursionError, ValueError):
        raise JwtError("a part is not JSON, or has a key twice") from None
    if not isinstance(value, dict):
        raise JwtError("a part is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
