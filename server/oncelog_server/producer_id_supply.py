"""Takes blocks of producer ids from the metadata store when the broker needs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.producer_ids import ProducerIdBlock
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.refusal import Refused
from oncelog_server.request_tasks import RequestTasks
from oncelog_server.transaction.producer_ids import EVERY_PRINCIPAL, ProducerIds

log = structlog.get_logger("oncelog.broker")


class ProducerIdSupply:
    """Supplies `ids` with blocks of the store. `first` is the first id that the store has not
    assigned at the start."""

    def __init__(self, metadata: ClusterMetadata, tasks: RequestTasks, first: int) -> None:
        self.ids = ProducerIds(self._ask)
        self.ids.start_at(first)
        self._metadata = metadata
        self._tasks = tasks
        # True if another broker was registered since the start.
        self._has_had_others = False

    def follow(self, _old: ClusterImage, new: ClusterImage, _delta: ImageDelta) -> None:
        """Note whether there is another broker, alive or not."""
        self._has_had_others = self._has_had_others or len(new.registered) > 1

    def is_given(self, producer_id: int) -> bool:
        """Return True if a broker may have assigned the id. The blocks that other brokers have
        taken since the start are unknown, so after another broker every id may have been
        assigned."""
        return (
            self.ids.is_given(producer_id)
            or self._has_had_others
            or len(self._metadata.image.registered) > 1
        )

    def _ask(self, principal: str) -> None:
        self._tasks.spawn(self.take(principal))

    async def take_first(self, wait: StoreWait) -> None:
        """Take a block at the start. Wait for a store elsewhere that does not respond, and raise
        StoreSilent at the deadline. If another store refuses the block, log the reason."""
        allocate = partial(self._metadata.producer_ids.allocate, EVERY_PRINCIPAL)
        await self._take(EVERY_PRINCIPAL, partial(wait.step, "a block of producer ids", allocate))

    async def take(self, principal: str = EVERY_PRINCIPAL) -> None:
        """Take a block of the store for a principal. If the store refuses it, log the reason."""
        await self._take(principal, partial(self._metadata.producer_ids.allocate, principal))

    async def _take(
        self, principal: str, allocate: Callable[[], Awaitable[ProducerIdBlock]]
    ) -> None:
        try:
            block = await allocate()
        except Refused as refused:
            log.error("no producer ids", reason=str(refused))
            self.ids.failed(principal)
            return
        self.ids.add(range(block.first, block.end), principal)
