"""Record batches of random bytes. No two are equal, so no broker profits from a repetition."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.harness.writing import Identity

NO_IDENTITY = Identity(-1, -1)
"""The identity of a producer without a producer id."""

Batches = Mapping[int, bytearray]
"""Batches by partition number, one for each partition."""

_RANDOMNESS = random.Random(1)


def a_batch(count: int, value_bytes: int, producer: Identity = NO_IDENTITY) -> bytearray:
    """Return a batch of `count` records of `value_bytes` each, uncompressed, with the current
    time."""
    now_ms = int(time.time() * 1000)
    return build_batch(
        [NewRecord(now_ms, None, _RANDOMNESS.randbytes(value_bytes)) for _ in range(count)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=-1 if producer.producer_id < 0 else 0,
        is_transactional=producer.transactional_id is not None,
    )
