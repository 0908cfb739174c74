"""Metadata lists a broker for a short time after it was fenced, unless it has moved its leaders."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.draining import begin_draining
from oncelog_server.cluster.recently_fenced import LISTED_MS, RecentlyFenced
from tests.server.cluster.clusters import Cluster


class Listed:
    """A cluster of three brokers, and the ids that Metadata lists beside the brokers that live."""

    def __init__(self) -> None:
        self.cluster = Cluster((1, 2, 3))
        self.now_ms = 1_000
        self._fenced = RecentlyFenced(lambda: self.now_ms)

    def after(self, change: Callable[[Cluster], object]) -> list[int]:
        old = self.cluster.image
        change(self.cluster)
        new = self.cluster.image
        self._fenced.follow(old, new, ImageDelta.between(old, new))
        return self.present()

    def present(self) -> list[int]:
        return [broker.id for broker in self._fenced.brokers()]


@pytest.fixture
def listed() -> Listed:
    return Listed()


def test_a_fenced_broker_is_listed_for_some_seconds(listed: Listed) -> None:
    assert listed.after(lambda cluster: cluster.stop(2)) == [2]
    listed.now_ms += LISTED_MS - 1
    assert listed.after(lambda cluster: cluster.stop(3)) == [2, 3]
    listed.now_ms += 1
    assert listed.present() == [3]
    listed.now_ms += LISTED_MS
    assert listed.present() == []


def test_a_broker_that_is_back_is_not_listed_twice(listed: Listed) -> None:
    listed.after(lambda cluster: cluster.stop(2))
    assert listed.after(lambda cluster: cluster.register(2)) == []


def test_a_broker_that_has_moved_its_leaders_is_not_listed(listed: Listed) -> None:
    """Clients have seen the new leaders while it was alive."""
    epoch = listed.cluster.image.brokers[2].epoch
    listed.after(lambda cluster: cluster.apply([begin_draining(2, epoch, 7)]))
    assert listed.after(lambda cluster: cluster.stop(2)) == []
