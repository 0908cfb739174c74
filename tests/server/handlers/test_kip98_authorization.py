"""KIP-98, section "Authorization": each sentence is a test, which quotes it.

The rights of every API are in the tables of `rights/`. Here the clients are two producers: alice,
with an open transaction, and mallory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog_protocol.records.batch import build_batch, read_records, split_batches
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.rights.broker import SUPER_USER, RightsBroker, rights_broker
from tests.server.handlers.rights.case import (
    GROUP,
    TOPIC,
    Right,
    cluster,
    group,
    topic,
    transactional_id,
)
from tests.simulation.effects import changed, state_of

ALICE, MALLORY = "alice", "mallory"
ALICES_ID, MALLORYS_ID = "alices", "mallorys"
SECOND_TOPIC: Final = "payments"
WRITE, READ, ALL = Operation.WRITE, Operation.READ, Operation.ALL
NONE: Final = ErrorCode.NONE
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_OF_ANOTHER: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
BUSY: Final = ErrorCode.CONCURRENT_TRANSACTIONS


class Producers:
    """The broker, with the producer id and epoch of alice."""

    def __init__(self, broker: RightsBroker) -> None:
        self.broker = broker
        broker.allow_user(ALICE, transactional_id(WRITE, ALICES_ID), topic(WRITE), group(READ))
        begun = self.ask(ALICE, InitProducerIdRequest(ALICES_ID, 900_000))
        assert begun.error_code == NONE
        self.alice = begun.producer_id, begun.producer_epoch
        assert self.produce(ALICE, ALICES_ID, self.alice) == NONE

    def ask(self, user: str, request: Any, version: int | None = None) -> Any:
        name = type(request).__name__.removesuffix("Request")
        (latest,) = (api.latest for api in APIS.values() if api.name == name)
        return self.broker.ask(user, request, latest if version is None else version)

    def produce(
        self, user: str, name: str | None, producer: tuple[int, int], sequence: int = 0
    ) -> int:
        """Write a record of a transaction to the topic. Return the error code."""
        return self.send(user, name, transactional_batch(producer, sequence))

    def send(self, user: str, name: str | None, batch: bytearray, to: str = TOPIC) -> int:
        data = [PartitionProduceData(0, batch)]
        request = ProduceRequest(name, -1, 1_000, [TopicProduceData(to, partition_data=data)])
        (answered,) = self.ask(user, request, 12).responses
        code: int = answered.partition_responses[0].error_code
        return code

    def end(self, user: str, name: str, producer: tuple[int, int]) -> int:
        code: int = self.ask(user, EndTxnRequest(name, *producer, True), 4).error_code
        return code

    @contextmanager
    def no_effect(self) -> Iterator[None]:
        """Check that the block changes nothing on the broker."""
        before = state_of(self.broker.node.broker)
        yield
        assert changed(before, state_of(self.broker.node.broker)) == []

    @property
    def last_stable_offset(self) -> int:
        return self.broker.services.partitions.require(TOPIC, 0).last_stable_offset

    @property
    def log_end_offset(self) -> int:
        return self.broker.services.partitions.require(TOPIC, 0).log_end_offset


def transactional_batch(producer: tuple[int, int], sequence: int = 0) -> bytearray:
    return build_batch(
        [NewRecord(1, None, b"v")],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )


def marker_batch(producer: tuple[int, int]) -> bytearray:
    return build_marker_batch(
        EndTransactionMarker(True, 0),
        producer_id=producer[0],
        producer_epoch=producer[1],
        timestamp_ms=1,
    )


@pytest.fixture
def producers() -> Iterator[Producers]:
    with rights_broker() as broker:
        broker.run(broker.services.metadata.create_topics([NewTopic(SECOND_TOPIC)]))
        yield Producers(broker)


def coordinator_requests(name: str, producer: tuple[int, int]) -> dict[ApiKey, Any]:
    """Return the requests of the section, about a transaction."""
    return {
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(name, 60_000),
        ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [0])],
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest(name, *producer, GROUP),
        ApiKey.END_TXN: EndTxnRequest(name, *producer, True),
    }


# AddPartitionsToTxn is a request of clients up to v3. From v4 on, brokers send it.
CLIENT_VERSIONS: Final = {
    ApiKey.INIT_PRODUCER_ID: range(7),
    ApiKey.ADD_PARTITIONS_TO_TXN: range(4),
    ApiKey.ADD_OFFSETS_TO_TXN: range(5),
    ApiKey.END_TXN: range(6),
}
VERSIONS: Final = [(api, version) for api, of in CLIENT_VERSIONS.items() for version in of]
by_version = pytest.mark.parametrize(
    ("api", "version"), VERSIONS, ids=[f"{api.name}-v{version}" for api, version in VERSIONS]
)


def code_of(response: Any) -> int:
    if hasattr(response, "results_by_topic_v3_and_below"):
        (result,) = response.results_by_topic_v3_and_below
        code: int = result.results_by_partition[0].partition_error_code
        return code
    code = response.error_code
    return code


def test_clients_cannot_interfere_with_each_others_transactions(producers: Producers) -> None:
    """ "It is desirable to control access to the transaction log to ensure that clients cannot
    intentionally or unintentionally interfere with each other's transactions." """
    rights = (transactional_id(WRITE, MALLORYS_ID), topic(ALL), group(ALL))
    producers.broker.allow_user(MALLORY, *rights)
    for api, request in coordinator_requests(ALICES_ID, producers.alice).items():
        version = CLIENT_VERSIONS[api][-1]
        with producers.no_effect():
            code = code_of(producers.ask(MALLORY, request, version))
        assert code == ID_DENIED, api
    assert producers.end(ALICE, ALICES_ID, producers.alice) == NONE


