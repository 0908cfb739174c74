"""Blocks of producer ids: each is taken from the store once, so that no id is given out twice."""

from __future__ import annotations

from typing import Final

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.records import ProducerIdsRecord
from oncelog_server.cluster.store import Entry, Put, Write, Written

BLOCK_SIZE: Final = 1000
"""As Kafka's ProducerIdsBlock (KIP-730)."""
LAST_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """The ids from `first` on, `size` of them. What a crash leaves unused is never used."""

    first: int
    size: int

    @property
    def end(self) -> int:
        """The first id that is not in the block."""
        return self.first + self.size


def next_block(entry: Entry | None) -> tuple[ProducerIdBlock, Write]:
    """The block that is next, given the record of the last one, and the write that takes it.

    Raises OverflowError when there are no more ids; ValueError for a record that is none.
    """
    first = 0 if entry is None else records.decode(ProducerIdsRecord, entry.value).next_producer_id
    if first > LAST_PRODUCER_ID - BLOCK_SIZE:
        raise OverflowError("no producer ids are left")
    block = ProducerIdBlock(first, BLOCK_SIZE)
    put = Put(records.PRODUCER_IDS, records.encode(ProducerIdsRecord(block.end)))
    condition = Written(records.PRODUCER_IDS, 0 if entry is None else entry.mod_revision)
    return block, Write((condition,), (put,))
