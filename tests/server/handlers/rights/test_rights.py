"""Each API in each version, with exactly the rights that it needs, and without each of them in
turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, SINKS, TRANSACTION_STATE
from oncelog_server.handlers import all_handlers
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import CLUSTER, Operation
from tests.server.handlers.rights import administration, data, groups, transactions
from tests.server.handlers.rights.broker import HOST, RightsBroker, rights_broker
from tests.server.handlers.rights.case import (
    Case,
    Outcome,
    Right,
    group,
    topic,
    transactional_id,
)
from tests.simulation.effects import changed, state_of

CASES: Final = (*data.CASES, *groups.CASES, *transactions.CASES, *administration.CASES)
DESCRIBE: Final = Operation.DESCRIBE
OTHER_HOST: Final = "10.0.0.2"


class Client(NamedTuple):
    """A user with some rights, each on one name and from one host, and what it gets."""

    user: str
    rights: tuple[tuple[Right, str, str], ...]
    expected: Outcome

    def rules(self) -> Iterator[tuple[Pattern, Acl]]:
        for right, name, host in self.rights:
            acl = Acl(f"User:{self.user}", host, right.operation, Permission.ALLOW)
            yield Pattern(right.resource.type, name, PatternType.LITERAL), acl


def clients(number: int, case: Case) -> Iterator[Client]:
    """Yield the clients of a row. The first has all rights. Then, for each right, come a client
    without it, and clients that have it for another name or another host only."""
    needs = [need.right for need in case.needs]
    sufficient = [(right, right.resource.name, HOST) for right in needs]
    yield Client(f"{number}-sufficient", tuple(sufficient), case.allowed)
    for index, need in enumerate(case.needs):
        right, name = need.right, need.right.resource.name
        others = sufficient[:index] + sufficient[index + 1 :]
        yield Client(f"{number}-without-{index}", tuple(others), need.denied)
        elsewhere = (right, name, OTHER_HOST)
        yield Client(f"{number}-host-{index}", (*others, elsewhere), need.denied)
        # An authorization by type asks for no name, so a right on another name suffices.
        if right.resource != CLUSTER and case.request is not transactions.IDEMPOTENT:
            another = (right, f"{name}-2", HOST)
            yield Client(f"{number}-name-{index}", (*others, another), need.denied)


@pytest.fixture(scope="module")
def broker() -> Iterator[RightsBroker]:
    """A broker with the rules of all clients of all rows."""
    with rights_broker() as started:
        started.allow(
            rule
            for number, case in enumerate(CASES)
            for client in clients(number, case)
            for rule in client.rules()
        )
        yield started


@pytest.mark.parametrize("number", range(len(CASES)), ids=map(str, CASES))
def test_exactly_the_needed_rights_suffice(broker: RightsBroker, number: int) -> None:
    """A client that lacks one right, or has it for another name or host only, is denied with
    Kafka's code at its place. A denied request changes nothing (I20)."""
    case = CASES[number]
    wrong: list[tuple[object, ...]] = []
    for version in case.tested:
        request = case.request(broker.topic_id)
        for client in clients(number, case):
            broker.commit_an_offset()
            before = state_of(broker.node.broker)
            found = case.read(broker.ask(client.user, request, version))
            if found != client.expected:
                wrong.append((version, client.user, sorted(found), sorted(client.expected)))
            if client.expected != case.allowed:
                effects = changed(before, state_of(broker.node.broker))
                wrong += [(version, client.user, effect) for effect in effects]
    assert wrong == []


def test_every_version_of_every_api_has_a_row() -> None:
    served = {(api.API, version) for api in all_handlers() for version in api.versions}
    assert {(case.api, version) for case in CASES for version in case.tested} == served


def test_a_row_names_versions_that_are_served() -> None:
    versions = {api.API: api.versions for api in all_handlers()}
    assert all(set(case.tested) <= set(versions[ApiKey(case.api)]) for case in CASES)


@pytest.mark.parametrize(
    ("key_type", "right"), [(0, group(DESCRIBE)), (1, transactional_id(DESCRIBE))]
)
def test_a_denied_client_creates_no_topic_of_a_coordinator(key_type: int, right: Right) -> None:
    """The first FindCoordinator creates the internal topic."""
    name = right.resource.name
    request = FindCoordinatorRequest(name, key_type, [name])
    with rights_broker(prepared=False) as broker:
        before = state_of(broker.node.broker)
        broker.ask("client", request, 4)
        assert changed(before, state_of(broker.node.broker)) == []
        broker.allow_user("client", right)
        broker.ask("client", request, 4)
        assert (CONSUMER_OFFSETS, TRANSACTION_STATE)[key_type] in (
            broker.services.metadata.image.topics
        )


def test_a_denied_client_creates_no_topic_of_sinks(broker: RightsBroker) -> None:
    """The first commit of a sink of Spark creates `__oncelog_sink`."""
    partitions = [TxnOffsetCommitRequestPartition(0, 7)]
    topics = [TxnOffsetCommitRequestTopic(SINKS, partitions=partitions)]
    request = TxnOffsetCommitRequest("sink", "sink", 1, 0, topics=topics)
    before = state_of(broker.node.broker)
    broker.ask("a sink", request, 5)
    assert changed(before, state_of(broker.node.broker)) == []
    broker.allow_user("a sink", topic(Operation.READ, SINKS))
    broker.ask("a sink", request, 5)
    assert SINKS in broker.services.metadata.image.topics
