"""A row of the tables: a request, the rights that it needs, and its outcome with and without
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_server.security.access import DENIED
from oncelog_server.security.resources import CLUSTER, Operation, Resource, ResourceType

TOPIC: Final = "orders"
GROUP: Final = "group"
ID: Final = "id"
# A transactional id with an open transaction.
OPEN_ID: Final = "open"

# Names of fields that hold an error code.
CODE_FIELDS: Final = ("error_code", "partition_error_code", "topic_config_error_code")

# The error codes that are not NONE, each with the names of the fields that lead to it.
Codes = frozenset[tuple[str, int]]
# The part of a response that depends on the rights: codes, or the names in a list.
Outcome = frozenset[Any]
NOTHING: Final[Outcome] = frozenset()


class Right(NamedTuple):
    operation: Operation
    resource: Resource

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource.type.name}"


class Need(NamedTuple):
    """A right, and the outcome of the request if only this right is missing."""

    right: Right
    denied: Outcome


@dataclass(frozen=True)
class Case:
    """A request that needs all of `needs`, and no other right. `request` makes it for the id of the
    topic. `allowed`: the outcome with these rights."""

    api: ApiKey
    request: Callable[[bytes], Any]
    needs: tuple[Need, ...]
    allowed: Outcome = NOTHING
    versions: range | None = None
    outcome: Callable[[Any], Outcome] | None = None

    @property
    def tested(self) -> range:
        return self.versions or APIS[self.api].versions

    def read(self, response: Any) -> Outcome:
        return frozenset(codes(response)) if self.outcome is None else self.outcome(response)

    def __str__(self) -> str:
        needed = " and ".join(str(need.right) for need in self.needs) or "nothing"
        return f"{APIS[self.api].name} v{self.tested[0]}-{self.tested[-1]} needs {needed}"


def codes(response: Any, place: str = "") -> Iterator[tuple[str, int]]:
    """Yield the error codes of a response that are not NONE."""
    for name in getattr(response, "__slots__", ()):
        value = getattr(response, name)
        if name in CODE_FIELDS:
            if value != ErrorCode.NONE:
                yield place + name, value
            continue
        for element in value if isinstance(value, list) else [value]:
            yield from codes(element, f"{place}{name}.")


def at(place: str, *found: ErrorCode) -> Codes:
    """Return these codes at a place: the fields that lead to the field `error_code`."""
    return frozenset((f"{place}.error_code" if place else "error_code", code) for code in found)


def topic(operation: Operation, name: str = TOPIC) -> Right:
    return Right(operation, Resource(ResourceType.TOPIC, name))


def group(operation: Operation) -> Right:
    return Right(operation, Resource(ResourceType.GROUP, GROUP))


def transactional_id(operation: Operation, name: str = ID) -> Right:
    return Right(operation, Resource(ResourceType.TRANSACTIONAL_ID, name))


def cluster(operation: Operation) -> Right:
    return Right(operation, CLUSTER)


def need(right: Right, place: str = "", code: ErrorCode | None = None) -> Need:
    """Return a right. Without it, the request gets `code`, or else the code of the resource's
    type."""
    return Need(right, at(place, DENIED[right.resource.type] if code is None else code))


def hidden(right: Right) -> Need:
    """Return a right without which the list in the response is empty."""
    return Need(right, NOTHING)


def always(request: Any) -> Callable[[bytes], Any]:
    return lambda topic_id: request
