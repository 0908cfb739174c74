"""The other brokers of the cluster, as this broker calls them: a set of links for each purpose, so
that a slow response of one kind delays no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.client_ids import (
    adding_client_id,
    calls_client_id,
    markers_client_id,
)
from oncelog_server.links.markers import RemoteMarkers

if TYPE_CHECKING:
    from oncelog_server.links.coordinator_calls import RemoteCalls
    from oncelog_server.links.link_security import LinkSecurity
    from oncelog_server.links.partition_adding import RemoteAdding


def _do_nothing() -> None:
    pass


class OtherBrokers:
    """`listener` is the name of the inter-broker listener. `security` returns its security, and is
    None for PLAINTEXT."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], ClusterImage],
        listener: str,
        security: Callable[[], LinkSecurity] | None,
    ) -> None:
        # Suspends the leaders of this broker if its registration may have ended. It is called
        # before responses of other brokers are used.
        self.check_authority: Callable[[], None] = _do_nothing

        def links(client_id: str) -> BrokerLinks:
            found = BrokerLinks(image, listener, client_id, security)
            found.before_responses = lambda: self.check_authority()
            return found

        of_markers = links(markers_client_id(broker_id))
        self._of_adding = links(adding_client_id(broker_id))
        self._of_calls = links(calls_client_id(broker_id))
        self._links = (of_markers, self._of_adding, self._of_calls)
        self.markers = RemoteMarkers(of_markers)

    @cached_property
    def adding(self) -> RemoteAdding:
        # A single broker adds no partitions to the transactions of other coordinators.
        from oncelog_server.links.partition_adding import RemoteAdding

        return RemoteAdding(self._of_adding)

    @cached_property
    def calls(self) -> RemoteCalls:
        # A single broker calls no other coordinators.
        from oncelog_server.links.coordinator_calls import RemoteCalls

        return RemoteCalls(self._of_calls)

    def follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Close the links to brokers that have left the cluster. Requests without a response are
        then lost at once, not at their timeout."""
        if old.brokers is new.brokers:
            return
        for broker_id in old.brokers.keys() - new.brokers.keys():
            for links in self._links:
                links.forget(broker_id)

    def close(self) -> None:
        for links in self._links:
            links.close()
