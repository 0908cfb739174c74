"""Blocks of producer ids: each is taken from the store once, so that no id is assigned twice. A
block may belong to a principal (KIP-98, section Authorization, leaves this open)."""

from __future__ import annotations

from typing import Final

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.records import ProducerIdBlockRecord, ProducerIdsRecord
from oncelog_server.cluster.store import Entry, Put, Write, Written

BLOCK_SIZE: Final = 1000
"""The size in Kafka's ProducerIdsBlock (KIP-730). A principal takes a block at its first request
after a start. The metadata keeps a record of every such block, so a smaller size would make more
records."""
LAST_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """`size` ids from `first` on. Ids that a crash leaves unused are never assigned."""

    first: int
    size: int

    @property
    def end(self) -> int:
        """Return the first id after the block."""
        return self.first + self.size


def next_block(entry: Entry | None, principal: str = "") -> tuple[ProducerIdBlock, Write]:
    """Return the next block and the write that takes it.

    `entry` is the store's record of the last block taken, None before the first block. With a
    `principal`, the same write makes the block its own. Such a block begins at a multiple of
    BLOCK_SIZE, so that `id // BLOCK_SIZE` is the number of its record. Raises OverflowError if no
    ids are left, ValueError if the record cannot be decoded.
    """
    first = 0 if entry is None else records.decode(ProducerIdsRecord, entry.value).next_producer_id
    conditions = [Written(records.PRODUCER_IDS, 0 if entry is None else entry.mod_revision)]
    puts = []
    if principal:
        number = -(-first // BLOCK_SIZE)
        first = number * BLOCK_SIZE
        key = records.producer_id_block_key(number)
        puts = [Put(key, records.encode(ProducerIdBlockRecord(principal)))]
    if first > LAST_PRODUCER_ID - BLOCK_SIZE:
        raise OverflowError("no producer ids are left")
    block = ProducerIdBlock(first, BLOCK_SIZE)
    puts.append(Put(records.PRODUCER_IDS, records.encode(ProducerIdsRecord(block.end))))
    return block, Write(tuple(conditions), tuple(puts))
