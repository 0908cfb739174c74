"""How many array elements a request may have, of all its arrays together: each takes memory, and,
where it is not served in slices, time in which nothing else is (H21, H26, H28, H30).

Measured: an element takes 1 to 7 us of one core, of which decoding is one or less; the limits keep
what a request takes below some 50 ms. Requests that are decoded, served and answered in slices may
name every partition there can be.

What a request takes in slices has no bound but these numbers, as in Kafka. It keeps others out for
no longer than a slice: all large requests share one, in rotation, and a connection has one of them
at a time (`slices.py`). So an attacker gains nothing by one request that takes seconds over many
that take milliseconds.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey

MAX_ELEMENTS: Final = 10_000
# A topic and its partition are two elements.
_OF_PARTITIONS: Final = 20_002

MAX_ELEMENTS_OF: Final[dict[int, int]] = {
    **dict.fromkeys(
        (
            ApiKey.PRODUCE,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.OFFSET_DELETE,
            ApiKey.DELETE_RECORDS,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.SYNC_GROUP,
        ),
        _OF_PARTITIONS,
    ),
    # Seven microseconds each.
    ApiKey.FIND_COORDINATOR: 6_000,
    ApiKey.DESCRIBE_GROUPS: 6_000,
    # Each of these makes a topic, or partitions.
    ApiKey.CREATE_TOPICS: 1_200,
    ApiKey.CREATE_PARTITIONS: 4_000,
    # The few states and types that there are.
    ApiKey.LIST_GROUPS: 100,
}


# Served in slices: they may name every partition that a cluster may have, each in its own topic.
IN_SLICES: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DELETE_TOPICS,
    }
)
# Room for what stands beside topics and partitions: internal topics, those that were deleted.
_BESIDE: Final = 1_000


def max_elements(api_key: int, max_partitions: int) -> int:
    """`max_partitions`: those that the cluster may have."""
    usual = MAX_ELEMENTS_OF.get(api_key, MAX_ELEMENTS)
    return max(usual, 2 * max_partitions + _BESIDE) if api_key in IN_SLICES else usual
