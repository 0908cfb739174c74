"""AlterUserScramCredentials and DescribeUserScramCredentials, with real metadata."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from oncelog_protocol.security.scram_credential import ScramMechanism, credential_of
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.scram_changes import MAX_ALTERED_AT_ONCE
from oncelog_server.handlers import alter_user_scram_credentials, describe_user_scram_credentials
from oncelog_server.security.resources import Operation
from tests.server.handlers.nodes import Denying, ask, broker

SHA_256, SHA_512 = ScramMechanism


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"salted")


async def alter(
    services: BrokerServices,
    deletions: list[ScramCredentialDeletion],
    *upsertions: ScramCredentialUpsertion,
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(deletions, [*upsertions])
    response = await ask(alter_user_scram_credentials, services, request)
    return {row.user: (row.error_code, row.error_message) for row in response.results}


async def describe(services: BrokerServices, *users: str) -> Any:
    request = DescribeUserScramCredentialsRequest([UserName(user) for user in users] or None)
    return await ask(describe_user_scram_credentials, services, request)


def infos(response: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        row.user: [(info.mechanism, info.iterations) for info in row.credential_infos]
        for row in response.results
    }


async def test_a_response_comes_when_the_image_has_the_credentials() -> None:
    async with broker() as services:
        assert await alter(services, [], upsertion("alice"), upsertion("bob", 2, 8192)) == {
            "alice": (ErrorCode.NONE, None),
            "bob": (ErrorCode.NONE, None),
        }
        assert services.metadata.image.scram_credentials == {
            (SHA_256, "alice"): credential_of(SHA_256, b"salt", b"salted", 4096),
            (SHA_512, "bob"): credential_of(SHA_512, b"salt", b"salted", 8192),
        }
        await alter(services, [ScramCredentialDeletion("bob", 2)], upsertion("alice", 2))
        response = await describe(services)
        assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
        assert infos(response) == {"alice": [(1, 4096), (2, 4096)]}


async def test_each_user_has_its_own_result() -> None:
    async with broker() as services:
        results = await alter(
            services,
            [ScramCredentialDeletion("absent", 1)],
            upsertion("few", 1, 1),
            upsertion("alice"),
        )
        assert {user: code for user, (code, _) in results.items()} == {
            "absent": ErrorCode.RESOURCE_NOT_FOUND,
            "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "alice": ErrorCode.NONE,
        }
        assert list(services.metadata.image.scram_credentials) == [(SHA_256, "alice")]


async def test_more_users_than_fit_into_a_transaction_are_altered() -> None:
    async with broker() as services:
        names = [f"user-{number}" for number in range(2 * MAX_ALTERED_AT_ONCE + 1)]
        added = await alter(services, [], *map(upsertion, names))
        assert added == dict.fromkeys(names, (ErrorCode.NONE, None))
        assert set(infos(await describe(services))) == set(names)
        removed = await alter(services, [ScramCredentialDeletion(name, 1) for name in names])
        assert removed == dict.fromkeys(names, (ErrorCode.NONE, None))
        assert services.metadata.image.scram_credentials == {}


async def test_a_user_is_described_once_and_a_repeated_or_absent_user_is_an_error() -> None:
    async with broker() as services:
        await alter(services, [], upsertion("alice"), upsertion("bob"))
        response = await describe(services, "alice", "bob", "bob", "carol")
        assert infos(response) == {"alice": [(1, 4096)], "bob": [], "carol": []}
        twice = "Cannot describe SCRAM credentials for the same user twice in a single request: bob"
        absent = "Attempt to describe a user credential that does not exist: carol"
        assert {row.user: (row.error_code, row.error_message) for row in response.results} == {
            "alice": (ErrorCode.NONE, ""),
            "bob": (ErrorCode.DUPLICATE_RESOURCE, twice),
            "carol": (ErrorCode.RESOURCE_NOT_FOUND, absent),
        }


async def test_a_client_that_may_not_alter_the_cluster_changes_nothing() -> None:
    async with broker(authorizer=Denying((Operation.ALTER, "kafka-cluster"))) as services:
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        results = await alter(services, [ScramCredentialDeletion("bob", 1)], upsertion("alice"))
        assert results == dict.fromkeys(("alice", "bob"), (denied, "Cluster authorization failed."))
        assert services.metadata.image.scram_credentials == {}
        assert (await describe(services)).error_code == ErrorCode.NONE


async def test_a_client_that_may_not_describe_the_cluster_sees_nothing() -> None:
    async with broker(authorizer=Denying((Operation.DESCRIBE, "kafka-cluster"))) as services:
        assert await alter(services, [], upsertion("alice")) == {"alice": (ErrorCode.NONE, None)}
        response = await describe(services, "alice")
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert response.results == []


async def test_a_request_that_fails_never_shows_its_secrets() -> None:
    """The log event of a defect shows the request."""
    request = AlterUserScramCredentialsRequest([], [upsertion("alice")])
    assert "salted'" not in repr(request)
    assert "salted_password=[hidden]" in repr(request)
