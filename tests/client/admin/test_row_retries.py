"""Administrative requests with several rows: only the rows with a retriable error are sent again.
The tests run in simulated time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog_client import Admin, KafkaError, RetriableError, TopicPartition
from oncelog_client.admin import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import CLOSE, ScriptedBroker, messages, simulated

SERVER = "broker:9092"
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
NAMES = ["a", "b", "c"]
Call = Callable[[Admin], Awaitable[Any]]


class Controller(ScriptedBroker):
    """A controller that makes the changes of at most `quota` rows in each request, and refuses the
    others as throttled. It refuses a change that it has made with `repeated`, and a change of a row
    in `refused` with POLICY_VIOLATION. It closes the connection after each of the first `lost`
    requests, and sends no response to these."""

    def __init__(
        self, api: ApiKey, repeated: int, quota: int = 1, refused: str = "", lost: int = 0
    ) -> None:
        super().__init__(self._respond)
        self.made: list[str] = []
        self._api = api
        self._repeated = repeated
        self._quota = quota
        self._refused = refused
        self._lost = lost

    def _respond(self, api: ApiKey, request: Any) -> Any:
        if api is not self._api:
            return None
        left = self._quota

        def code(name: str) -> int:
            nonlocal left
            if name == self._refused:
                return ErrorCode.POLICY_VIOLATION
            if name in self.made:
                return self._repeated
            if not left:
                return THROTTLED
            left -= 1
            self.made.append(name)
            return ErrorCode.NONE

        response = RESPONSES[api](messages(api), request, code)
        if self._lost:
            self._lost -= 1
            return CLOSE
        return response


def _deleted_acls(m: Any, request: Any, code: Callable[[str], int]) -> Any:
    def matching(principal: str) -> Any:
        return m.DeleteAclsMatchingAcl(
            0, None, AclResourceType.TOPIC, "t", PatternType.LITERAL, principal, "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )  # fmt: skip

    results = []
    for row in request.filters:
        refusal = code(row.principal_filter)
        found = [] if refusal else [matching(row.principal_filter)]
        results.append(m.DeleteAclsFilterResult(refusal, None, found))
    return m.DeleteAclsResponse(filter_results=results)


def _reassigned(m: Any, request: Any, code: Callable[[str], int]) -> Any:
    topics = [
        m.ReassignableTopicResponse(
            topic.name,
            [m.ReassignablePartitionResponse(0, code(topic.name))],
        )
        for topic in request.topics
    ]
    return m.AlterPartitionReassignmentsResponse(responses=topics)


# The response to each API. The functions get the messages of the API, the request, and a function
# that returns the code of a row.
RESPONSES: dict[ApiKey, Callable[[Any, Any, Callable[[str], int]], Any]] = {
    ApiKey.CREATE_TOPICS: lambda m, request, code: m.CreateTopicsResponse(
        topics=[
            m.CreatableTopicResult(name=row.name, error_code=code(row.name))
            for row in request.topics
        ]
    ),
    ApiKey.DELETE_TOPICS: lambda m, request, code: m.DeleteTopicsResponse(
        responses=[
            m.DeletableTopicResult(name=row.name, error_code=code(row.name))
            for row in request.topics
        ]
    ),
    ApiKey.CREATE_PARTITIONS: lambda m, request, code: m.CreatePartitionsResponse(
        results=[
            m.CreatePartitionsTopicResult(name=row.name, error_code=code(row.name))
            for row in request.topics
        ]
    ),
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda m, request, code: (
        m.AlterUserScramCredentialsResponse(
            results=[
                m.AlterUserScramCredentialsResult(row.name, code(row.name))
                for row in request.deletions
            ]
        )
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassigned,
}

# For each API: the call for `names`, and the code of a change that has been made.
CALLS: dict[ApiKey, tuple[Callable[[Admin, list[str]], Awaitable[Any]], int]] = {
    ApiKey.CREATE_TOPICS: (
        lambda admin, names: admin.create_topics(names),
        ErrorCode.TOPIC_ALREADY_EXISTS,
    ),
    ApiKey.DELETE_TOPICS: (
        lambda admin, names: admin.delete_topics(names),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    ApiKey.CREATE_PARTITIONS: (
        lambda admin, names: admin.create_partitions(dict.fromkeys(names, 4)),
        ErrorCode.INVALID_PARTITIONS,
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        lambda admin, names: admin.alter_user_scram_credentials(
            UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256) for name in names
        ),
        ErrorCode.RESOURCE_NOT_FOUND,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        lambda admin, names: admin.alter_partition_reassignments(
            {TopicPartition(name, 0): None for name in names}
        ),
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ),
    ApiKey.DELETE_ACLS: (
        lambda admin, names: admin.delete_acls(
            AclBindingFilter(AclResourceType.TOPIC, principal=name) for name in names
        ),
        ErrorCode.NONE,
    ),
}
APIS = pytest.mark.parametrize("api", CALLS, ids=lambda api: api.name)


def _run(broker: Controller, api: ApiKey) -> Any:
    call, _ = CALLS[api]

    async def scenario() -> Any:
        async with Admin(SERVER, default_api_timeout_ms=5_000) as admin:
            return await call(admin, NAMES)

    return simulated(broker, scenario)


@APIS
def test_a_row_that_has_succeeded_is_not_sent_again(api: ApiKey) -> None:
    """A former defect: each attempt sent all rows. The call then raised TOPIC_ALREADY_EXISTS, or
    "there is no topic", for a change that it had made itself."""
    broker = Controller(api, CALLS[api][1])
    found = _run(broker, api)
    assert broker.made == NAMES
    assert broker.counts[api] == 3
    if api is ApiKey.DELETE_ACLS:
        assert found == [
            AclBinding(
                ResourcePattern(AclResourceType.TOPIC, "t", PatternType.LITERAL),
                AccessControlEntry(name, "*", AclOperation.READ, AclPermissionType.ALLOW),
            )
            for name in NAMES
        ]


@APIS
@pytest.mark.parametrize("refused", NAMES)
def test_the_other_rows_are_retried_before_the_error_of_a_refused_row(
    api: ApiKey, refused: str
) -> None:
    broker = Controller(api, CALLS[api][1], refused=refused)
    with pytest.raises(KafkaError) as caught:
        _run(broker, api)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert broker.made == [name for name in NAMES if name != refused]
    notes = getattr(caught.value, "__notes__", [])
    if api is ApiKey.DELETE_ACLS:
        assert notes == []  # the rows are filters without a name
    else:
        suffix = "-0" if api is ApiKey.ALTER_PARTITION_REASSIGNMENTS else ""
        made = ", ".join(f"{name}{suffix}" for name in broker.made)
        assert notes == [f"this has taken effect: {made}"]


@pytest.mark.parametrize(
    ("api", "validate"),
    [
        (ApiKey.CREATE_TOPICS, lambda admin: admin.create_topics(NAMES, validate_only=True)),
        (
            ApiKey.CREATE_PARTITIONS,
            lambda admin: admin.create_partitions(dict.fromkeys(NAMES, 4), validate_only=True),
        ),
    ],
    ids=["CREATE_TOPICS", "CREATE_PARTITIONS"],
)
def test_an_error_of_a_validation_has_no_note(api: ApiKey, validate: Call) -> None:
    """A validation takes no effect."""
    broker = Controller(api, CALLS[api][1], quota=len(NAMES), refused="b")

    async def scenario() -> Any:
        async with Admin(SERVER, default_api_timeout_ms=5_000) as admin:
            return await validate(admin)

    with pytest.raises(KafkaError) as caught:
        simulated(broker, scenario)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert not hasattr(caught.value, "__notes__")


@APIS
def test_rows_that_are_throttled_until_the_deadline_raise_their_error(api: ApiKey) -> None:
    broker = Controller(api, CALLS[api][1], quota=0)
    with pytest.raises(RetriableError) as caught:
        _run(broker, api)
    assert caught.value.code is THROTTLED


def test_all_rows_are_sent_again_after_a_lost_response() -> None:
    """The client cannot know whether it has created the topics itself."""
    broker = Controller(
        ApiKey.CREATE_TOPICS, ErrorCode.TOPIC_ALREADY_EXISTS, quota=len(NAMES), lost=1
    )
    with pytest.raises(KafkaError) as caught:
        _run(broker, ApiKey.CREATE_TOPICS)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    sent = [
        [row.name for row in request.topics]
        for _, api, request in broker.requests
        if api is ApiKey.CREATE_TOPICS
    ]
    assert sent == [NAMES, NAMES]
