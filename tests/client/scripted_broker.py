"""A small broker in simulated time. A test may replace its responses.

The broker has one topic `t` of one partition, one group and any transactional id. A script gets
each request and returns None (the usual response), a message, DROP (no response) or CLOSE.
"""

from __future__ import annotations

import asyncio
import importlib
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from oncelog_protocol.apis import APIS, ApiKey, request_header_version, response_header_version
from oncelog_protocol.codecs import decoder, encode
from tests.simulation.client_time import simulated_client_time
from tests.simulation.loop import SimLoop

T = TypeVar("T")

DROP: Final = object()
CLOSE: Final = object()
ADDRESS: Final = ("broker", 9092)
TOPIC: Final = "t"

Script = Callable[[ApiKey, Any], Any]

# The time for a request and its response, as on a local network.
_ROUND_TRIP_S: Final = 0.0005
# Maximum wait of a fetch from an empty log in these tests.
_FETCH_WAIT_S: Final = 0.5


def messages(api: ApiKey) -> Any:
    """Return the module of an API's messages."""
    return importlib.import_module(f"oncelog_protocol.messages.{api.name.lower()}")


class _Transport(asyncio.Transport):
    """The client's end of a connection."""

    def __init__(self, broker: ScriptedBroker, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.broker = broker
        self.protocol = protocol
        self.lost = False
        self._buffer = b""

    def write(self, data: Any) -> None:
        self._buffer += bytes(data)
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">i", self._buffer)
            if len(self._buffer) < 4 + size:
                return
            frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            self.broker.receive(self, frame)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(part) for part in list_of_data))

    def is_closing(self) -> bool:
        return self.lost

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.lost:
            self.lost = True
            self.broker.connections.discard(self)
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class ScriptedBroker:
    """A broker. It announces `transaction_version`. A Fetch returns `records` at every offset."""

    def __init__(
        self, script: Script | None = None, *, transaction_version: int = 2, records: bytes = b""
    ) -> None:
        self.script = script or (lambda api, request: None)
        self.transaction_version = transaction_version
        self.records = records
        self.requests: list[tuple[float, ApiKey, Any]] = []
        self.connections: set[_Transport] = set()
        self.attempts: list[tuple[str, int]] = []
        self.features: dict[str, int] = {}

    @property
    def counts(self) -> Counter[ApiKey]:
        return Counter(api for _, api, _ in self.requests)

    # -- the methods that a SimLoop calls on its network

    async def create_server(self, factory: Any, host: str, port: int) -> Any:
        raise AssertionError("nothing listens in these tests")

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        self.attempts.append((host, port))
        if not 0 <= port < 1 << 16:
            raise OverflowError("getsockaddrarg: port must be 0-65535.")
        if "\0" in host:
            raise ValueError("embedded null character")
        host.encode("idna")
        await asyncio.sleep(_ROUND_TRIP_S)  # simulated time: a round trip opens the connection
        if (host, port) != ADDRESS:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = factory()
        assert isinstance(protocol, asyncio.Protocol)
        transport = _Transport(self, protocol)
        self.connections.add(transport)
        protocol.connection_made(transport)
        return transport, protocol

    # -- requests

    def receive(self, transport: _Transport, frame: bytes) -> None:
        key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
        flexible = request_header_version(key, version) > 1
        request, _ = decoder(APIS[key].request, version)(frame, 10 + max(client, 0) + flexible)
        loop = asyncio.get_running_loop()
        self.requests.append((loop.time(), ApiKey(key), request))
        response = self.script(ApiKey(key), request)
        delay_s = _ROUND_TRIP_S
        if response is None:
            if key == ApiKey.PRODUCE and request.acks == 0:
                return
            if key == ApiKey.FETCH and not self.records:
                delay_s = _FETCH_WAIT_S
            response = self.respond(ApiKey(key), version, request)
        if response is DROP:
            return
        if response is CLOSE:
            loop.call_later(delay_s, transport.close)
            return
        header = b"\0" if response_header_version(key, version) else b""
        body = struct.pack(">i", correlation_id) + header + encode(response, version)
        data = struct.pack(">i", len(body)) + body
        loop.call_at(
            self._response_time(transport, loop.time() + delay_s), self._deliver, transport, data
        )

    def _response_time(self, transport: _Transport, time_s: float) -> float:
        """Return the time of a response that is ready at `time_s`. Responses of the same time come
        in any order, so a test with several requests in flight needs different times."""
        return time_s

    def _deliver(self, transport: _Transport, data: bytes) -> None:
        if not transport.lost:
            transport.protocol.data_received(data)

    def respond(self, api: ApiKey, version: int, request: Any, code: int = 0) -> Any:
        """Return the usual response, or that response with this error code in each error field."""
        return getattr(self, f"_{api.name.lower()}")(messages(api), version, request, code)

    def always(self, api: ApiKey, code: int) -> Script:
        """Return a script that responds to one API always with this error code.

        Only Metadata requests without topics get the usual response.
        """
        spoken = APIS[api].latest

        def script(asked: ApiKey, request: Any) -> Any:
            if asked != api or (api is ApiKey.METADATA and not request.topics):
                return None
            return self.respond(api, min(spoken, _USED.get(api, spoken)), request, code)

        return script

    def _api_versions(self, m: Any, version: int, request: Any, code: int) -> Any:
        features = {"transaction.version": self.transaction_version, **self.features}
        return m.ApiVersionsResponse(
            api_keys=[m.ApiVersion(api.key, api.oldest, api.latest) for api in APIS.values()],
            finalized_features_epoch=1,
            finalized_features=[
                m.FinalizedFeatureKey(name, level, level) for name, level in features.items()
            ],
        )

    def _metadata(self, m: Any, version: int, request: Any, code: int) -> Any:
        names = [TOPIC] if request.topics is None else [topic.name for topic in request.topics]
        partition = m.MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        return m.MetadataResponse(
            brokers=[m.MetadataResponseBroker(1, *ADDRESS)],
            controller_id=1,
            cluster_id="scripted",
            topics=[
                m.MetadataResponseTopic(
                    error_code=code,
                    name=name,
                    topic_id=b"\1" * 16,
                    partitions=[] if code else [partition],
                )
                for name in names
            ],
        )

    def _find_coordinator(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.FindCoordinatorResponse(
            error_code=code,
            node_id=1,
            coordinators=[
                m.Coordinator(key, -1 if code else 1, *ADDRESS, code)
                for key in request.coordinator_keys
            ],
        )

    def _init_producer_id(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.InitProducerIdResponse(
            error_code=code, producer_id=-1 if code else 100, producer_epoch=-1 if code else 0
        )

    def _add_partitions_to_txn(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                m.AddPartitionsToTxnTopicResult(
                    topic.name,
                    [
                        m.AddPartitionsToTxnPartitionResult(index, code)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _add_offsets_to_txn(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.AddOffsetsToTxnResponse(error_code=code)

    def _end_txn(self, m: Any, version: int, request: Any, code: int) -> Any:
        bumped = not code and self.transaction_version >= 2
        return m.EndTxnResponse(
            error_code=code,
            producer_id=request.producer_id if bumped else -1,
            producer_epoch=request.producer_epoch + 1 if bumped else -1,
        )

    def _txn_offset_commit(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.TxnOffsetCommitResponse(
            topics=[
                m.TxnOffsetCommitResponseTopic(
                    topic.name,
                    [
                        m.TxnOffsetCommitResponsePartition(row.partition_index, code)
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _produce(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.ProduceResponse(
            responses=[
                m.TopicProduceResponse(
                    topic.name,
                    topic.topic_id,
                    [
                        m.PartitionProduceResponse(row.index, code, -1 if code else 0)
                        for row in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def _list_offsets(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.ListOffsetsResponse(
            topics=[
                m.ListOffsetsTopicResponse(
                    topic.name,
                    [
                        m.ListOffsetsPartitionResponse(
                            row.partition_index,
                            code,
                            timestamp=-1,
                            offset=-1 if code else 0,
                            leader_epoch=0,
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.FetchResponse(
            responses=[
                m.FetchableTopicResponse(
                    topic.topic,
                    topic.topic_id,
                    [
                        m.PartitionData(
                            row.partition,
                            code,
                            1000,
                            1000,
                            0,
                            aborted_transactions=[],
                            records=b"" if code else self.records,
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _join_group(self, m: Any, version: int, request: Any, code: int) -> Any:
        member_id = request.member_id or "member-1"
        member = m.JoinGroupResponseMember(member_id, None, request.protocols[0].metadata)
        return m.JoinGroupResponse(
            error_code=code,
            generation_id=-1 if code else 1,
            protocol_type="consumer",
            protocol_name="" if code else request.protocols[0].name,
            leader=member_id,
            member_id=member_id,
            members=[] if code else [member],
        )

    def _sync_group(self, m: Any, version: int, request: Any, code: int) -> Any:
        assigned = request.assignments[0].assignment if request.assignments and not code else b""
        return m.SyncGroupResponse(
            error_code=code,
            protocol_type="consumer",
            protocol_name=request.protocol_name,
            assignment=assigned,
        )

    def _heartbeat(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.HeartbeatResponse(error_code=code)

    def _leave_group(self, m: Any, version: int, request: Any, code: int) -> Any:
        members = [
            m.MemberResponse(row.member_id, row.group_instance_id) for row in request.members
        ]
        return m.LeaveGroupResponse(error_code=code, members=members)

    def _offset_commit(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.OffsetCommitResponse(
            topics=[
                m.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        m.OffsetCommitResponsePartition(row.partition_index, code)
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _offset_fetch(self, m: Any, version: int, request: Any, code: int) -> Any:
        return m.OffsetFetchResponse(
            groups=[
                m.OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    error_code=code,
                    topics=[
                        m.OffsetFetchResponseTopics(
                            name=topic.name,
                            partitions=[
                                m.OffsetFetchResponsePartitions(index, 0)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics or []
                    ],
                )
                for group in request.groups
            ]
        )


# The maximum versions of the client (topic ids, KIP-848, KIP-890).
_USED: Final = {ApiKey.OFFSET_FETCH: 9, ApiKey.FIND_COORDINATOR: 5}


def simulated(broker: ScriptedBroker, scenario: Callable[[], Awaitable[T]], seed: int = 1) -> T:
    """Run the scenario in simulated time. `broker` is the only broker. Return the scenario's
    result.

    Fails if a task or a callback has an exception that no code retrieved.
    """
    loop = SimLoop(seed, max_steps=2_000_000)
    loop.network = broker
    try:
        with simulated_client_time(loop, seed):
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(_watched(scenario))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        assert not loop.failures, loop.failures


async def _watched(scenario: Callable[[], Awaitable[T]]) -> T:
    try:
        return await scenario()
    finally:
        for _ in range(10):
            await asyncio.sleep(0.01)  # meanwhile cancelled tasks and transports end
