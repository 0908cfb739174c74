"""Transactions of consumer groups in a cluster of several brokers: the feature is there if every
broker has it, and the coordinators call each other by CoordinatorCall."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as change

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import GROUP_TRANSACTIONS, GROUP_TRANSACTIONS_LEVEL
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    CoordinatorCallResult,
    Operation,
)
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.members import BrokerImage
from oncelog_server.deferred import Deferred, Unheard
from oncelog_server.handlers import (
    api_versions,
    coordinator_call,
    describe_transactions,
    find_coordinator,
    init_producer_id,
    write_txn_markers,
)
from oncelog_server.settings.model import Settings
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.remote.other_coordinators import GroupGeneration
from tests.server.handlers.nodes import ask, broker
from tests.server.handlers.test_group_transactions import WHOLE
from tests.server.handlers.test_no_coordinator import without_internal_topics
from tests.server.transaction.remote.brokers import Brokers
from tests.server.transaction.remote.test_moves import ID, G, begin, init

ETCD = Settings(oncelog_etcd_endpoints=("http://etcd:2379",))
OLD: dict[str, tuple[int, int]] = {}
NEW = {GROUP_TRANSACTIONS: (GROUP_TRANSACTIONS_LEVEL, GROUP_TRANSACTIONS_LEVEL)}


class Others:
    """The coordinators of other brokers. `served` are the calls that they have served."""

    def __init__(self) -> None:
        self.served: list[CoordinatorCall] = []

    def generation(self, membership: GroupAssignment) -> GroupGeneration:
        return GroupGeneration(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def serve(self, call: CoordinatorCall) -> CoordinatorCallResult | Deferred[Any]:
        self.served.append(call)
        result = CoordinatorCallResult(generation_id=len(self.served))
        later: Deferred[CoordinatorCallResult] = Deferred()
        later.complete(result)
        return later if len(self.served) % 2 else result


def shared(services: BrokerServices, *features: dict[str, tuple[int, int]]) -> BrokerServices:
    """Return the services of a broker with others, which have these features."""
    metadata: Any = services.metadata
    (own,) = metadata.image.brokers.values()
    others = {
        number: BrokerImage(number, 5, "incarnation", (), None, of_broker)
        for number, of_broker in enumerate(features, 2)
    }
    metadata.follower.image = change(metadata.image, brokers={own.id: own, **others})
    found: Any = Others()
    return replace(services, other_coordinators=found)


@pytest.mark.parametrize(
    ("features", "expected"),
    [((NEW, NEW), True), ((NEW, OLD), False), ((), True)],
    ids=["all", "one broker is older", "the only broker"],
)
async def test_the_feature_is_announced_if_every_broker_has_it(
    features: tuple[dict[str, tuple[int, int]], ...], expected: bool
) -> None:
    async with broker(ETCD) as services:
        services = shared(services, *features)
        services.versions = {}
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        response = await ask(api_versions, services, request)
        announced = {feature.name for feature in response.finalized_features}
        assert (GROUP_TRANSACTIONS in announced) is expected
        assert services.has_group_transactions is expected


@pytest.mark.parametrize("features", [(NEW, NEW), (NEW, OLD)], ids=["all", "one is older"])
async def test_requests_for_the_feature_are_refused_if_a_broker_lacks_it(
    features: tuple[dict[str, tuple[int, int]], ...],
) -> None:
    """The older broker may become the coordinator of any group or id."""
    has_it = OLD not in features
    async with broker(ETCD) as bare:
        services = without_internal_topics(shared(bare, *features))
        init = InitProducerIdRequest(transaction_timeout_ms=1_000, **WHOLE)
        refused = (await ask(init_producer_id, services, init)).error_code
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=["g"])
        (found,) = (await ask(find_coordinator, services, find, 5)).coordinators
    assert (refused == ErrorCode.UNSUPPORTED_VERSION) is not has_it
    assert (found.error_code == ErrorCode.INVALID_REQUEST) is not has_it


async def test_a_broker_that_switches_the_feature_off_has_it_not_and_registers_without() -> None:
    off = Settings(oncelog_etcd_endpoints=("http://etcd:2379",), group_transactions_enable=False)
    async with broker(off) as services:
        services = shared(services, NEW)
        assert not services.has_group_transactions
        assert GROUP_TRANSACTIONS not in services.metadata.image.brokers[1].features


def located(key: str = "a") -> CoordinatorCallRequest:
    return CoordinatorCallRequest(CoordinatorCall(Operation.LOCATE, key, "g"))


async def test_a_call_gets_its_result() -> None:
    async with broker(ETCD) as services:
        services = shared(services)
        others: Any = services.other_coordinators
        for number, key in enumerate("abc", 1):
            response = await ask(coordinator_call, services, located(key))
            assert response.result.generation_id == number
        assert [call.key for call in others.served] == ["a", "b", "c"]


class Unserved:
    """Coordinators with a call that is pending, or that has a defect."""

    def __init__(self) -> None:
        self.result: Deferred[CoordinatorCallResult] = Deferred()
        self.has_defect = False

    def serve(self, call: CoordinatorCall) -> Deferred[CoordinatorCallResult]:
        if self.has_defect:
            raise RuntimeError("a defect")
        return self.result


@pytest.mark.parametrize("fails", ["at once", "later", "later, already logged"])
async def test_a_defect_in_a_call_fails_only_this_call(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception would close the link between the brokers, with all other calls in flight."""
    logged: list[Exception] = []
    monkeypatch.setattr(Unheard, "take", logged.append)
    async with broker(ETCD) as services:
        others: Any = Unserved()
        services = replace(shared(services), other_coordinators=others)
        others.has_defect = fails == "at once"
        if fails != "at once":
            failure = RuntimeError("a defect") if fails == "later" else None
            asyncio.get_running_loop().call_soon(others.result.abandon, failure)
        response = await ask(coordinator_call, services, located())
    assert response.result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [str(failure) for failure in logged] == ["a defect"] * (fails != "later, already logged")


