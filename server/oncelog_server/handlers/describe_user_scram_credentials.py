"""DescribeUserScramCredentials: mechanisms and iterations of SCRAM credentials (KIP-554).

v0: the credentials of some users or of all
"""

from __future__ import annotations

from collections import Counter

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps

API = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse | Steps[DescribeUserScramCredentialsResponse]:
    if not context.may(Operation.DESCRIBE, CLUSTER):
        return DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
    return _steps(services.metadata.image, [user.name for user in request.users or ()])


def _steps(image: ClusterImage, names: list[str]) -> Steps[DescribeUserScramCredentialsResponse]:
    """Return the response, with a step for each user. An empty list of names stands for all users,
    as null does."""
    times = Counter(names)
    if not names:
        for _, user in image.scram_credentials:
            yield
            times[user] = 1
    results = []
    for user, count in times.items():
        yield
        results.append(_duplicate(user) if count > 1 else _described(image, user))
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _described(image: ClusterImage, user: str) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism, credential.iterations)
        for mechanism in ScramMechanism
        if (credential := image.scram_credentials.get((mechanism, user))) is not None
    ]
    if infos:
        return DescribeUserScramCredentialsResult(user, error_message="", credential_infos=infos)
    return DescribeUserScramCredentialsResult(
        user,
        ErrorCode.RESOURCE_NOT_FOUND,
        f"Attempt to describe a user credential that does not exist: {user}",
    )


def _duplicate(user: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user,
        ErrorCode.DUPLICATE_RESOURCE,
        f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
    )
