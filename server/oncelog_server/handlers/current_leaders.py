"""The new leader of a partition. A response names it beside an error such as
NOT_LEADER_OR_FOLLOWER, so that the client needs no Metadata request (KIP-951)."""

from __future__ import annotations

from oncelog_server.broker_services import BrokerServices

NO_LEADER = -1


class CurrentLeaders:
    """The leaders that one response names, and their endpoints on the client's listener."""

    def __init__(self, services: BrokerServices, listener_name: str) -> None:
        self._image = services.metadata.image
        self._listener_name = listener_name
        # By broker id: the fields of a NodeEndpoint.
        self.endpoints: dict[int, tuple[int, str, int, str | None]] = {}

    def of(self, topic: str | bytes, partition: int) -> tuple[int, int]:
        """Return the leader id and epoch of a partition, and add the leader to `endpoints`.
        `topic` is a name or an id. Return (-1, -1) if the partition is not in the metadata image.
        """
        name = self._image.topic_name(topic) if isinstance(topic, bytes) else topic
        found = None if name is None else self._image.partition(name, partition)
        if found is None:
            return NO_LEADER, NO_LEADER
        broker = self._image.brokers.get(found.leader)
        endpoint = None if broker is None else broker.endpoint(self._listener_name)
        if broker is not None and endpoint is not None:
            self.endpoints[broker.id] = broker.id, endpoint.host, endpoint.port, broker.rack
        return found.leader, found.leader_epoch
