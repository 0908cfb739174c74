"""The producer id of an idempotent producer without a transactional id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_client.core.batching import Accumulator
from oncelog_client.core.producer_id import ProducerIdAndEpoch
from oncelog_client.errors import KafkaError, RetriableError, check
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from .batch_outcomes import BatchOutcomes, Delivery
from .cluster import Cluster
from .randomness import fraction


class IdentityRequest:
    """Requests a producer id in the background. `on_ended` gets the task of each attempt."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator[Delivery],
        outcomes: BatchOutcomes,
        on_ended: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._outcomes = outcomes
        self._on_ended = on_ended
        self._failures = 0
        self._attempt: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Request a producer id, unless a request is in flight. The call does not wait for the
        response, because batches may expire meanwhile."""
        if self._attempt is None:
            self._attempt = self._cluster.spawn(self._identify())
            self._attempt.add_done_callback(self._ended)

    async def _identify(self) -> None:
        """Get a producer id. After a failure wait a little."""
        try:
            response = await self._cluster.call_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1),
                InitProducerIdResponse,
            )
            check(response.error_code)
        except RetriableError:
            self._failures += 1
            delay_ms = self._cluster.backoff.delay_ms(self._failures, fraction())
            await asyncio.sleep(delay_ms / 1000)
            return
        except KafkaError as error:
            self._outcomes.fail_all(error)
            return
        self._failures = 0
        self._accumulator.adopt(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))

    def _ended(self, attempt: asyncio.Task[None]) -> None:
        self._attempt = None
        self._on_ended(attempt)
