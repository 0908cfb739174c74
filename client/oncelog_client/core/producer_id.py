"""A producer id with its epoch, as one value (KIP-98)."""

from __future__ import annotations

from typing import Final, NamedTuple


class ProducerIdAndEpoch(NamedTuple):
    """A producer id with its epoch, as InitProducerId and EndTxn v5 return them."""

    producer_id: int
    producer_epoch: int


NO_IDENTITY: Final = ProducerIdAndEpoch(-1, -1)
