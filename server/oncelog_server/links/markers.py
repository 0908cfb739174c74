"""Send markers to leaders on other brokers: WriteTxnMarkers over a connection to each (KIP-98)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

import structlog

from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_protocol.requests import Requests
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.links.client_ids import markers_client_id
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.marker_delivery import MarkerSender, MarkerSettled
from oncelog_server.transaction.markers import MarkerWork

log = structlog.get_logger("oncelog.links")

WRITE_TXN_MARKERS_VERSION: Final = 2
# The timeout between Kafka's brokers (request.timeout.ms).
TIMEOUT_S: Final = 30.0

# One request in flight: its partitions and the callback for their outcome.
Sent = tuple[list[TopicPartition], MarkerSettled]


class RemoteMarkers:
    """The links to the other brokers, each opened at its first use. A broker that is not alive has
    none."""

    def __init__(self, image: Callable[[], ClusterImage], broker_id: int, listener: str) -> None:
        self._image = image
        self._broker_id = broker_id
        self._listener = listener
        self._links: dict[int, MarkerLink] = {}

    def sender(self, broker_id: int) -> MarkerSender | None:
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            return None
        link = self._links.get(broker_id)
        if link is None or (link.host, link.port) != (endpoint.host, endpoint.port):
            if link is not None:
                link.close()
            link = MarkerLink(endpoint.host, endpoint.port, markers_client_id(self._broker_id))
            self._links[broker_id] = link
        return link

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()


class MarkerLink(asyncio.Protocol):
    """The connection to one broker. Requests are sent in order. If the connection breaks, or
    nothing arrives for `timeout_s`, all requests without a response are settled with
    NETWORK_EXCEPTION, and the coordinator retries."""

    is_local = False

    def __init__(self, host: str, port: int, client_id: str, timeout_s: float = TIMEOUT_S) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._alarm: asyncio.TimerHandle | None = None
        self._requests = Requests(client_id)
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent: list[tuple[WriteTxnMarkersRequest, Sent]] = []
        self._in_flight: dict[int, Sent] = {}

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        self._unsent.append((_request(work, partitions), (partitions, settled)))
        if self._transport is not None:
            self._write()
        elif self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def close(self) -> None:
        """Close the connection; requests without a response are settled with NETWORK_EXCEPTION."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._settle_all(ErrorCode.NETWORK_EXCEPTION)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                await loop.create_connection(lambda: self, self.host, self.port)
        except OSError as error:  # TimeoutError is one
            log.warning("no link to broker", host=self.host, port=self.port, reason=str(error))
            self._settle_all(ErrorCode.NETWORK_EXCEPTION)
        finally:
            self._connecting = None

    def _write(self) -> None:
        assert self._transport is not None
        unsent, self._unsent = self._unsent, []
        for request, sent in unsent:
            correlation_id, parts = self._requests.send(request, WRITE_TXN_MARKERS_VERSION)
            self._in_flight[correlation_id] = sent
            self._transport.writelines(parts)
        self._watch()

    def _watch(self) -> None:
        """Restart the timeout if requests are in flight."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._in_flight:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._timeout_s, self._too_late)

    def _too_late(self) -> None:
        log.warning("no answer from broker", host=self.host, port=self.port)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._write()

    def data_received(self, data: bytes) -> None:
        try:
            for answer in self._requests.receive_data(data):
                self._settle(self._in_flight.pop(answer.correlation_id), answer.message)
        except ProtocolError as error:
            log.error("link broken", host=self.host, port=self.port, reason=str(error))
            if self._transport is not None:
                self._transport.abort()
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._requests = Requests(self._client_id)
        self._settle_all(ErrorCode.NETWORK_EXCEPTION)

    def _settle(self, sent: Sent, response: WriteTxnMarkersResponse) -> None:
        partitions, settled = sent
        codes = {
            TopicPartition(topic.name, partition.partition_index): _code(partition.error_code)
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }
        for partition in partitions:
            settled(partition, codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR))

    def _settle_all(self, code: ErrorCode) -> None:
        lost = list(self._in_flight.values()) + [sent for _, sent in self._unsent]
        self._in_flight.clear()
        self._unsent.clear()
        self._watch()
        for partitions, settled in lost:
            for partition in partitions:
                settled(partition, code)


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _request(work: MarkerWork, partitions: list[TopicPartition]) -> WriteTxnMarkersRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                work.producer_id,
                work.producer_epoch,
                work.committed,
                [WritableTxnMarkerTopic(name, indexes) for name, indexes in by_topic.items()],
                work.coordinator_epoch,
                work.transaction_version,
            )
        ]
    )
