"""The writes of a new topic."""

from __future__ import annotations

import pytest

from oncelog_server.cluster import records
from tests.server.cluster.clusters import Cluster


def test_the_record_of_a_partition_is_encoded_once_for_each_assignment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Encoding a record for each of 10,000 partitions took 60 ms of the event loop."""
    encoded: list[object] = []
    encode = records.encode

    def counted(record: object) -> bytes:
        encoded.append(record)
        return encode(record)

    monkeypatch.setattr(records, "encode", counted)
    cluster = Cluster((1, 2))
    encoded.clear()
    cluster.create("wide", 500, 2)
    assert len(encoded) == 2 + 2, (
        "the topic, its creation, and a partition for each of the two leaders"
    )
    leaders = {partition.leader for partition in cluster.image.topics["wide"].partitions}
    assert leaders == {1, 2}
