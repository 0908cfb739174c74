"""The differences between the two brokers that are intended, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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


ALLOWED: Final[tuple[Difference, ...]] = (
    Difference(
        "describe_users",
        "Kafka's denied response has the code a second time, in the row of a user without a name",
        _without_results,
    ),
)
MOST: Final = 6
