"""The warning about the brokers of a data directory that do not run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog_server.cluster.missing_brokers import missing_brokers


def image(*replicas: tuple[int, ...]) -> Any:
    """Return an image with four brokers, and a partition of `t` for each tuple."""
    partitions = [
        SimpleNamespace(partition=number, replicas=row) for number, row in enumerate(replicas)
    ]
    return SimpleNamespace(
        registrations=dict.fromkeys((1, 2, 3, 4)),
        topics={"t": SimpleNamespace(name="t", partitions=partitions)},
    )


def test_nothing_is_missing_if_all_run() -> None:
    assert missing_brokers(image((1,)), range(1, 5)) is None


@pytest.mark.parametrize(
    ("replicas", "offline", "fewer"),
    [
        ([(1,), (2,)], (), 0),
        ([(3,), (4, 3), (3, 1), (2, 4)], ("t-0", "t-1"), 2),
        # A partition without a record has no replicas.
        ([()], (), 0),
    ],
)
def test_partitions_are_offline_without_any_of_their_brokers(
    replicas: list[tuple[int, ...]], offline: tuple[str, ...], fewer: int
) -> None:
    found = missing_brokers(image(*replicas), range(1, 3))
    assert found is not None
    assert (found.brokers, found.offline, found.fewer) == ((3, 4), offline, fewer)


def test_the_warning_says_what_is_lost_and_how_to_get_it_back() -> None:
    text = str(missing_brokers(image(*[(4,)] * 7, (1, 4)), range(1, 4)))
    assert text == (
        "broker 4 of this data directory does not run: 7 partitions cannot be read or written"
        " (t-0, t-1, t-2, t-3, t-4 and 2 more), 1 partition with fewer replicas. To have them all,"
        " start with --brokers 4. To have fewer brokers, do so and then: oncelog cluster drain 4"
        " --execute; stop; start with --brokers 3; oncelog cluster unregister 4"
    )


def test_brokers_without_partitions_can_be_forgotten() -> None:
    assert str(missing_brokers(image((1,)), range(1, 3))) == (
        "brokers 3 and 4 of this data directory do not run, and have no partition. To unregister:"
        " oncelog cluster unregister 3; oncelog cluster unregister 4"
    )
