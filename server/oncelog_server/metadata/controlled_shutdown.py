"""The first step of a broker's stop in a cluster of several brokers: its leaders move while it
still serves (Kafka's controlled shutdown)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from oncelog_server.cluster.draining import begin_draining, led_by, still_to_move
from oncelog_server.cluster.store import LeaseEnded, MetadataStore, UnknownOutcome
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.membership import Membership
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition

# `docker stop` kills after 10 s. The rest of the stop needs a part of this time.
LIMIT_S: Final = 6.0
# Pause before the key is written again after an unknown outcome.
RETRY_S: Final = 0.5
# After the last move, the broker responds NOT_LEADER_OR_FOLLOWER for this time. Clients then find
# the new leaders without the loss of a connection.
LAST_RESPONSES_S: Final = 0.2
# Number of partitions that the log names.
NAMED: Final = 5

_log = structlog.get_logger("oncelog.cluster")


class ControlledShutdown:
    """Moves the leaders of this broker to other brokers. The broker must still serve, because
    followers fetch its last records meanwhile."""

    def __init__(
        self,
        store: MetadataStore,
        follower: ImageFollower,
        membership: Membership,
        broker_id: int,
        *,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._store = store
        self._follower = follower
        self._membership = membership
        self._broker_id = broker_id
        self._limit_s = limit_s
        self._changes = asyncio.Event()
        self._led: Sequence[TopicPartition] = ()

    async def run(self) -> None:
        """Let this broker drain. Return when it leads no partition that another live replica can
        lead, after the limit, or if the store fails. The partitions that were not moved are
        logged."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._led = led_by(self._follower.image, self._broker_id)
        self._follower.subscribe(lambda old, new, delta: self._changes.set())
        try:
            async with asyncio.timeout(self._limit_s):
                await self._drain()
        except TimeoutError:
            self._log_left()
            return
        except (OSError, LeaseEnded, Refused) as error:
            _log.warning("the broker stops without moving its leaders", reason=str(error))
            return
        moved = len(self._led) - len(led_by(self._follower.image, self._broker_id))
        _log.info("leaders moved", partitions=moved, ms=round((loop.time() - began_s) * 1000))
        if moved:
            await asyncio.sleep(LAST_RESPONSES_S)

    async def _drain(self) -> None:
        """Return when no partition is left to move. Raises OSError and LeaseEnded if the store
        fails, Refused if the image does not follow the store."""
        is_draining = False
        while True:
            self._changes.clear()
            image = self._follower.image
            epoch = self._membership.epoch_in(image)
            if not epoch:
                return  # the registration has ended, so the controller elects other leaders
            if self._broker_id not in image.draining:
                await self._write_key(epoch)
            else:
                if not is_draining:
                    # An election before this image may have chosen this broker, because it did not
                    # drain yet.
                    is_draining = True
                    led = led_by(image, self._broker_id)
                    self._led = tuple(dict.fromkeys((*self._led, *led)))
                if not still_to_move(image, self._broker_id, self._led):
                    return
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._changes.wait()

    async def _write_key(self, epoch: int) -> None:
        write = begin_draining(self._broker_id, epoch, self._membership.lease_id)
        with suppress(UnknownOutcome):
            result = await self._store.txn(write.compare, write.operations)
            if result.succeeded:
                await self._follower.reached(result.revision)

    def _log_left(self) -> None:
        left = still_to_move(self._follower.image, self._broker_id, self._led)
        _log.warning(
            "the broker stops as the leader of partitions: their clients wait for an election",
            partitions=len(left),
            some=[str(name) for name in left[:NAMED]],
            limit_s=self._limit_s,
        )