def test_a_new_resource_type_represents_the_transactional_id(producers: Producers) -> None:
    """ "we introduce a new resource type to represent the TransactionalId tied to transactional
    producers, and an associated error code for authorization failures" """
    assert (ResourceType.TRANSACTIONAL_ID, ID_DENIED) == (5, 53)
    request = InitProducerIdRequest(MALLORYS_ID, 60_000)
    # A right on a topic or a group of this name is another right.
    types = (ResourceType.TOPIC, ResourceType.GROUP)
    producers.broker.allow_user(
        MALLORY, *(Right(ALL, Resource(type, MALLORYS_ID)) for type in types)
    )
    assert producers.ask(MALLORY, request).error_code == ID_DENIED
    producers.broker.allow_user(MALLORY, transactional_id(WRITE, MALLORYS_ID))
    assert producers.ask(MALLORY, request).error_code == NONE


@by_version
def test_each_coordinator_request_has_the_transactional_id(
    producers: Producers, api: ApiKey, version: int
) -> None:
    """ "Each request to the transaction coordinator includes the producer's TransactionalId and can
    be used for authorization." The same client gets another code for another id."""
    producers.broker.allow_user(
        MALLORY, transactional_id(WRITE, MALLORYS_ID), topic(WRITE), group(READ)
    )
    codes = {
        name: code_of(
            producers.ask(MALLORY, coordinator_requests(name, producers.alice)[api], version)
        )
        for name in (ALICES_ID, MALLORYS_ID)
    }
    assert codes[ALICES_ID] == ID_DENIED != codes[MALLORYS_ID]


