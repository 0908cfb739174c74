"""Creates topics that may exist already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oncelog_client.errors import KafkaError
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog_client.admin import Admin, NewTopic


async def create_missing(admin: Admin, topics: Iterable[NewTopic]) -> set[str]:
    """Create the topics that do not exist, and return the names of the others. The broker decides:
    the user may not see a topic, and another program may create it meanwhile. Raises KafkaError,
    with a note of the topics that were created before."""
    from oncelog_client.admin.row_retries import note_done

    existing, created = set[str](), list[str]()
    for topic in topics:
        try:
            await admin.create_topics([topic])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                note_done(error, created)
                raise
            existing.add(topic.name)
        else:
            created.append(topic.name)
    return existing
