"""An accumulator for tests, with the partitions and the producer that the tests use."""

from __future__ import annotations

from oncelog_client.core.backoff import Backoff
from oncelog_client.core.batching import Accumulator
from oncelog_client.core.partition_queue import BatchingConfig
from oncelog_client.core.producer_id import ProducerIdAndEpoch
from oncelog_client.values import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
IDENTITY = ProducerIdAndEpoch(7, 3)


def accumulator(
    *,
    batch_size: int = 200,
    linger_ms: float = 5,
    idempotent: bool = True,
    transactional: bool = False,
    buffer_memory: int = 1 << 20,
    retries: int = 100,
) -> Accumulator[int]:
    made: Accumulator[int] = Accumulator(
        BatchingConfig(
            batch_size=batch_size,
            linger_ms=linger_ms,
            buffer_memory=buffer_memory,
            delivery_timeout_ms=1000,
            retries=retries,
            backoff=Backoff(100, 100),
            idempotent=idempotent,
            transactional=transactional,
        )
    )
    if idempotent:
        made.adopt(IDENTITY)
    return made
