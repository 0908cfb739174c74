"""AlterUserScramCredentials (key 51, version 0): sets and removes SCRAM credentials (KIP-554)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
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
    salt: bytes = bytestring(secret=True)
    salted_password: bytes = bytestring(secret=True)


@api_message(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsRequest:
    """The credentials to remove, and those to add or replace."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@struct
class AlterUserScramCredentialsResult:
    """The outcome for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


@api_message(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsResponse:
    """The outcome for each user."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
