"""The topics of oncelog.create.topics. The form is that of KAFKA_CREATE_TOPICS, a variable of
images of Kafka."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_FORM: Final = (
    r"(?P<name>[^:]+):(?P<partitions>\d{1,6})(:(?P<replicas>\d{1,5})(:(?P<policy>[a-z]+))?)?"
)


class FirstTopic(NamedTuple):
    """A topic that a start creates. `cleanup_policy`: None for the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    cleanup_policy: str | None


def parse_first_topics(texts: Sequence[str]) -> list[FirstTopic]:
    """Return the topics. Raises ValueError for a text of another form, and for a name that occurs
    twice."""
    topics: dict[str, FirstTopic] = {}
    for text in texts:
        form = re.fullmatch(_FORM, text.strip())
        if form is None or not int(form["partitions"]) or form["replicas"] in ("0", ""):
            raise ValueError(
                f"{text!r} is not name:partitions[:replicas[:cleanup.policy]], such as orders:3"
            )
        name = form["name"]
        if name in topics:
            raise ValueError(f"{name} occurs twice")
        replicas = int(form["replicas"] or 1)
        topics[name] = FirstTopic(name, int(form["partitions"]), replicas, form["policy"])
    return list(topics.values())


def valid_first_topics(texts: Sequence[str]) -> str | None:
    """Return the reason why the setting is invalid, None if it is valid."""
    try:
        parse_first_topics(texts)
    except ValueError as error:
        return str(error)
    return None
