"""The credential that a broker stores for a SCRAM user: never the password, nor what a client would
need to log in (RFC 5802, section 3).

The operations and their order are those of Kafka's ScramFormatter. Names and passwords are used as
they are, without SASLprep, as in Kafka.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from oncelog_protocol.security.mechanisms import SaslMechanism

# Kafka's limits for both mechanisms.
LEAST_ITERATIONS: Final = 4_096
MOST_ITERATIONS: Final = 16_384


class ScramMechanism(IntEnum):
    """The codes of Kafka's ScramMechanism on the wire and in its metadata records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """Return the name of the hash for `hashlib`."""
        return _HASH_NAMES[self]

    @classmethod
    def of_sasl(cls, mechanism: SaslMechanism) -> ScramMechanism:
        """Return the mechanism with this name of SASL. Raises ValueError for one that is not
        SCRAM."""
        if mechanism.name not in cls.__members__:
            raise ValueError(f"{mechanism} is not a mechanism of SCRAM")
        return cls[mechanism.name]

    @property
    def sasl(self) -> SaslMechanism:
        """Return the name of the mechanism in SASL."""
        return SaslMechanism[self.name]


_HASH_NAMES: Final = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}


class ScramCredential(NamedTuple):
    """The salt, StoredKey and ServerKey as bytes, and the number of iterations."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Return SaltedPassword, which is PBKDF2 of the password. It takes about 8 ms for 4,096
    iterations."""
    from hashlib import pbkdf2_hmac  # loads OpenSSL, which a start of a broker does not need

    return pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a SaltedPassword, as AlterUserScramCredentials has it."""
    from hashlib import new
    from hmac import digest

    client_key = digest(salted, b"Client Key", mechanism.hash_name)
    return ScramCredential(
        salt,
        new(mechanism.hash_name, client_key).digest(),
        digest(salted, b"Server Key", mechanism.hash_name),
        iterations,
    )
