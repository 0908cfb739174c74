"""AlterUserScramCredentials: set and remove SCRAM credentials (KIP-554).

v0: deletions and upsertions
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.scram_changes import ScramDeletion, ScramUpsertion, by_user
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.ALTER_USER_SCRAM_CREDENTIALS


def handle(
    services: BrokerServices, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | Deferred[AlterUserScramCredentialsResponse]:
    deletions = [ScramDeletion(row.name, row.mechanism) for row in request.deletions]
    upsertions = [
        ScramUpsertion(row.name, row.mechanism, row.iterations, row.salt, row.salted_password)
        for row in request.upsertions
    ]
    if not context.may(Operation.ALTER, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        denied = Refused(code, "Cluster authorization failed.")
        return _response(dict.fromkeys(sorted(by_user(deletions, upsertions)), denied))
    return services.spawn(_alter(services, context, deletions, upsertions))


async def _alter(
    services: BrokerServices,
    context: RequestContext,
    deletions: list[ScramDeletion],
    upsertions: list[ScramUpsertion],
) -> AlterUserScramCredentialsResponse:
    results = await services.metadata.users.alter_scram_credentials(deletions, upsertions)
    altered = [user for user, refused in results.items() if refused is None]
    services.audit_trail.credentials_altered(context.session, altered)
    return _response(results)


def _response(
    results: dict[str, Refused] | dict[str, Refused | None],
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user, ErrorCode.NONE, None)
            if refused is None
            else AlterUserScramCredentialsResult(user, refused.code, refused.message or None)
            for user, refused in results.items()
        ]
    )
