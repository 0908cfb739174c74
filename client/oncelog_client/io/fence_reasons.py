"""The reason of a producer's fence or of a transaction's timeout, from oncelog's coordinator.

Apache Kafka stores no cause, and has one error code for all causes. So errors from Apache
Kafka keep their messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from oncelog_client.core.producer_id import ProducerIdAndEpoch
from oncelog_client.errors import KafkaError
from oncelog_protocol.features import GROUP_TRANSACTIONS
from oncelog_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FenceData,
)

from .clock import wall_ms
from .cluster import Cluster, CoordinatorType

# Maximum time by which this look-up delays an error. The look-up only improves the message.
_TIMEOUT_S: Final = 1.0

# The broker's names of causes (those of `oncelog transactions describe`).
_TIMED_OUT: Final = "timed out"
_SENTENCES: Final[dict[str, str]] = {
    _TIMED_OUT: "the coordinator aborted the transaction of {id}, which had timed out",
    "newer instance": "fenced by a newer instance of {id}",
    "newer generation": "fenced by a newer generation of the consumer group of {id}",
    "concurrent producer commit": "fenced by another producer that commits offsets of {id}'s group",
    "operator": "an operator ended the transaction of {id} and fenced its producer",
}


async def fence_reason(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    transactional_id: str,
    identity: ProducerIdAndEpoch,
) -> str | None:
    """Return a sentence with the cause, client and time of this producer's fence, or None if they
    are unknown. `kind` and `key` name the producer's coordinator."""
    if GROUP_TRANSACTIONS not in cluster.features:
        return None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            response = await cluster.call_coordinator(
                kind,
                key,
                DescribeTransactionsRequest([transactional_id]),
                DescribeTransactionsResponse,
            )
    except (KafkaError, TimeoutError):
        return None
    for state in response.transaction_states:
        if state.transactional_id == transactional_id and not state.error_code:
            return described(transactional_id, identity, state.fences, wall_ms())
    return None


def described(
    transactional_id: str, identity: ProducerIdAndEpoch, fences: Sequence[FenceData], now_ms: int
) -> str | None:
    """Return a sentence for the first of `fences` that fenced this producer id and epoch, or None
    if no fence did. `now_ms` is the wall clock."""
    for fence in fences:
        if fence.producer_id == identity[0] and fence.producer_epoch >= identity[1]:
            known = _SENTENCES.get(fence.cause, f"fenced ({fence.cause}): {{id}}")
            text = known.format(id=transactional_id)
            client = fence.client_id and f"client {fence.client_id}"
            address = fence.client_address and f"at {fence.client_address}".replace("at /", "at ")
            by = " ".join(part for part in (fence.principal, client, address) if part)
            ago = f"{_duration(max(now_ms - fence.fenced_at_ms, 0))} ago"
            return f"{text}: {by}, {ago}" if by else f"{text}, {ago}"
    return None


def _duration(ms: int) -> str:
    for size_ms, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= 2 * size_ms:
            return f"{ms // size_ms} {unit}"
    return f"{ms} ms"
