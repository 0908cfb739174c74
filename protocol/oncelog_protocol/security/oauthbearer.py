"""The messages of SASL/OAUTHBEARER (RFC 7628), with the checks of Kafka's
OAuthBearerClientInitialResponse and OAuthBearerSaslServer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog_protocol.secret import Secret

SEPARATOR: Final = b"\x01"
# The client's response to a failure. RFC 7628, section 3.2.3, calls it a dummy.
DUMMY_RESPONSE: Final = b"\x01"
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"

_AUTH: Final = "auth"
# Possessive, because otherwise each character of a name takes 230 bytes of memory.
_NAME: Final = rb"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]++|=2C|=3D)++"
_KEY: Final = rb"[A-Za-z]++"
_VALUE: Final = rb"[\x21-\x7E \t\r\n]++"
_PAIRS: Final = rb"(?:" + _KEY + rb"=" + _VALUE + rb"\x01)*+"
_RESPONSE: Final = rb"n,(?:a=(?P<name>" + _NAME + rb"))?,\x01(?P<pairs>" + _PAIRS + rb")\x01"
_TOKEN: Final = rb"[-_~+/.a-zA-Z0-9]+=*"
_CREDENTIAL: Final = rb"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>" + _TOKEN + rb")"


class OAuthBearerError(ValueError):
    """A message, a token or an extension that Kafka refuses. The text contains no token."""


class InitialResponse(NamedTuple):
    """The client's first message. `authorization_id` is empty if the message has none. Its escapes
    `=2C` and `=3D` are not decoded, as in Kafka."""

    token: Secret
    authorization_id: str
    extensions: Mapping[str, str]


def write_initial_response(token: Secret, extensions: Mapping[str, str]) -> bytes:
    """Return the client's first message. Raises OAuthBearerError for a token or an extension that a
    broker refuses."""
    value = token.reveal().encode()
    if not re.fullmatch(_TOKEN, value):
        raise OAuthBearerError(
            "the OAuth token is empty or has characters that no bearer token may have (RFC 6750)"
        )
    check_extensions(extensions)
    pairs = [b"auth=Bearer " + value]
    pairs += [f"{name}={text}".encode() for name, text in extensions.items()]
    return b"n,," + SEPARATOR + SEPARATOR.join(pairs) + SEPARATOR + SEPARATOR


def read_initial_response(message: bytes) -> InitialResponse:
    """Return the parts of the client's first message. If a key is repeated, the last value counts.
    Raises OAuthBearerError."""
    matched = re.fullmatch(_RESPONSE, message)
    if matched is None:
        raise OAuthBearerError("invalid OAUTHBEARER client first message")
    pairs = {}
    for pair in matched["pairs"].split(SEPARATOR)[:-1]:
        key, _, value = pair.decode("ascii").partition("=")
        pairs[key] = value
    if _AUTH not in pairs:
        raise OAuthBearerError("invalid OAUTHBEARER client first message: 'auth' is missing")
    credential = re.fullmatch(_CREDENTIAL, pairs.pop(_AUTH).encode())
    if credential is None:
        raise OAuthBearerError("invalid OAUTHBEARER client first message: malformed 'auth'")
    if credential["scheme"].lower() != b"bearer":
        raise OAuthBearerError("invalid OAUTHBEARER client first message: the scheme is not Bearer")
    return InitialResponse(
        Secret(credential["token"].decode()), (matched["name"] or b"").decode("ascii"), pairs
    )


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise OAuthBearerError for an extension with the reserved name `auth`, a name that is not all
    letters, or a value that is empty or not printable (RFC 7628, section 3.1)."""
    for name, value in extensions.items():
        if name == _AUTH:
            raise OAuthBearerError("the SASL extension name 'auth' is reserved for the token")
        if not re.fullmatch(_KEY, name.encode()):
            raise OAuthBearerError(f"the SASL extension name {name!r} is not only letters a-z")
        if not re.fullmatch(_VALUE, value.encode()):
            raise OAuthBearerError(
                f"the value of the SASL extension {name} is empty or has unprintable characters"
            )


def write_failure(status: str, scope: str | None = None) -> bytes:
    """Return the broker's message for a token that it refuses: JSON in the form of Kafka."""
    pairs = {"status": status} if scope is None else {"status": status, "scope": scope}
    return json.dumps(pairs, separators=(", ", ":")).encode()


def read_failure(message: bytes) -> str:
    """Return the status in the broker's message, or the beginning of the message if it has no
    status."""
    text = message.decode(errors="replace")
    try:
        status = json.loads(text)["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text[:200]
    return str(status)[:200]
