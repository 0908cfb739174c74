"""The reactions of a follower to the error of a partition (Kafka's AbstractFetcherThread)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from oncelog_protocol.errors import ErrorCode


class Reaction(Enum):
    DELAY = "fetch again after replica.fetch.backoff.ms"
    ASK_OFFSETS = "ask the leader for the start and end of its log"
    AWAIT_LEADER = "wait for metadata with another leader epoch"


# A code without a row delays the partition: leader and follower may have different metadata for a
# moment.
_REACTIONS: Final[dict[int, Reaction]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Reaction.ASK_OFFSETS,
    # The leader has a newer epoch. The metadata of this broker will soon have the newer epoch too.
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.AWAIT_LEADER,
}

# Errors of the session: the next request is a full one.
SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

# Errors that end as soon as all brokers have the same metadata. They need no warning.
PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


def reaction(code: int) -> Reaction:
    return _REACTIONS.get(code, Reaction.DELAY)
