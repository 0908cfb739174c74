"""The arguments of `--add-scram` (KIP-900), such as
`SCRAM-SHA-512=[name=alice,iterations=8192,password=…]`, by the rules of Kafka's ScramParser.

The errors are Kafka's, except that none shows a password or a part of the argument that may hold
one.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from typing import Final, NamedTuple

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class ScramArgument(NamedTuple):
    """A valid argument. Exactly one of `password` and `salted` is not None. A salted password comes
    with its salt."""

    mechanism: ScramMechanism
    user: str
    salt: bytes | None
    iterations: int
    password: Secret | None
    salted: bytes | None

    def __repr__(self) -> str:
        return f"ScramArgument(mechanism={self.mechanism!r}, user={self.user!r})"

    def credential(self, random_salt: bytes) -> ScramCredential:
        """Return the credential to store, with `random_salt` unless the argument has a salt."""
        salt = random_salt if self.salt is None else self.salt
        salted = self.salted
        if salted is None:
            assert self.password is not None
            salted = salted_password(self.mechanism, self.password.reveal(), salt, self.iterations)
        return credential_of(self.mechanism, salt, salted, self.iterations)


def parse_scram(text: str) -> ScramArgument:
    """Return the argument. Raises ValueError."""
    name, equals, config = text.strip().partition("=")
    if not equals:
        raise ValueError("Failed to find equals sign in SCRAM argument")
    try:
        mechanism = ScramMechanism.of_sasl(SaslMechanism(name))
    except ValueError:
        raise ValueError(f"The add-scram mechanism {name} is not supported.") from None
    if not config.startswith("["):
        raise ValueError("Expected configuration string to start with [")
    if not config.endswith("]"):
        raise ValueError("Expected configuration string to end with ]")
    return _of_parts(mechanism, _parts(config[1:-1]))


def _parts(config: str) -> dict[str, str]:
    parts = {}
    # Java's split drops empty parts at the end.
    for part in config.rstrip(",").split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError("No equals sign found in SCRAM component")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        parts[name] = value
    return parts


def _of_parts(mechanism: ScramMechanism, parts: dict[str, str]) -> ScramArgument:
    user = parts.pop("name", None)
    if user is None:
        raise ValueError("You must supply 'name' to add-scram")
    salt_text, iterations_text = parts.pop("salt", None), parts.pop("iterations", None)
    salt = None if salt_text is None else _decoded(salt_text, "salt")
    iterations = LEAST_ITERATIONS
    if iterations_text is not None:
        if _INTEGER.fullmatch(iterations_text) is None:
            raise ValueError(f"Failed to parse iterations count: {iterations_text}")
        iterations = int(iterations_text)
    password, salted_text = parts.pop("password", None), parts.pop("saltedpassword", None)
    salted = None
    if password is None:
        if salted_text is None:
            raise ValueError("You must supply one of 'password' or 'saltedpassword' to add-scram")
        if salt is None:
            raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram")
        salted = _decoded(salted_text, "saltedPassword")
    if parts:
        raise ValueError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    for limit, sign in ((LEAST_ITERATIONS, ">="), (MOST_ITERATIONS, "<=")):
        if iterations < limit if sign == ">=" else iterations > limit:
            raise ValueError(
                f"The 'iterations' value must be {sign} {limit} for add-scram using "
                f"{mechanism.name}"
            )
    # In a request, Kafka's controller refuses an empty name and an empty password. Kafka's tool
    # fails for an empty password without a message, and would store an empty name.
    if not user:
        raise ValueError("Username must not be empty")
    if not (password if salted is None else salted):
        raise ValueError("Password must not be empty")
    secret = None if password is None else Secret(password)
    return ScramArgument(mechanism, user, salt, iterations, secret, salted)


def _decoded(text: str, what: str) -> bytes:
    """Return the bytes of base64 text. As in Java, the padding may be missing."""
    try:
        return b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except (NotBase64, ValueError):
        raise ValueError(f"Failed to decode given {what}") from None
