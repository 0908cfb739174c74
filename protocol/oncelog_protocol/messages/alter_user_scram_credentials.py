"""AlterUserScramCredentials (key 51, version 0): sets and removes SCRAM credentials (KIP-554)."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, bytestring, int8, int16, int32, string


@struct
class ScramCredentialDeletion:
    """A credential to remove."""

    name: str = string()
    mechanism: int = int8()


@struct
class ScramCredentialUpsertion:
    """A credential to add or replace."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytestring()
    salted_password: bytes = bytestring()


@message(range(0, 1), flexible_since=0)
class AlterUserScramCredentialsRequest:
    """Each user at most once."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@struct
class AlterUserScramCredentialsResult:
    """The outcome for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


@message(range(0, 1), flexible_since=0)
class AlterUserScramCredentialsResponse:
    """The outcome for each user."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
