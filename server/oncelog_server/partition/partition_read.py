"""The result of a read."""

from __future__ import annotations

import msgspec

from oncelog_server.log.results import FileRange
from oncelog_server.log.txn_index import AbortedTransaction


class PartitionRead(msgspec.Struct):
    """The part of a Fetch response for one partition. The offsets are those at the time of the
    read."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileRange | None
    aborted: list[AbortedTransaction] | None
