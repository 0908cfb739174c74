"""Offset lookups while a producer writes."""

from __future__ import annotations

import pytest

from oncelog_client.spark.offsets.offsets import AtTime
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.source import logs
from oncelog_client.spark.source.offset_specs import resolve
from oncelog_client.spark.source.plan.source_options import source_options
from oncelog_client.values import TopicPartition
from tests.spark.topics import Row, Topics

T0 = 1_700_000_000_000


@pytest.mark.parametrize("starting", [True, False])
def test_the_offset_of_a_time_does_not_exceed_the_known_end(
    topics: Topics, name: str, starting: bool
) -> None:
    """With a later offset, a Spark batch would begin or end beyond the known end of the log, and
    that looks like lost data."""
    topics.create(name, 1, {"retention.ms": "-1"})
    topics.append(name, [Row(b"a", timestamp_ms=T0)])
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": name}
    options = source_options(Options(given), streaming=False)
    ends = logs.ask(options, lambda catalogue: logs.first_ends(catalogue, options))
    topics.append(name, [Row(b"b", timestamp_ms=T0 + 1), Row(b"c", timestamp_ms=T0 + 9)])
    place = AtTime(T0 + 5)
    found = logs.ask(
        options, lambda catalogue: resolve(catalogue, place, ends, options, starting=starting)
    )
    assert found == ends == {TopicPartition(name, 0): 1}
