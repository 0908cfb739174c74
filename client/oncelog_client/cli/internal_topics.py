"""Refuses the deletion of internal topics, which brokers write themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from oncelog_client.cli.failures import Failed

if TYPE_CHECKING:
    from oncelog_client.admin import TopicListing

LOST: Final = {
    "__consumer_offsets": "the committed offsets and the members of all groups",
    "__transaction_state": (
        "all transactional ids with their epochs (running producers are then refused) and the"
        " decisions on open transactions (which then hang)"
    ),
}
LOST_OF_OTHERS: Final = "the brokers' records in it"


def refuse_internal(topics: Iterable[TopicListing]) -> None:
    """Raise Failed if one of the topics is internal. The message says what its deletion would
    lose."""
    found = [topic.name for topic in topics if topic.is_internal]
    if not found:
        return
    lost = "; ".join(
        f"with {name} {LOST.get(name, LOST_OF_OTHERS)} would be lost" for name in found
    )
    plural = "is an internal topic" if len(found) == 1 else "are internal topics"
    raise Failed(
        f"{', '.join(found)} {plural}: {lost}. Nothing was deleted; use --force to delete internal"
        " topics"
    )
