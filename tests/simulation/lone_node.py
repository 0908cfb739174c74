"""The broker of a world without other brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from oncelog_server.cluster.acl_changes import create_acls
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import MetadataStore
from oncelog_server.config import Settings
from oncelog_server.security.acls import Acl, Pattern
from tests.server.metadata.memory_store import MemoryStore
from tests.simulation.broker_node import BrokerNode
from tests.simulation.loop import SimLoop
from tests.simulation.process import Process


class LoneNode(BrokerNode):
    """A single broker, with its metadata in `store`, which outlives its processes."""

    def __init__(
        self,
        loop: SimLoop,
        rng: Random,
        settings: Settings,
        new_process: Callable[[str], Process],
    ) -> None:
        super().__init__(loop, rng, settings, new_process, self._opened)
        self.store = MemoryStore()

    def _opened(self, settings: Settings) -> MetadataStore:
        # The leases of a store in sqlite end with the broker's process.
        self.store.end_all_leases()
        return self.store

    def write_rules(self, rules: Iterable[tuple[Pattern, Acl]]) -> None:
        """Write access rules into the store before the first start."""
        for write in create_acls(ClusterImage(), rules):
            self.store.apply(write.operations)
