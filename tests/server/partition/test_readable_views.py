"""The read models of readable records: the bounds of a partition, and a count of its records in
steps. The count fails if the partition is no longer available."""

from __future__ import annotations

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.readable_views import ReadableViews
from oncelog_server.partition.registry import Partitions
from oncelog_server.slices import at_its_end
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.partitions import ReadableView
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import NAME, partition, refusal, send
from tests.server.storage.memory_files import MemoryFiles


def test_a_leader_has_a_view_with_its_current_bounds_and_a_follower_has_none() -> None:
    partitions = Partitions()
    found = partition(cleanup_policy=frozenset({"compact"}))
    partitions.add(found)
    views = ReadableViews(partitions)
    found.append(batch(4), now_ms=NOW_MS)
    at_its_end(found.delete_records_before(1, NOW_MS))
    send(found, 7, 0)
    expected = ReadableView(NAME, bytes(16), True, 1, 4, 5)
    before = views.view(NAME)
    found.append(batch(), now_ms=NOW_MS)
    assert before == expected
    assert views.view(TopicPartition("unknown", 0)) is None
    found.become_follower(1, 1)
    assert views.view(NAME) is None


def test_a_count_of_records_is_refused_if_the_partition_is_unavailable() -> None:
    files, partitions = MemoryFiles(), Partitions()
    found = partition(files)
    partitions.add(found)
    views = ReadableViews(partitions)
    found.append(batch(4), now_ms=NOW_MS)
    view = views.view(NAME)
    assert view is not None
    assert [walked.records for walked in views.walk(view, 0, 4)] == [4]
    recreated = replace(view, topic_id=b"another topic id")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: list(views.walk(recreated, 0, 4))) is unknown
    files.fail_reads(".log")
    failed = ErrorCode.KAFKA_STORAGE_ERROR
    assert refusal(lambda: list(views.walk(view, 0, 4))) is failed
    partitions.remove(NAME)
    assert refusal(lambda: list(views.walk(view, 0, 4))) is unknown