@by_version
def test_each_coordinator_request_needs_write_on_the_transactional_id(
    producers: Producers, api: ApiKey, version: int
) -> None:
    """ "Each of these requests mutates the transaction state of the producer, so they all require
    Write access to the corresponding ProducerTransactionalId resource." """
    producers.broker.allow_user(
        MALLORY,
        topic(ALL),
        group(ALL),
        cluster(ALL),
        *(
            transactional_id(operation, ALICES_ID)
            for operation in Operation
            if operation not in (WRITE, ALL)
        ),
    )
    request = coordinator_requests(ALICES_ID, producers.alice)[api]
    with producers.no_effect():
        response = producers.ask(MALLORY, request, version)
    assert code_of(response) == ID_DENIED
    producers.broker.allow_user(MALLORY, transactional_id(WRITE, ALICES_ID))
    # The new producer takes the transactional id over: the coordinator first aborts the open
    # transaction. The producer id still belongs to alice.
    allowed = BUSY if api is ApiKey.INIT_PRODUCER_ID else ID_OF_ANOTHER
    assert code_of(producers.ask(MALLORY, request, version)) == allowed
    if api is not ApiKey.INIT_PRODUCER_ID:
        assert code_of(producers.ask(ALICE, request, version)) == NONE


def test_adding_partitions_needs_write_on_every_topic(producers: Producers) -> None:
    """ "Additionally, the AddPartitionsToTxn API requires Write access to the topics corresponding
    to the included partitions" """
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ALICES_ID,
        v3_and_below_producer_id=producers.alice[0],
        v3_and_below_producer_epoch=producers.alice[1],
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(TOPIC, [0]),
            AddPartitionsToTxnTopic(SECOND_TOPIC, [0]),
        ],
    )

    def codes() -> dict[str, int]:
        response = producers.ask(ALICE, request, 3)
        return {
            result.name: result.results_by_partition[0].partition_error_code
            for result in response.results_by_topic_v3_and_below
        }

    with producers.no_effect():
        found = codes()
    assert found == {TOPIC: ErrorCode.OPERATION_NOT_ATTEMPTED, SECOND_TOPIC: TOPIC_DENIED}
    producers.broker.allow_user(ALICE, topic(WRITE, SECOND_TOPIC))
    assert codes() == {TOPIC: NONE, SECOND_TOPIC: NONE}


def test_adding_offsets_needs_read_on_the_group(producers: Producers) -> None:
    """ "the AddOffsetsToTxn API requires Read access to the group included in the request" """
    other = AddOffsetsToTxnRequest(ALICES_ID, *producers.alice, "another group")
    with producers.no_effect():
        response = producers.ask(ALICE, other)
    assert response.error_code == GROUP_DENIED
    request = AddOffsetsToTxnRequest(ALICES_ID, *producers.alice, GROUP)
    assert producers.ask(ALICE, request).error_code == NONE


@pytest.mark.parametrize("version", range(3, 13))
def test_transactional_data_needs_write_on_the_transactional_id(
    producers: Producers, version: int
) -> None:
    """ "We also require additional authorization to produce transactional data." """
    producers.broker.allow_user(MALLORY, topic(ALL), cluster(ALL))
    data = [PartitionProduceData(0, transactional_batch(producers.alice, 1))]
    topics = [TopicProduceData(TOPIC, partition_data=data)]
    request = ProduceRequest(ALICES_ID, -1, 1_000, topics)
    with producers.no_effect():
        response = producers.ask(MALLORY, request, version)
    assert response.responses[0].partition_responses[0].error_code == ID_DENIED


def test_a_client_without_the_right_cannot_hold_readers_back(producers: Producers) -> None:
    """ "This can be used to minimize the risk of an "endless transaction attack," in which a
    malicious producer writes transactional data without corresponding COMMIT or ABORT markers in
    order to prevent the LSO from advancing" """
    assert producers.end(ALICE, ALICES_ID, producers.alice) == NONE
    producers.broker.allow_user(MALLORY, topic(WRITE))
    attempts = [(MALLORYS_ID, (1_000_000, 0)), (ALICES_ID, producers.alice), (None, (7, 0))]
    for name, producer in attempts:
        with producers.no_effect():
            code = producers.produce(MALLORY, name, producer, 1)
        assert code == ID_DENIED
    assert producers.last_stable_offset == producers.log_end_offset


