"""DescribeUserScramCredentials: SCRAM credentials of users (KIP-554). There are none.

v0: the credentials of some users or of all
"""

from __future__ import annotations

from collections import Counter

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    if not context.may(Operation.DESCRIBE, CLUSTER):
        return DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
    times = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_of_user(name, count) for name, count in times.items()]
    )


def _of_user(name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{name}",
        )
    return DescribeUserScramCredentialsResult(
        name,
        ErrorCode.RESOURCE_NOT_FOUND,
        f"Attempt to describe a user credential that does not exist: {name}",
    )
