"""Send markers to leaders on other brokers: WriteTxnMarkers over a link to each (KIP-98)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_server.links.broker_link import BrokerLink, BrokerLinks
from oncelog_server.links.gathered_requests import GatheredRequests
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.marker_delivery import MarkerSender, MarkerSettled
from oncelog_server.transaction.markers import MarkerWork

WRITE_TXN_MARKERS_VERSION: Final = 2


class Marker(NamedTuple):
    """The markers of one transaction in some partitions."""

    work: MarkerWork
    partitions: list[TopicPartition]
    settled: MarkerSettled


class RemoteMarkers:
    """Makes the senders of markers to other brokers."""

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links
        self._senders: dict[int, RemoteLeader] = {}

    def sender(self, broker_id: int) -> MarkerSender | None:
        """Return the sender to a broker, or None if the broker is not alive."""
        link = self._links.to(broker_id)
        if link is None:
            self._senders.pop(broker_id, None)
            return None
        sender = self._senders.get(broker_id)
        if sender is None or sender.requests.link is not link:
            sender = self._senders[broker_id] = RemoteLeader(marker_requests(link))
        return sender


class RemoteLeader:
    """Sends markers to one broker. If the link breaks, its markers end with NETWORK_EXCEPTION, and
    the coordinator retries them."""

    __slots__ = ("requests",)

    is_local = False

    def __init__(self, requests: GatheredRequests[Marker]) -> None:
        self.requests = requests

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        self.requests.add(Marker(work, partitions, settled))


def marker_requests(link: BrokerLink) -> GatheredRequests[Marker]:
    """Return the requests for markers over a link."""
    return GatheredRequests(link, WRITE_TXN_MARKERS_VERSION, _request, _elements, _settle)


def _elements(marker: Marker) -> int:
    """Return the number of array elements of the marker in a request, at most: its entry, and for
    each partition a topic and an index."""
    return 1 + 2 * len(marker.partitions)


# One entry of a request: all markers of one producer epoch with the same outcome.
_Entry = tuple[int, int, bool, int, int]


def _entry(work: MarkerWork) -> _Entry:
    return (
        work.producer_id,
        work.producer_epoch,
        work.committed,
        work.coordinator_epoch,
        work.transaction_version,
    )


def _request(markers: Sequence[Marker]) -> WriteTxnMarkersRequest:
    # The indexes are keys of a dict, so that each is sent once: several attempts of a transaction
    # may wait for one request.
    entries: dict[_Entry, dict[str, dict[int, None]]] = {}
    for marker in markers:
        by_topic = entries.setdefault(_entry(marker.work), {})
        for topic, index in marker.partitions:
            by_topic.setdefault(topic, {})[index] = None
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id,
                producer_epoch,
                committed,
                [WritableTxnMarkerTopic(name, list(indexes)) for name, indexes in by_topic.items()],
                coordinator_epoch,
                transaction_version,
            )
            for (
                producer_id,
                producer_epoch,
                committed,
                coordinator_epoch,
                transaction_version,
            ), by_topic in entries.items()
        ]
    )


def _settle(markers: Sequence[Marker], response: WriteTxnMarkersResponse | None) -> None:
    missing = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode.UNKNOWN_SERVER_ERROR
    # A response has the entries of the request in their order. The producer id alone does not
    # identify an entry, because a late marker of an older epoch may be in the same request.
    entries = dict.fromkeys(_entry(marker.work) for marker in markers)
    results = [] if response is None else response.markers
    codes = {
        (entry, TopicPartition(topic.name, partition.partition_index)): _code(partition.error_code)
        for entry, result in zip(entries, results, strict=False)
        for topic in result.topics
        for partition in topic.partitions
    }
    for marker in markers:
        entry = _entry(marker.work)
        for partition in marker.partitions:
            marker.settled(partition, codes.get((entry, partition), missing))


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