def test_the_id_of_a_produce_request_is_the_one_that_is_authorized(producers: Producers) -> None:
    """ "to ensure that the producer is authorized to write transactional data as the producer's
    TransactionalId is included in the ProduceRequest schema" """
    producers.broker.allow_user(MALLORY, transactional_id(WRITE, MALLORYS_ID), topic(WRITE))
    assert producers.produce(MALLORY, ALICES_ID, producers.alice, 1) == ID_DENIED
    begun = producers.ask(MALLORY, InitProducerIdRequest(MALLORYS_ID, 60_000))
    own = begun.producer_id, begun.producer_epoch
    assert producers.produce(MALLORY, MALLORYS_ID, own) == NONE


def test_a_transactional_batch_needs_an_id_and_other_batches_need_none(
    producers: Producers,
) -> None:
    """ "producers using transactional messages (i.e. those with the transaction bit set in the
    attributes) are authorized to do so. If the client is not using transactions, this field should
    be null." """
    plain = build_batch([NewRecord(1, None, b"v")])
    assert producers.send(ALICE, None, plain) == NONE
    with producers.no_effect():
        code = producers.produce(ALICE, None, producers.alice, 1)
    assert code == ID_DENIED


def marked(producers: Producers, user: str, version: int) -> int:
    topics = [WritableTxnMarkerTopic(TOPIC, [0])]
    request = WriteTxnMarkersRequest([WritableTxnMarker(*producers.alice, True, topics, 0)])
    (marker,) = producers.ask(user, request, version).markers
    code: int = marker.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("version", [1, 2])
def test_writing_markers_needs_cluster_action(producers: Producers, version: int) -> None:
    """ "The WriteTxnMarker API is for inter-broker usage only, and therefore requires ClusterAction
    permission on the Cluster resource." """
    # ALTER is the operator's right to abort a hanging transaction (KIP-664).
    sufficient = (Operation.CLUSTER_ACTION, Operation.ALTER, ALL)
    producers.broker.allow_user(
        MALLORY,
        topic(ALL),
        transactional_id(ALL, ALICES_ID),
        *(cluster(operation) for operation in Operation if operation not in sufficient),
    )
    with producers.no_effect():
        code = marked(producers, MALLORY, version)
    assert code == CLUSTER_DENIED
    producers.broker.allow_user(MALLORY, cluster(Operation.CLUSTER_ACTION))
    # The coordinator will end this transaction itself.
    assert marked(producers, MALLORY, version) == ErrorCode.INVALID_TXN_STATE
    assert producers.end(ALICE, ALICES_ID, producers.alice) == NONE
    assert marked(producers, MALLORY, version) == NONE


@pytest.mark.parametrize("user", [ALICE, SUPER_USER])
def test_no_client_writes_control_messages(producers: Producers, user: str) -> None:
    """ "Note that the writing of control messages is not permitted through the Produce API." """
    name, producer = ALICES_ID, producers.alice
    if user != ALICE:
        name = MALLORYS_ID
        begun = producers.ask(user, InitProducerIdRequest(name, 60_000))
        producer = begun.producer_id, begun.producer_epoch
        assert producers.produce(user, name, producer) == NONE
    with producers.no_effect():
        code = producers.send(user, name, marker_batch(producer))
    assert code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("user", [ALICE, SUPER_USER])
def test_no_client_writes_to_the_transaction_log(producers: Producers, user: str) -> None:
    """ "Clients will not be allowed to write directly to the transaction log using the Produce
    API" """
    producers.broker.allow_user(ALICE, topic(ALL, TRANSACTION_STATE))
    plain = build_batch([NewRecord(1, b"k", b"v")])
    with producers.no_effect():
        code = producers.send(user, None, plain, to=TRANSACTION_STATE)
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_consumers_with_read_can_read_the_transaction_log(producers: Producers) -> None:
    """ "it is useful to make it accessible to consumers with Read permission for the purpose of
    debugging" """
    partitions = [FetchPartition(0, partition_max_bytes=1 << 20)]
    request = FetchRequest(topics=[FetchTopic(TRANSACTION_STATE, partitions=partitions)])

    def fetched() -> tuple[int, bytes]:
        (row,) = producers.ask(MALLORY, request, 12).responses[0].partitions
        return row.error_code, bytes(row.records or b"")

    assert fetched() == (TOPIC_DENIED, b"")
    producers.broker.allow_user(MALLORY, topic(READ, TRANSACTION_STATE))
    code, records = fetched()
    keys = [
        record.key
        for position, header in split_batches(records, allow_partial=True)
        for record in read_records(records[position : position + header.size], max_bytes=1 << 20)
    ]
    assert code == NONE
    assert any(key is not None and ALICES_ID.encode() in key for key in keys)


