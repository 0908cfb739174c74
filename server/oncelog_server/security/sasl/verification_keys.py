"""The public keys of an issuer: a JWKS (RFC 7517), and the signatures that they verify.

joserfc and cryptography do the arithmetic. They are imported at the first use, because they take 80
ms and only OAUTHBEARER needs them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from oncelog_server.security.sasl.jwt import Jwt, JwtError, decoded

if TYPE_CHECKING:
    from joserfc.jwk import Key

# The types and curves of the keys for each algorithm. Algorithms that are not in this table are
# refused: `none` has no signature, and the key of HS256 would be the public key.
ALGORITHMS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512"), ("RSA", frozenset())),
    **dict.fromkeys(("PS256", "PS384", "PS512"), ("RSA", frozenset())),
    "ES256": ("EC", frozenset({"P-256"})),
    "ES384": ("EC", frozenset({"P-384"})),
    "ES512": ("EC", frozenset({"P-521"})),
    "EdDSA": ("OKP", frozenset({"Ed25519", "Ed448"})),
}
# The public members of each type of key. Private members are never read.
_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
# jose4j refuses shorter keys (RFC 7518, section 3.3).
_LEAST_RSA_BITS: Final = 2048


class JwksError(ValueError):
    """A text is not a JWKS, or none of its keys can verify a token."""


class SecurityExtraMissing(ImportError):
    """OAUTHBEARER needs joserfc and cryptography."""


class VerificationKey(msgspec.Struct, frozen=True):
    """A public key. `kid` and `algorithm` are None if the JWKS does not limit the key to them."""

    key_type: str
    curve: str
    kid: str | None
    algorithm: str | None
    key: Any

    def fits(self, algorithm: str, kid: str | None) -> bool:
        """Return True if a token with these header values can be signed with the key."""
        key_type, curves = ALGORITHMS[algorithm]
        return (
            self.key_type == key_type
            and (not curves or self.curve in curves)
            and self.algorithm in (None, algorithm)
            and kid in (None, self.kid)
        )


class VerificationKeys(msgspec.Struct, frozen=True):
    """The usable keys of a JWKS, in their order. Keys for encryption, symmetric keys and malformed
    keys are left out, as in jose4j."""

    keys: tuple[VerificationKey, ...]

    @property
    def kids(self) -> list[str]:
        return [key.kid for key in self.keys if key.kid is not None]

    def select(self, algorithm: str, kid: str | None) -> VerificationKey | None:
        """Return the key for a token with these header values. A token without `kid` gets the first
        key that fits its algorithm, as in jose4j."""
        return next((key for key in self.keys if key.fits(algorithm, kid)), None)


def read_jwks(data: bytes) -> VerificationKeys:
    """Return the keys of a JWKS. A call with 1 MiB takes about 0.1 s, so it belongs into a thread.
    Raises JwksError, and SecurityExtraMissing without joserfc."""
    import_joserfc()
    try:
        value = json.loads(data.decode())
    except (RecursionError, ValueError):
        raise JwksError("not JSON") from None
    listed = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise JwksError("a JWKS is a JSON object with a list `keys`")
    found = [_read_key(member) for member in listed if isinstance(member, dict)]
    keys = tuple(key for key in found if key is not None)
    if not keys:
        raise JwksError(f"none of its {len(listed)} keys can verify a token")
    return VerificationKeys(keys)


def verifies(key: VerificationKey, token: Jwt, algorithm: str) -> bool:
    """Return True if the signature of a token is of this key. Takes 60 to 600 µs."""
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    # joserfc's functions for whole tokens refuse headers above 512 bytes, and warn at every token
    # that the name EdDSA is deprecated.
    model = JWSRegistry.algorithms[algorithm]
    try:
        model.check_key(key.key)
        return model.verify(token.signed, token.signature, key.key)
    except (JoseError, ValueError):
        return False


def import_joserfc() -> None:
    """Import joserfc. Raises SecurityExtraMissing, with what to install."""
    try:
        import joserfc.jws  # noqa: F401 - only shows whether it is installed
    except ImportError as error:
        raise SecurityExtraMissing(
            "OAUTHBEARER needs joserfc and cryptography: pip install 'oncelog[security]'"
        ) from error


def _read_key(member: dict[str, Any]) -> VerificationKey | None:
    """Return a key of a JWKS, or None if it is not for signatures or is malformed."""
    key_type = member.get("kty")
    operations = member.get("key_ops")
    if (
        not isinstance(key_type, str)
        or key_type not in _MEMBERS
        or member.get("use") not in (None, "sig")
        or not (operations is None or (isinstance(operations, list) and "verify" in operations))
        or not all(isinstance(member.get(name), str | None) for name in ("kid", "alg"))
    ):
        return None
    public = {"kty": key_type, **{name: member.get(name) for name in _MEMBERS[key_type]}}
    key = _import_key(public)
    if key is None:
        return None
    return VerificationKey(
        key_type, str(public.get("crv", "")), member.get("kid"), member.get("alg"), key
    )


def _import_key(public: dict[str, Any]) -> Key | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    try:
        if public["kty"] == "RSA" and _bits(public["n"]) < _LEAST_RSA_BITS:
            return None
        return import_key(public)
    except (JoseError, JwtError, KeyError, TypeError, UnsupportedAlgorithm, ValueError):
        return None


def _bits(modulus: object) -> int:
    return int.from_bytes(decoded(str(modulus))).bit_length()
