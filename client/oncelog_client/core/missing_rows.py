"""The rows that a response must have for its request. A row is the part of a response for one
topic, partition, group or broker, for example. The client never takes a missing row for a
success.

RULES has an entry for every API that the client sends. An API without an entry is an error.
`Connection.call` applies the rules. The Produce of the sender and the Fetch of the fetcher are
pipelined and do not pass through it: the sender and the fetcher check their partitions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.types import uuid_to_string

Keys = Set[Any]
# The function returns the keys in the request and the keys in the response, in a given version.
Rule = Callable[[Any, Any, int], tuple[Keys, Keys]]

_NOTHING: Final[Keys] = frozenset()

# The rows of these four APIs (FindCoordinator, OffsetFetch, LeaveGroup, EndTxn) depend on the
# version. From the given version on, the response has rows to check, or rows of another kind.
_FIND_SEVERAL: Final = 4
_OFFSETS_OF_SEVERAL: Final = 8
_LEAVE_SEVERAL: Final = 3
_END_BUMPS: Final = 5


def missing_rows(api: ApiKey, request: Any, response: Any, version: int) -> list[str]:
    """Return the requested keys that the response lacks, as text. The list is empty if the whole
    response is an error. Raises KeyError for an API without an entry in RULES."""
    rule = RULES[api]
    if getattr(response, "error_code", 0):
        return []
    asked, answered = rule(request, response, version)
    return sorted(_text(key) for key in asked - answered)


def _text(key: Any) -> str:
    return "-".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _no_rows(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    return _NOTHING, _NOTHING


def _partitions(asked: str = "topics", answered: str = "topics") -> Rule:
    """Return the rule for partitions. `asked` and `answered` are the names of the fields that hold
    the topics in the request and in the response."""
    return lambda request, response, version: (
        _pairs(getattr(request, asked)),
        _pairs(getattr(response, answered)),
    )


# Kafka's names for a topic, its rows, and a row's partition. A row may be the number itself.
_TOPIC_FIELDS: Final = ("name", "topic")
_ROWS_FIELDS: Final = (
    "partitions",
    "partition_indexes",
    "partition_data",
    "partition_responses",
    "results_by_partition",
)
_INDEX_FIELDS: Final = ("partition_index", "partition", "index")


def _pairs(topics: Iterable[Any] | None) -> Keys:
    """Return all (topic, partition) in the topics of a request or a response."""
    return {
        (_field(topic, _TOPIC_FIELDS), row if isinstance(row, int) else _field(row, _INDEX_FIELDS))
        for topic in topics or ()
        for row in _field(topic, _ROWS_FIELDS)
    }


def _field(value: Any, names: tuple[str, ...]) -> Any:
    return next(getattr(value, name) for name in names if hasattr(value, name))


def _named(asked: Callable[[Any], Iterable[Any]], answered: Callable[[Any], Iterable[Any]]) -> Rule:
    return lambda request, response, version: (set(asked(request)), set(answered(response)))


def _entity(entry: Any) -> frozenset[tuple[str, str | None]]:
    """Return the entity of a quota. Brokers order its parts in their own way."""
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _topics(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    """Return the topics by name. A topic that is requested by its id has that id as its key."""
    rows = request.topics or ()
    asked = {uuid_to_string(row.topic_id) if row.name is None else row.name for row in rows}
    found = {row.name for row in response.topics}
    if any(row.name is None for row in rows):
        found |= {uuid_to_string(row.topic_id) for row in response.topics}
    return asked, found


def _coordinators(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    if version < _FIND_SEVERAL:
        return _NOTHING, _NOTHING
    return set(request.coordinator_keys), {row.key for row in response.coordinators}


def _committed(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    if version < _OFFSETS_OF_SEVERAL:
        asked = _pairs(request.topics)
        return asked, _pairs(response.topics)
    wanted: set[Any] = {group.group_id for group in request.groups}
    found: set[Any] = {group.group_id for group in response.groups}
    refused = {group.group_id for group in response.groups if group.error_code}
    for group in request.groups:
        if group.group_id not in refused:
            pairs = _pairs(group.topics)
            wanted |= {(group.group_id, *pair) for pair in pairs}
    for group in response.groups:
        pairs = _pairs(group.topics)
        found |= {(group.group_id, *pair) for pair in pairs}
    return wanted, found


def _left(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    if version < _LEAVE_SEVERAL:
        return _NOTHING, _NOTHING
    return {row.member_id for row in request.members}, {row.member_id for row in response.members}


def _marked(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    asked = {
        (marker.producer_id, *pair) for marker in request.markers for pair in _pairs(marker.topics)
    }
    return asked, {
        (marker.producer_id, *pair) for marker in response.markers for pair in _pairs(marker.topics)
    }


def _producer_id(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    return {"the producer id"}, {"the producer id"} if response.producer_id >= 0 else _NOTHING


def _bumped(request: Any, response: Any, version: int) -> tuple[Keys, Keys]:
    if version < _END_BUMPS:
        return _NOTHING, _NOTHING
    return _producer_id(request, response, version)


def _resources(rows: Iterable[Any]) -> Iterable[Any]:
    return [(row.resource_type, row.resource_name) for row in rows]


RULES: Final[dict[ApiKey, Rule]] = {
    ApiKey.API_VERSIONS: _no_rows,
    ApiKey.METADATA: _topics,
    ApiKey.FIND_COORDINATOR: _coordinators,
    # Records. The rules of Produce and Fetch are for calls outside the sender and the fetcher.
    ApiKey.PRODUCE: _partitions("topic_data", "responses"),
    ApiKey.FETCH: _partitions("topics", "responses"),
    ApiKey.LIST_OFFSETS: _partitions(),
    # Groups.
    ApiKey.JOIN_GROUP: _no_rows,
    ApiKey.SYNC_GROUP: _no_rows,
    ApiKey.HEARTBEAT: _no_rows,
    ApiKey.LEAVE_GROUP: _left,
    ApiKey.OFFSET_COMMIT: _partitions(),
    ApiKey.OFFSET_FETCH: _committed,
    ApiKey.OFFSET_DELETE: _partitions(),
    ApiKey.LIST_GROUPS: _no_rows,
    ApiKey.DESCRIBE_GROUPS: _named(
        lambda request: request.groups,
        lambda response: [row.group_id for row in response.groups],
    ),
    ApiKey.DELETE_GROUPS: _named(
        lambda request: request.groups_names,
        lambda response: [row.group_id for row in response.results],
    ),
    # Transactions.
    ApiKey.INIT_PRODUCER_ID: _producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda request, response, version: (
        _pairs(request.v3_and_below_topics),
        _pairs(response.results_by_topic_v3_and_below),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _no_rows,
    ApiKey.TXN_OFFSET_COMMIT: _partitions(),
    ApiKey.END_TXN: _bumped,
    ApiKey.DESCRIBE_PRODUCERS: _partitions(),
    ApiKey.LIST_TRANSACTIONS: _no_rows,
    ApiKey.DESCRIBE_TRANSACTIONS: _named(
        lambda request: request.transactional_ids,
        lambda response: [row.transactional_id for row in response.transaction_states],
    ),
    ApiKey.WRITE_TXN_MARKERS: _marked,
    # Authentication.
    ApiKey.SASL_HANDSHAKE: _no_rows,
    ApiKey.SASL_AUTHENTICATE: _no_rows,
    # Topics, settings, brokers.
    ApiKey.CREATE_TOPICS: _named(
        lambda request: [row.name for row in request.topics],
        lambda response: [row.name for row in response.topics],
    ),
    ApiKey.DELETE_TOPICS: _named(
        lambda request: request.topic_names,
        lambda response: [row.name for row in response.responses],
    ),
    ApiKey.CREATE_PARTITIONS: _named(
        lambda request: [row.name for row in request.topics],
        lambda response: [row.name for row in response.results],
    ),
    ApiKey.DELETE_RECORDS: _partitions(),
    ApiKey.DESCRIBE_CONFIGS: _named(
        lambda request: _resources(request.resources),
        lambda response: _resources(response.results),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _named(
        lambda request: _resources(request.resources),
        lambda response: _resources(response.responses),
    ),
    # Access rules. The results are in the order of the request, without names.
    ApiKey.CREATE_ACLS: _named(
        lambda request: range(len(request.creations)),
        lambda response: range(len(response.results)),
    ),
    ApiKey.DELETE_ACLS: _named(
        lambda request: range(len(request.filters)),
        lambda response: range(len(response.filter_results)),
    ),
    ApiKey.DESCRIBE_ACLS: _no_rows,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _named(
        lambda request: [user.name for user in request.users or ()],
        lambda response: [row.user for row in response.results],
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _named(
        lambda request: [row.name for row in (*request.deletions, *request.upsertions)],
        lambda response: [row.user for row in response.results],
    ),
    ApiKey.DESCRIBE_CLUSTER: _no_rows,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _named(
        lambda request: (
            (topic.name, row.partition_index)
            for topic in request.topics
            for row in topic.partitions
        ),
        lambda response: (
            (topic.name, row.partition_index)
            for topic in response.responses
            for row in topic.partitions
        ),
    ),
    ApiKey.UNREGISTER_BROKER: _no_rows,
    ApiKey.ELECT_LEADERS: _named(
        lambda request: [
            (topic.topic, partition)
            for topic in request.topic_partitions or ()
            for partition in topic.partitions
        ],
        lambda response: [
            (topic.topic, row.partition_id)
            for topic in response.replica_election_results
            for row in topic.partition_result
        ],
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _no_rows,
    # For the tools under Kafka's names. A response of DescribeTopicPartitions is one page of many.
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _no_rows,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _no_rows,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _no_rows,
    ApiKey.ALTER_CLIENT_QUOTAS: _named(
        lambda request: map(_entity, request.entries),
        lambda response: map(_entity, response.entries),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _no_rows,
}