def test_a_producer_id_of_another_producer_does_not_finish_its_transaction(
    producers: Producers,
) -> None:
    """ "It is not possible for the malicious producer to finish a transaction, however, because the
    brokers do not allow clients to write control messages." """
    producers.broker.allow_user(MALLORY, transactional_id(WRITE, MALLORYS_ID), topic(WRITE))
    assert producers.ask(MALLORY, InitProducerIdRequest(MALLORYS_ID, 60_000)).error_code == NONE
    open_since = producers.last_stable_offset
    marker = marker_batch(producers.alice)
    with producers.no_effect():
        codes = (
            producers.end(MALLORY, MALLORYS_ID, producers.alice),
            producers.end(MALLORY, ALICES_ID, producers.alice),
            producers.send(MALLORY, MALLORYS_ID, marker),
            marked(producers, MALLORY, 2),
        )
    assert codes == (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ID_DENIED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        CLUSTER_DENIED,
    )
    assert producers.last_stable_offset == open_since < producers.log_end_offset


def test_a_stolen_producer_id_is_refused(producers: Producers) -> None:
    """ "we cannot prevent a malicious producer from hijacking the PID of another producer and
    writing data to the log. [...] Future work can explore protecting the binding between
    TransactionalId and PID". A producer id belongs to the principal that got it (H49)."""
    producers.broker.allow_user(MALLORY, transactional_id(WRITE, MALLORYS_ID), topic(WRITE))
    producer_id, epoch = producers.alice
    for stolen in ((producer_id, epoch), (producer_id, epoch + 1)):
        plain = build_batch(
            [NewRecord(1, None, b"v")],
            producer_id=producer_id,
            producer_epoch=stolen[1],
            base_sequence=0 if stolen[1] > epoch else 1,
        )
        with producers.no_effect():
            codes = (
                producers.send(MALLORY, None, plain),
                producers.produce(MALLORY, MALLORYS_ID, stolen, 1),
                producers.end(MALLORY, MALLORYS_ID, stolen),
            )
        assert set(codes) == {ID_OF_ANOTHER}
    assert producers.produce(ALICE, ALICES_ID, producers.alice, 1) == NONE
    assert producers.end(ALICE, ALICES_ID, producers.alice) == NONE


def test_rights_on_topics_protect_them_from_stolen_producer_ids(producers: Producers) -> None:
    """ "the malicious producer would have to have Write permission to the same set of topics used
    by the legitimate producer, so it is still possible to use topic ACLs combined with
    TransactionalId ACLs to protect sensitive topics" """
    partition = producers.broker.services.partitions.get(TopicPartition(TOPIC, 0))
    assert partition is not None
    producers.broker.allow_user(
        MALLORY, transactional_id(WRITE, MALLORYS_ID), topic(WRITE, SECOND_TOPIC)
    )
    for producer in (producers.alice, (producers.alice[0], producers.alice[1] + 1)):
        with producers.no_effect():
            code = producers.produce(MALLORY, MALLORYS_ID, producer, 1)
        assert code == TOPIC_DENIED
    assert producers.produce(ALICE, ALICES_ID, producers.alice, 1) == NONE
    assert producers.end(ALICE, ALICES_ID, producers.alice) == NONE
