"""A consumer's subscription: to topics, to a pattern or to partitions, and its positions after a
seek."""

from __future__ import annotations

import re

import pytest

from oncelog_client.core.subscription import Subscription
from oncelog_client.errors import IllegalStateError
from oncelog_client.values import TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_topics_pattern_and_partitions_exclude_each_other_until_unsubscribed() -> None:
    subscription = Subscription()
    subscription.subscribe_topics(["t"])
    with pytest.raises(IllegalStateError):
        subscription.subscribe_pattern("t.*")
    with pytest.raises(IllegalStateError):
        subscription.assign([ONE])
    subscription.unsubscribe()
    subscription.assign([ONE])
    assert not subscription.uses_group


def test_a_pattern_matches_whole_names_and_match_returns_true_for_a_change() -> None:
    subscription = Subscription()
    subscription.subscribe_pattern(re.compile("in-.*"))
    assert subscription.match(["in-1", "out-1", "x-in-2"])
    assert subscription.topics == {"in-1"}
    assert not subscription.match(["in-1", "other"])
    assert subscription.match(["in-1", "in-2"])


def test_partitions_that_stay_keep_their_position() -> None:
    subscription = Subscription()
    subscription.assign([ONE])
    subscription[ONE].jump(7)
    subscription.set_partitions([ONE, TWO])
    assert subscription[ONE].position == 7
    assert [state.partition for state in subscription.without_position()] == [TWO]
    subscription.set_partitions([TWO])
    subscription.set_partitions([ONE])
    assert subscription[ONE].position is None


def test_the_state_of_an_unassigned_partition_is_an_error() -> None:
    with pytest.raises(IllegalStateError, match="t-0"):
        Subscription()[ONE]


def test_a_partition_without_a_position_or_paused_or_being_revoked_is_not_fetched() -> None:
    subscription = Subscription()
    subscription.assign([ONE])
    state = subscription[ONE]
    assert not state.fetchable
    state.jump(0)
    assert state.fetchable
    state.paused = True
    assert not state.fetchable
    state.paused, state.revoking = False, True
    assert not state.fetchable


def test_the_lag_of_a_read_committed_reader_counts_up_to_the_last_stable_offset() -> None:
    subscription = Subscription()
    subscription.assign([ONE])
    state = subscription[ONE]
    assert state.lag(read_committed=True) is None
    state.jump(5)
    state.high_watermark, state.last_stable_offset = 10, 8
    assert (state.lag(read_committed=False), state.lag(read_committed=True)) == (5, 3)
    state.jump(9)
    assert state.lag(read_committed=True) == 0


def test_chosen_returns_all_partitions_for_an_empty_list() -> None:
    subscription = Subscription()
    subscription.assign([ONE, TWO])
    assert [state.partition for state in subscription.chosen([])] == [ONE, TWO]
    assert [state.partition for state in subscription.chosen([TWO])] == [TWO]
