"""In each test the brokers have a defect, and a rule finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog_server.fetcher.leader_fetcher import LeaderFetcher
from oncelog_server.partition.follower_log import Cut, FollowerLog
from oncelog_server.partition.partition import Partition
from oncelog_server.replica.state import Replicas
from tests.simulation.cluster.run import run_seed

SEEDS = range(8)


def found(rule: str) -> bool:
    """Return True if one of the worlds violates the rule."""
    return any(f" s: {rule}: " in text for seed in SEEDS for text in run_seed(seed).violations)


def test_a_high_watermark_that_waits_for_no_follower_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Replicas, "high_watermark", lambda self, present, end: max(present, end))
    assert found("LogMatching")


def test_a_high_watermark_of_one_replica_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_fastest(self: Replicas, present: int, leader_end: int) -> int:
        ends = [follower.log_end_offset for follower in self._counted]
        return max(present, min(leader_end, max(ends, default=leader_end)))

    monkeypatch.setattr(Replicas, "high_watermark", of_the_fastest)
    assert found("LogMatching")


def test_a_follower_that_is_cut_at_its_high_watermark_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new leader may have records that it does not know to be committed."""
    follow: Callable[..., Any] = LeaderFetcher.follow

    def cut(self: LeaderFetcher, log: FollowerLog) -> None:
        follow(self, log)
        followed = next(each for each in self._followed.values() if each.log is log)
        self._cut_at(followed, Cut(log.partition.high_watermark))

    monkeypatch.setattr(LeaderFetcher, "follow", cut)
    assert found("ReplicaComplete")


def test_a_high_watermark_beyond_the_log_of_a_follower_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def beyond(self: Partition, high_watermark: int) -> None:
        self.high_watermark = max(high_watermark, self.high_watermark)

    monkeypatch.setattr(Partition, "follow_high_watermark", beyond)
    assert found("HighWatermark")
