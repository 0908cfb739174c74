"""W9: a client with rights that change all the time. It may do nothing to the transactions, groups
and topics of other clients, and some of its other rights are taken away and given back.

A denied request has no effect (I20), and a changed rule holds for the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from oncelog_client.config import ClientConfig
from oncelog_client.errors import KafkaError
from oncelog_client.io.connection import Connection
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from oncelog_protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from oncelog_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.security.access import DENIED
from oncelog_server.security.acls import WILDCARD, Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import CLUSTER, Operation, ResourceType
from tests.server.handlers.requests import codes
from tests.simulation.checking.history import Outcome
from tests.simulation.users import producers_of_others
from tests.simulation.workloads.client import Client

if TYPE_CHECKING:
    from tests.simulation.world import World

KIND: Final = "rights"
HOST: Final = f"{KIND}-0"
CLIENTS: Final = "User:*"
TOPIC: Final = "a"
DENIED_CODES: Final = frozenset(DENIED.values())
# Groups and transactional ids. The request for a coordinator creates its topic.
KEY_TYPES: Final = (0, 1)
# Time in which a change without a response may still arrive, because network or broker hold it.
UNSURE_US: Final = 5_000_000
# The client does several requests in the time of a transaction.
REQUESTS_EACH: Final = 4


class Right(NamedTuple):
    operation: Operation
    type: ResourceType
    name: str


OWN_ID: Final = Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, HOST)
OWN_GROUP: Final = Right(Operation.READ, ResourceType.GROUP, HOST)
WRITE_TOPIC: Final = Right(Operation.WRITE, ResourceType.TOPIC, TOPIC)
READ_TOPIC: Final = Right(Operation.READ, ResourceType.TOPIC, TOPIC)
# The rights that are taken away and given back.
CHANGING: Final = (OWN_ID, OWN_GROUP, WRITE_TOPIC, READ_TOPIC)
# The rights that the client never has.
NEVER: Final = (
    Right(Operation.DELETE, ResourceType.TOPIC, WILDCARD),
    Right(Operation.DELETE, ResourceType.CLUSTER, CLUSTER.name),
    Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER.name),
)


def allowing_rules() -> Iterator[tuple[Pattern, Acl]]:
    """Yield the rules by which each client may do everything."""
    for type in (
        ResourceType.TOPIC,
        ResourceType.GROUP,
        ResourceType.CLUSTER,
        ResourceType.TRANSACTIONAL_ID,
    ):
        name = CLUSTER.name if type is ResourceType.CLUSTER else WILDCARD
        everything = Acl(CLIENTS, WILDCARD, Operation.ALL, Permission.ALLOW)
        yield Pattern(type, name, PatternType.LITERAL), everything


def denying_rules(transactional_ids: list[str], groups: list[str]) -> Iterator[tuple[Pattern, Acl]]:
    """Yield the rules by which the client with few rights may do nothing with these ids and
    groups."""
    others = [
        *(Right(Operation.ALL, ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids),
        *(Right(Operation.ALL, ResourceType.GROUP, name) for name in groups),
    ]
    for right in (*NEVER, *others):
        acl = Acl(CLIENTS, HOST, right.operation, Permission.DENY)
        yield Pattern(right.type, right.name, PatternType.LITERAL), acl


class Attempt(NamedTuple):
    """A request, the type of its response, and the rights that it needs. `is_denied`: the client
    never has them."""

    request: Any
    response: type[Any]
    needs: tuple[Right, ...] = ()
    is_denied: bool = False
    versions: range = range(9)


class Rights(Client):
    kind = KIND

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._node = world.node
        self.quota = REQUESTS_EACH * world.options.transactions
        # True if a rule denies the right, None if that is not sure.
        self._denied: dict[Right, bool | None] = dict.fromkeys(CHANGING, False)
        self._unsure_until_us = dict.fromkeys(CHANGING, 0)

    async def work(self) -> None:
        config = ClientConfig(bootstrap_servers=(("broker", 9092),), **self.settings())
        connection = await Connection.open(config.bootstrap_servers[0], config)
        try:
            for key_type in KEY_TYPES:
                request = FindCoordinatorRequest(HOST, key_type, [HOST])
                await connection.call(request, FindCoordinatorResponse)
            while not self.is_done:
                self.done += 1
                if self.rng.random() < 0.3:
                    await self._change(connection, self.rng.choice(CHANGING))
                elif self.rng.random() < 0.4:
                    await self._produce(connection)
                elif self.rng.random() < 0.15:
                    await self._produce_as_another(connection)
                else:
                    await self._send(connection, self.rng.choice(self._makers())())
                await self.idle(20)
        finally:
            connection.close()

    # Changes of the rules.

    async def _change(self, connection: Connection, right: Right) -> None:
        """Take a right away, or give it back. Without a response, this change may still arrive for
        some time, even after the death of this process."""
        denies, unsure_until_us = not self._denied[right], self._unsure_until_us[right]
        self._denied[right] = None
        self._unsure_until_us[right] = self.world.loop.now_us + UNSURE_US
        if not await (_deny if denies else _allow)(connection, right):
            return
        self._unsure_until_us[right] = unsure_until_us
        if self.world.loop.now_us >= unsure_until_us:
            self._denied[right] = denies
            self.world.sometimes.met("right taken away" if denies else "right given back")

    # Requests.

    async def _produce(self, connection: Connection) -> None:
        """Send a record. A denied record must never be seen."""
        partition = self.rng.choice(self.world.shared_partitions).partition
        value = self.world.recorder.next_value()
        records = build_batch([NewRecord(self.world.now_ms, None, b"%d" % value)])
        data = [PartitionProduceData(partition, records)]
        request = ProduceRequest(None, -1, 800, [TopicProduceData(TOPIC, partition_data=data)])
        attempt = self.world.recorder.begin(self.me)
        step = attempt.send(f"{TOPIC}-{partition}", value)
        attempt.in_doubt = True
        wanted = Attempt(request, ProduceResponse, (WRITE_TOPIC,), versions=range(13))
        try:
            response = await self._send(connection, wanted)
        except KafkaError:
            attempt.failed()
            raise
        row = response.responses[0].partition_responses[0]
        if row.error_code == ErrorCode.NONE:
            attempt.acked(step, row.base_offset)
            attempt.end(Outcome.OK)
        elif row.error_code in DENIED_CODES:
            attempt.end(Outcome.FAIL)
        else:
            attempt.failed()

    async def _produce_as_another(self, connection: Connection) -> None:
        """Send a record with the producer id of another user, and with the next epoch, which would
        fence its producer (H49)."""
        node = self._node
        victims = producers_of_others(node.broker, self.name) if node.is_up else []
        if not victims:
            return
        producer_id, epoch = self.rng.choice(victims)
        partition = self.rng.choice(self.world.shared_partitions).partition
        records = build_batch(
            [NewRecord(self.world.now_ms, None, b"%d" % self.world.recorder.next_value())],
            producer_id=producer_id,
            producer_epoch=max(epoch, 0) + self.rng.randrange(2),
            base_sequence=0,
        )
        data = [PartitionProduceData(partition, records)]
        request = ProduceRequest(None, -1, 800, [TopicProduceData(TOPIC, partition_data=data)])
        wanted = Attempt(request, ProduceResponse, (WRITE_TOPIC,), versions=range(13))
        response = await self._send(connection, wanted)
        row = response.responses[0].partition_responses[0]
        if row.error_code == ErrorCode.NONE:
            self.world.violate(f"H49: a record with another user's producer id {producer_id}")

    async def _send(self, connection: Connection, attempt: Attempt) -> Any:
        """Send a request, and compare its response with the rules."""
        known = [self._denied[right] for right in attempt.needs]
        response = await connection.call(
            attempt.request, attempt.response, versions=attempt.versions
        )
        is_denied = bool(set(codes(response)) & DENIED_CODES)
        if attempt.is_denied or True in known:
            expected = True
        elif None in known:
            return response
        else:
            expected = False
        name = type(attempt.request).__name__
        if is_denied != expected:
            self.world.violate(f"{name}: denied is {is_denied}, but by the rules {expected}")
        self.world.sometimes.met("request denied" if is_denied else "request allowed by rules")
        return response

    def _makers(self) -> list[Callable[[], Attempt]]:
        victims = self.world.transactional_ids
        makers = [self._init, self._commit, self._commit_of_others, self._delete_topic]
        makers += [self._delete_records]
        if victims:
            makers += [self._init_of_another, self._end_of_another, self._add_to_another]
        return makers

    def _init(self) -> Attempt:
        request = InitProducerIdRequest(HOST, self.world.options.transaction_timeout_ms)
        return Attempt(request, InitProducerIdResponse, (OWN_ID,))

    def _commit(self) -> Attempt:
        return Attempt(_committed(HOST, self.done), OffsetCommitResponse, (OWN_GROUP, READ_TOPIC))

    def _commit_of_others(self) -> Attempt:
        request = _committed(self.rng.choice(self.world.groups), self.done)
        return Attempt(request, OffsetCommitResponse, is_denied=True)

    def _delete_topic(self) -> Attempt:
        request = DeleteTopicsRequest([DeleteTopicState(TOPIC)], [TOPIC], 800)
        return Attempt(request, DeleteTopicsResponse, is_denied=True)

    def _delete_records(self) -> Attempt:
        topics = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, -1)])]
        return Attempt(DeleteRecordsRequest(topics, 800), DeleteRecordsResponse, is_denied=True)

    def _victim(self) -> tuple[str, int, int]:
        """Return the transactional id, producer id and epoch of another client."""
        name = self.rng.choice(self.world.transactional_ids)
        return name, self.rng.randrange(10), self.rng.randrange(3)

    def _init_of_another(self) -> Attempt:
        request = InitProducerIdRequest(self._victim()[0], 60_000)
        return Attempt(request, InitProducerIdResponse, is_denied=True)

    def _end_of_another(self) -> Attempt:
        request = EndTxnRequest(*self._victim(), self.rng.random() < 0.5)
        return Attempt(request, EndTxnResponse, is_denied=True)

    def _add_to_another(self) -> Attempt:
        name, producer_id, epoch = self._victim()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [0])],
        )
        # From v4 on, brokers send this request.
        versions = range(4)
        return Attempt(request, AddPartitionsToTxnResponse, is_denied=True, versions=versions)


def _committed(group: str, offset: int) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset)]
    topics = [OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
    return OffsetCommitRequest(group, topics=topics)


async def _deny(connection: Connection, right: Right) -> bool:
    """Create the rule that denies a right. Return True if it is created."""
    creation = AclCreation(
        right.type,
        right.name,
        PatternType.LITERAL,
        CLIENTS,
        HOST,
        right.operation,
        Permission.DENY,
    )
    response = await connection.call(CreateAclsRequest([creation]), CreateAclsResponse)
    return response.results[0].error_code == ErrorCode.NONE


async def _allow(connection: Connection, right: Right) -> bool:
    """Delete the rule that denies a right. Return True if no such rule is left."""
    chosen = DeleteAclsFilter(
        right.type,
        right.name,
        PatternType.LITERAL,
        CLIENTS,
        HOST,
        right.operation,
        Permission.DENY,
    )
    response = await connection.call(DeleteAclsRequest([chosen]), DeleteAclsResponse)
    return response.filter_results[0].error_code == ErrorCode.NONE
