"""The partitions that a broker with a new data directory leads, empty."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog_server.cluster.emptied_replicas import emptied_replicas
from oncelog_server.topic_partition import TopicPartition


def image(last: str | None, **partition: tuple[int, ...]) -> Any:
    """Return an image with the partition t-0, and the directory of broker 1's last registration."""
    fields = {"adding": (), "isr": (1,), "elr": (), **partition}
    return SimpleNamespace(
        brokers={},
        draining={},
        failed={},
        registrations={} if last is None else {1: SimpleNamespace(directory_id=last)},
        topics={
            "t": SimpleNamespace(name="t", partitions=[SimpleNamespace(partition=0, **fields)])
        },
    )


def test_the_only_replica_of_a_new_directory_is_emptied() -> None:
    t0 = [TopicPartition("t", 0)]
    for last in ("old", None):
        assert emptied_replicas(image(last, replicas=(1,)), 1, "new", set) == t0
    moving = image("old", replicas=(1, 2), adding=(2,))
    assert emptied_replicas(moving, 1, "new", set) == t0


def unlisted() -> set[str]:
    raise AssertionError("a start with its former directory lists the folders again")


def test_other_replicas_are_not_emptied() -> None:
    alone = image("old", replicas=(1,))
    assert emptied_replicas(alone, 1, "old", unlisted) == []
    assert emptied_replicas(alone, 1, "new", lambda: {"t-0"}) == []
    assert emptied_replicas(image("old", replicas=(2,)), 1, "new", set) == []
    assert emptied_replicas(image("old", replicas=(1, 2)), 1, "new", set) == []
