"""Limits on the number of array elements in a request, over all arrays of the request.

Each element takes memory, and blocks the loop if the request is not served in slices (H21, H26,
H28, H30). An element takes 1 to 7 us of one core. Decoding takes at most 1 us of this time
(measured). The limits keep a request below about 50 ms.

Requests that are decoded, served and encoded in slices may name every partition that a cluster may
have. As in Kafka, only the number of elements limits the total time of such a request. A sliced
request delays other requests by at most a slice: all large requests share each slice, in rotation,
and a connection has only one large request at a time (`slices.py`). So a sliced request that takes
seconds delays others no more than many requests that take milliseconds.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey

MAX_ELEMENTS: Final = 10_000
# Enough for 10,000 partitions, each in its own topic: a topic and its partition are two elements.
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
    # Each element takes seven microseconds.
    ApiKey.FIND_COORDINATOR: 6_000,
    ApiKey.DESCRIBE_GROUPS: 6_000,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 6_000,
    # Each element creates a topic or partitions.
    ApiKey.CREATE_TOPICS: 1_200,
    ApiKey.CREATE_PARTITIONS: 4_000,
    # The elements are states and types of groups, and there are only a few of these.
    ApiKey.LIST_GROUPS: 100,
    # Each rule is checked, and its pattern's record is written again.
    ApiKey.CREATE_ACLS: 4_000,
    # Each filter is compared with every rule.
    ApiKey.DELETE_ACLS: 100,
}


# Large requests of these APIs are served in slices of time, so they may have more elements.
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
# Room for elements that do not count in the cluster's limit of partitions: internal and deleted
# topics.
_BESIDE: Final = 1_000


def max_elements(api_key: int, max_partitions: int) -> int:
    """Return the limit of an API. `max_partitions` is the limit of partitions of the cluster."""
    usual = MAX_ELEMENTS_OF.get(api_key, MAX_ELEMENTS)
    return max(usual, 2 * max_partitions + _BESIDE) if api_key in IN_SLICES else usual
