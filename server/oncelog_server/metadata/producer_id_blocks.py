"""The blocks of producer ids that the store assigns to brokers."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.producer_ids import ProducerIdBlock, next_block
from oncelog_server.cluster.store import MetadataStore
from oncelog_server.metadata.conditional_writer import ATTEMPTS
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.refusal import Refused, StoreFailed


class ProducerIdBlocks:
    """Allocates blocks, so that no id is assigned twice in the cluster."""

    def __init__(self, store: MetadataStore, follower: ImageFollower) -> None:
        self._store = store
        self._follower = follower

    async def next_id(self) -> int:
        """Return the first producer id of the next block.

        Raises OSError if the store fails. Raises ValueError if the record cannot be decoded.
        """
        entry = await self._store.get(records.PRODUCER_IDS)
        if entry is None:
            return 0
        return records.decode(records.ProducerIdsRecord, entry.value).next_producer_id

    async def allocate(self, principal: str = "") -> ProducerIdBlock:
        """Allocate a block of producer ids for this broker only. With a `principal`, the block
        belongs to it, and the image shows this when the method returns. Raises StoreFailed if
        the store fails, Refused if it keeps changing."""
        try:
            for _ in range(ATTEMPTS):
                block, write = next_block(await self._store.get(records.PRODUCER_IDS), principal)
                result = await self._store.txn(write.compare, write.operations)
                if result.succeeded:
                    if principal:
                        await self._follower.reached(result.revision)
                    return block
        except OSError as error:
            raise StoreFailed(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        raise Refused(
            ErrorCode.REQUEST_TIMED_OUT, "too many brokers allocate producer ids at once: retry"
        )
