"""DescribeUserScramCredentials (key 50, version 0): lists the users with SCRAM
credentials (KIP-554)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, string


@struct
class UserName:
    """One user."""

    name: str = string()


@api_message(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsRequest:
    """The requested users; null or none requests all."""

    users: list[UserName] | None = array(UserName, nullable=True, default=None)


@struct
class CredentialInfo:
    """One mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: int = int8()
    iterations: int = int32()


@struct
class DescribeUserScramCredentialsResult:
    """The credentials of one user, without their secrets."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@api_message(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsResponse:
    """The credentials of each user."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
