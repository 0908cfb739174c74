"""The topics that a request names, for any API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import Array

TopicName = Callable[[bytes], str | None]

_TOPIC_ID: Final = "topic_id"
_NAMES: Final = ("name", "topic")
# Their structs have a field `name` that is no topic.
_WITHOUT_TOPICS: Final = frozenset(
    {ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.JOIN_GROUP}
)


def names_topics(api: ApiKey) -> bool:
    """Return True if requests of this API name topics."""
    return api not in _WITHOUT_TOPICS and _has_topic(APIS[api].request)


def requested_topics(request: Any, version: int, topic_name: TopicName) -> set[str]:
    """Return the names of the topics in a request. `topic_name` returns the name of a topic id."""
    found: set[str] = set()
    for struct in _structs(request, version):
        names = [getattr(struct, name, None) for name in _NAMES]
        topic_id = getattr(struct, _TOPIC_ID, b"")
        names.append(topic_name(topic_id) if topic_id else None)
        found.update(name for name in names if isinstance(name, str) and name)
    return found


def _has_topic(cls: type) -> bool:
    for field in schema_of(cls).fields:
        if not isinstance(field.type, Array) or not isinstance(field.type.of, type):
            continue
        names = schema_of(field.type.of).names
        if not {_TOPIC_ID, *_NAMES}.isdisjoint(names) or _has_topic(field.type.of):
            return True
    return False


def _structs(message: Any, version: int) -> Iterator[Any]:
    """Yield the structs in the arrays of a message, at any depth."""
    for field in schema_of(type(message)).fields:
        if isinstance(field.type, Array) and field.present(version):
            for element in getattr(message, field.name) or ():
                if hasattr(type(element), "__schema__"):
                    yield element
                    yield from _structs(element, version)
