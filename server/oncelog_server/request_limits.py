"""How many array elements a request may have, of all its arrays together: while one is decoded,
served and answered, nobody else is (H21, H26, H28, H30).

Measured: an element takes 1 to 7 us of one core, of which decoding is one or less; the limits keep
what a request takes below some 50 ms (a Fetch of 20,000 partitions: 90). What Kafka's own clients
send in one request stays far below them, as does a Fetch or Metadata of 10,000 topics with a
partition each.
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
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
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


def max_elements(api_key: int) -> int:
    return MAX_ELEMENTS_OF.get(api_key, MAX_ELEMENTS)
