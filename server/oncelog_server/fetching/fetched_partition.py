"""A partition that a reader fetches, with or without a fetch session (KIP-227)."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

# The high watermark in a Fetch of a reader that need not learn a new high watermark early
# (KIP-1166).
HIGH_WATERMARK_UNUSED: Final = 2**63 - 1


class PartitionKey(NamedTuple):
    """The key of a partition in a session. From v13 on, `topic` is a topic id (16 bytes). Before
    v13, `topic` is a name."""

    topic: str | bytes
    partition: int


class FetchedPartition(msgspec.Struct):
    """A partition in a fetch session, with the reader's request and the values that the reader got
    last."""

    key: PartitionKey
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    # The high watermark of the follower that reads, HIGH_WATERMARK_UNUSED for other readers.
    follower_high_watermark: int = HIGH_WATERMARK_UNUSED
    # The log start of the follower that reads, -1 for other readers.
    follower_log_start_offset: int = -1
    last_sent_high_watermark: int = -1
    last_sent_log_start_offset: int = -1
    last_sent_last_stable_offset: int = -1
    last_sent_error: bool = False
