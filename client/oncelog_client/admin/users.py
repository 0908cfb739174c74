"""SCRAM credentials of users: describe, alter (KIP-554)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from oncelog_client.admin.row_retries import retry_rows, row_error
from oncelog_client.admin.scram_credentials import (
    ScramCredentialInfo,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from oncelog_client.core.arguments import texts
from oncelog_client.errors import KafkaError, check
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.randomness import token
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from oncelog_protocol.security.scram_credential import (
    MOST_ITERATIONS,
    ScramMechanism,
    salted_password,
)

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion

# More than the random bits of Kafka's salt, which is a random number of 130 bits as text.
_SALT_BYTES = 20


async def describe_credentials(
    cluster: Cluster, users: Iterable[str] | None, timeout_ms: int
) -> dict[str, list[ScramCredentialInfo]]:
    names = None if users is None else [UserName(user) for user in texts("users", users)]
    if names is not None and not names:
        return {}  # a request without names asks for all users
    request = DescribeUserScramCredentialsRequest(names)

    async def attempt() -> DescribeUserScramCredentialsResponse:
        response = await cluster.call_any(request, DescribeUserScramCredentialsResponse)
        check(response.error_code, response.error_message or "")
        for row in response.results:
            check(row.error_code, row.error_message or "")
        return response

    response = await cluster.retry(attempt, timeout_ms)
    return {
        row.user: [
            ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations)
            for info in row.credential_infos
        ]
        for row in response.results
    }


async def alter_credentials(
    cluster: Cluster, alterations: Iterable[UserScramCredentialAlteration], timeout_ms: int
) -> None:
    rows = list(alterations)
    deletions = [
        ScramCredentialDeletion(row.user, row.mechanism)
        for row in rows
        if isinstance(row, UserScramCredentialDeletion)
    ]
    added = [row for row in rows if isinstance(row, UserScramCredentialUpsertion)]
    for row in added:
        if not row.password:
            raise KafkaError(
                f"the password of {row.user!r} is empty", ErrorCode.UNACCEPTABLE_CREDENTIAL
            )
    # PBKDF2 takes milliseconds, so a thread computes it.
    upsertions: list[ScramCredentialUpsertion] = []
    if added:
        upsertions = await asyncio.to_thread(lambda: [_upsertion(row) for row in added])

    async def attempt(
        rows: Sequence[tuple[str, Alteration]],
    ) -> list[tuple[str, KafkaError | None]]:
        request = AlterUserScramCredentialsRequest(
            [row for _, row in rows if isinstance(row, ScramCredentialDeletion)],
            [row for _, row in rows if isinstance(row, ScramCredentialUpsertion)],
        )
        response = await cluster.call_controller(request, AlterUserScramCredentialsResponse)
        return [
            (row.user, row_error(row.error_code, row.error_message or ""))
            for row in response.results
        ]

    changes: list[Alteration] = [*deletions, *upsertions]
    named = [(row.name, row) for row in changes]
    await retry_rows(cluster, named, attempt, timeout_ms)


def _upsertion(row: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    salt = token(_SALT_BYTES) if row.salt is None else row.salt
    mechanism, iterations = row.info
    # The broker refuses numbers of iterations out of its limits. A computation with such a number
    # could fail, or take minutes.
    salted = salted_password(
        mechanism, row.password.reveal(), salt, min(max(iterations, 1), MOST_ITERATIONS)
    )
    return ScramCredentialUpsertion(row.user, mechanism, iterations, salt, salted)
