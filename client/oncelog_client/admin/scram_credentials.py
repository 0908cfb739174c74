"""SCRAM credentials of the admin client, with the names of Kafka's Java client (KIP-554)."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.scram_credential import LEAST_ITERATIONS
from oncelog_protocol.security.scram_credential import ScramMechanism as ScramMechanism


class ScramCredentialInfo(NamedTuple):
    """A credential without its secrets. With more iterations, a login takes longer, and so does the
    search for the password of a stolen credential."""

    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = LEAST_ITERATIONS


class UserScramCredentialUpsertion(NamedTuple):
    """A credential to add or replace. Without a salt, the client draws one. The password is never
    sent: the broker gets the result of PBKDF2."""

    user: str
    password: Secret
    info: ScramCredentialInfo = ScramCredentialInfo()
    salt: bytes | None = None

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion(user={self.user!r}, info={self.info!r})"


class UserScramCredentialDeletion(NamedTuple):
    """A credential to remove."""

    user: str
    mechanism: ScramMechanism


UserScramCredentialAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion
