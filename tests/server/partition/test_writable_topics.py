"""The topics that a session may write, with their partitions."""

from __future__ import annotations

from oncelog_server.partition.registry import NO_PARTITIONS
from oncelog_server.partition.writable_topics import MAX_TOPICS, WritableTopics
from tests.server.partition.partitions import partition


def test_the_topics_of_another_revision_are_dropped() -> None:
    writable = WritableTopics()
    writable.begin(7)
    writable.add("t", {0: partition()})
    assert (writable.revision, set(writable.topics)) == (7, {"t"})
    writable.begin(8)
    assert (writable.revision, set(writable.topics)) == (8, set())


def test_a_topic_without_partitions_is_not_kept() -> None:
    """A client may name any topic, and its name may have 32 KB."""
    writable = WritableTopics()
    writable.add("t" * 30_000, NO_PARTITIONS)
    assert not writable.topics


def test_a_session_keeps_a_limited_number_of_topics() -> None:
    writable = WritableTopics()
    found = {0: partition()}
    for number in range(3 * MAX_TOPICS):
        writable.add(f"t{number}", found)
        assert f"t{number}" in writable.topics
        assert len(writable.topics) <= MAX_TOPICS
