"""Send markers to leaders on other brokers: WriteTxnMarkers over a link to each (KIP-98)."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_server.links.broker_link import BrokerLink, BrokerLinks
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.marker_delivery import MarkerSender, MarkerSettled
from oncelog_server.transaction.markers import MarkerWork

WRITE_TXN_MARKERS_VERSION: Final = 2


class RemoteMarkers:
    """Makes the senders of markers to other brokers."""

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links

    def sender(self, broker_id: int) -> MarkerSender | None:
        """Return the sender to a broker, or None if the broker is not alive."""
        link = self._links.to(broker_id)
        return None if link is None else RemoteLeader(link)


class RemoteLeader:
    """Sends markers to one broker. If the link breaks, its markers end with NETWORK_EXCEPTION, and
    the coordinator retries them."""

    __slots__ = ("_link",)

    is_local = False

    def __init__(self, link: BrokerLink) -> None:
        self._link = link

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        def answered(response: WriteTxnMarkersResponse | None) -> None:
            codes = {} if response is None else _codes(response)
            missing = (
                ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode.UNKNOWN_SERVER_ERROR
            )
            for partition in partitions:
                settled(partition, codes.get(partition, missing))

        self._link.send(_request(work, partitions), WRITE_TXN_MARKERS_VERSION, answered)


def _codes(response: WriteTxnMarkersResponse) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, partition.partition_index): _code(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


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
