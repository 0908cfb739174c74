"""The differences between the two brokers that are intended, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from oncelog_protocol.errors import ErrorCode
from tests.conformance.rights.compared import View


@dataclass(frozen=True)
class Difference:
    """Responses to the template `template` that differ, and why. `common` returns the part
    of a response that does not differ."""

    template: str
    reason: str
    common: Callable[[View], View]


def _without_results(found: View) -> View:
    """Return a denied response without the row of a user without a name."""
    return found | {"results": []} if found["error_code"] else found


def _codes(found: View) -> View:
    """Return the denied partitions of a Fetch only."""
    topics = [
        topic
        for topic in found["responses"]
        if topic["partitions"][0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
    return found | {"responses": topics}


ALLOWED: Final[tuple[Difference, ...]] = (
    Difference(
        "describe_users",
        "Kafka's denied response has the code a second time, in the row of a user without a name",
        _without_results,
    ),
    Difference(
        "fetch_as_a_follower",
        "with the right, Kafka looks for the replica: NOT_LEADER_OR_FOLLOWER. A single broker of "
        "oncelog has no replicas, and reads",
        _codes,
    ),
)
MOST: Final = 6
