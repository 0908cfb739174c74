"""AlterUserScramCredentials: set and remove SCRAM credentials (KIP-554). No listener authenticates
with them yet, so the broker refuses to set them, because users would rely on them.

v0: deletions and upsertions
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.ALTER_USER_SCRAM_CREDENTIALS

# SCRAM-SHA-256 and SCRAM-SHA-512. The limits on iterations are Kafka's for both.
MECHANISMS: Final = frozenset({1, 2})
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384

AlterationResult = tuple[ErrorCode, str]
DENIED: Final[AlterationResult] = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "Cluster authorization failed.",
)
TWICE: Final[AlterationResult] = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)


def handle(
    services: BrokerServices, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    verdicts: dict[str, AlterationResult] = {}
    for upsertion in request.upsertions:
        known = verdicts.get(upsertion.name)
        verdicts[upsertion.name] = _of_upsertion(upsertion) if known is None else TWICE
    for deletion in request.deletions:
        verdicts[deletion.name] = _of_deletion(deletion)
    if not context.may(Operation.ALTER, CLUSTER):
        verdicts = dict.fromkeys(verdicts, DENIED)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, code, message)
            for name, (code, message) in verdicts.items()
        ]
    )


def _of_deletion(deletion: ScramCredentialDeletion) -> AlterationResult:
    unnamed = _of_name_and_mechanism(deletion.name, deletion.mechanism)
    if unnamed is not None:
        return unnamed
    return (
        ErrorCode.RESOURCE_NOT_FOUND,
        "Attempt to delete a user credential that does not exist",
    )


def _of_upsertion(upsertion: ScramCredentialUpsertion) -> AlterationResult:
    unnamed = _of_name_and_mechanism(upsertion.name, upsertion.mechanism)
    if unnamed is not None:
        return unnamed
    if upsertion.iterations < LEAST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > MOST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return (
        ErrorCode.SECURITY_DISABLED,
        "No listener of this broker authenticates with SCRAM: the credential would protect nothing",
    )


def _of_name_and_mechanism(name: str, mechanism: int) -> AlterationResult | None:
    """Return the error, with Kafka's message, if the name or the mechanism is invalid. Return None
    if both are valid."""
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None