async def test_calls_are_served_on_the_listener_between_brokers_only() -> None:
    settings = Settings(
        oncelog_etcd_endpoints=("http://etcd:2379",),
        listeners=("PLAINTEXT://:9092", "EXTERNAL://:19092"),
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
    )
    async with broker(settings) as services:
        services = shared(services)
        request = located()
        for listener, code in (
            ("PLAINTEXT", ErrorCode.NONE),
            ("EXTERNAL", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ):
            response = await ask(coordinator_call, services, request, listener=listener)
            assert response.error_code == code


async def test_describe_transactions_finds_an_id_in_a_group_of_another_broker() -> None:
    cluster = Brokers()
    producer = init(cluster, G)
    assert begin(cluster, G, producer) is ErrorCode.NONE
    own = cluster.coordinator(ID)
    assert own is not cluster.coordinator(G)
    async with broker(ETCD) as bare:
        services = replace(bare, transactions=own.transactions, other_coordinators=own.others)
        others: Any = own.others
        ask_other = others._calls.ask

        def answered(*arguments: Any) -> Any:
            found = ask_other(*arguments)
            cluster.settle()
            return found

        others._calls.ask = answered
        request = DescribeTransactionsRequest([ID, "unknown"])
        response = await ask(describe_transactions, services, request)
        found, unknown = response.transaction_states
        assert (found.transactional_id, found.transaction_state) == (ID, "Ongoing")
        assert (found.producer_id, found.producer_epoch) == producer
        assert [topic.topic for topic in found.topics] == ["a"]
        assert unknown.error_code in (
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            ErrorCode.NOT_COORDINATOR,
        )


async def test_an_operators_marker_is_judged_by_the_whole_cluster() -> None:
    cluster = Brokers()
    producer = init(cluster, None)
    assert begin(cluster, None, producer) is ErrorCode.NONE
    other = next(
        found for found in cluster.brokers.values() if found is not cluster.coordinator(ID)
    )
    marker = WritableTxnMarker(*producer, False, [WritableTxnMarkerTopic("a", [0])], 0)
    async with broker(ETCD) as bare:
        services = replace(
            bare,
            transactions=other.transactions,
            other_coordinators=other.others,
            local_markers=other.local,
        )
        asking = asyncio.ensure_future(
            ask(write_txn_markers, services, WriteTxnMarkersRequest([marker]))
        )
        await asyncio.sleep(0)
        assert not asking.done()
        cluster.settle()
        response = await asking
    (topic,) = response.markers[0].topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
