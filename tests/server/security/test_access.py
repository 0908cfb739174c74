"""The checks of a request's rights: their error codes, and the resource and session that the
authorizer gets."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, NamedTuple

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.requests.session import Session
from oncelog_server.security.access import DENIED
from oncelog_server.security.authorizer import AllowAll, Subject
from oncelog_server.security.resources import (
    CLUSTER,
    Operation,
    Principal,
    Resource,
    ResourceType,
)

ALICE = Session(Principal("User", "alice"), "10.0.0.1", "EXTERNAL", lambda: False)
# The resource as a keyword of `may` and `require`, and the resource that the authorizer gets.
NAMED: list[tuple[dict[str, Any], Resource]] = [
    ({"topic": "t"}, Resource(ResourceType.TOPIC, "t")),
    ({"topic": ""}, Resource(ResourceType.TOPIC, "")),
    ({"group": "g"}, Resource(ResourceType.GROUP, "g")),
    ({"transactional_id": "i"}, Resource(ResourceType.TRANSACTIONAL_ID, "i")),
    ({"resource": CLUSTER}, CLUSTER),
]


class Question(NamedTuple):
    subject: Subject
    operation: Operation
    resource: Resource


class Recording(AllowAll):
    """An authorizer that records each call of `authorize`, and gives the same verdict in all of
    them."""

    def __init__(self, verdict: bool) -> None:
        self.verdict = verdict
        self.questions: list[Question] = []

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        self.questions.append(Question(subject, operation, resource))
        return self.verdict

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        return self.verdict


def request(authorizer: Any) -> RequestContext:
    return RequestContext(ALICE, authorizer, 0, 0, 1, "client")


@pytest.mark.parametrize("resource_type", ResourceType)
def test_a_denied_request_gets_the_code_of_the_resource_type(resource_type: ResourceType) -> None:
    denied = request(Recording(False))
    with pytest.raises(Refused) as refused:
        denied.require(Operation.READ, Resource(resource_type, "name"))
    # A right on a user is a right to create or describe tokens of this user (KIP-373).
    of_tokens = resource_type is ResourceType.USER
    name = "DELEGATION_TOKEN" if of_tokens else resource_type.name
    assert refused.value.code is ErrorCode[f"{name}_AUTHORIZATION_FAILED"]
    assert refused.value.code is DENIED[resource_type]


@pytest.mark.parametrize(("named", "resource"), NAMED)
@pytest.mark.parametrize("verdict", [True, False])
def test_the_authorizer_sees_the_session_and_the_named_resource(
    named: dict[str, Any], resource: Resource, verdict: bool
) -> None:
    authorizer = Recording(verdict)
    asked = request(authorizer)
    assert asked.may(Operation.READ, **named) is verdict
    if verdict:
        asked.require(Operation.WRITE, **named)
    else:
        with pytest.raises(Refused):
            asked.require(Operation.WRITE, **named)
    assert [question[1:] for question in authorizer.questions] == [
        (Operation.READ, resource),
        (Operation.WRITE, resource),
    ]
    for question in authorizer.questions:
        subject = question.subject
        assert (str(subject.principal), subject.host) == ("User:alice", "10.0.0.1")
        assert subject.listener == "EXTERNAL"


def test_a_check_without_a_resource_raises_even_if_everything_is_allowed() -> None:
    allowed = request(AllowAll())
    with pytest.raises(ValueError, match="no resource"):
        allowed.may(Operation.WRITE, topic=None)
    with pytest.raises(ValueError, match="no resource"):
        allowed.require(Operation.WRITE)


def test_authorized_operations_are_bits_at_the_codes_of_the_operations() -> None:
    assert request(Recording(False)).authorized_operations(CLUSTER) == 0
    group = Resource(ResourceType.GROUP, "g")
    assert request(AllowAll()).authorized_operations(group) == 0b110101001000


def test_a_check_of_a_right_takes_two_function_calls() -> None:
    """Produce and Fetch check each topic of a request, so each additional function call in a check
    would slow them down."""
    calls: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        # The garbage collector may call functions in between. They do not count.
        if event == "call" and "oncelog_server" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    asked = request(AllowAll())
    sys.setprofile(count)
    try:
        asked.may(Operation.READ, topic="t")
        asked.require(Operation.WRITE, topic="t")
        asked.may(Operation.WRITE, transactional_id="i")
    finally:
        sys.setprofile(None)
    assert calls == ["may", "authorize", "require", "authorize", "may", "authorize"]
