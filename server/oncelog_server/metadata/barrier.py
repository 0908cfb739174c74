"""Lets the image catch up with the store, for decisions that must know each earlier change.

The image of a broker follows the changes of other brokers some milliseconds later. A condition of a
write finds a stale record only if the decision writes this record. Without a barrier, a broker
would refuse to delete the topic that another broker has just created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.records import BarrierRecord
from oncelog_server.cluster.store import LeaseEnded, MetadataStore, Put
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.refusal import Refused, StoreFailed

# Clients wait 30 s for a response. A call of the store ends after 5 s.
LIMIT_S: Final = 5.0
# The watch shows a change of this cluster within milliseconds, and a change of foreign keys never.
WATCH_S: Final = 0.02


class Barrier:
    """A barrier of this broker, one at a time. `lease_id` returns the lease of the broker."""

    def __init__(
        self,
        store: MetadataStore,
        follower: ImageFollower,
        broker_id: int,
        lease_id: Callable[[], int],
    ) -> None:
        self._store = store
        self._follower = follower
        self._key = records.barrier_key(broker_id)
        self._lease_id = lease_id
        self._passing = asyncio.Lock()
        # The number of the last barrier that has begun, and of the last one that was passed.
        self._begun = 0
        self._passed = 0

    async def wait(self) -> None:
        """Return when the image has all changes that the store had at the time of this call.

        Calls share a barrier that begins after them. Raises StoreFailed with REQUEST_TIMED_OUT if
        the store fails, or after LIMIT_S.
        """
        needed = self._begun + 1
        try:
            async with asyncio.timeout(LIMIT_S), self._passing:
                if self._passed < needed:
                    self._begun += 1
                    await self._pass()
                    self._passed = self._begun
        except (OSError, LeaseEnded, Refused) as error:
            raise StoreFailed(
                ErrorCode.REQUEST_TIMED_OUT,
                "the broker does not know the newest metadata of the cluster: retry "
                f"({str(error) or f'no response in {LIMIT_S:.0f} s'})",
            ) from error

    async def _pass(self) -> None:
        """Return when the image has all changes that the store has now. Reads are linearizable, so
        the revision of a response covers each change before it. This revision may belong to a
        change of foreign keys. The image then does not reach it until a key of this cluster
        changes. So if the image has not reached the revision after WATCH_S, this broker changes its
        own key."""
        newest = (await self._store.range(self._key)).revision
        try:
            async with asyncio.timeout(WATCH_S):
                await self._follower.reached(newest)
            return
        except TimeoutError:
            pass
        put = Put(self._key, records.encode(BarrierRecord()), self._lease_id())
        result = await self._store.txn((), (put,))
        await self._follower.reached(result.revision)
