"""The lag of readers in histories that the tests construct."""

from __future__ import annotations

from tests.simulation.checking.history import Send
from tests.simulation.checking.lag import realtime_lag, unseen_over_time
from tests.simulation.checking.test_anomalies import Story, reads


def test_the_lag_of_a_reader_begins_when_a_newer_value_is_acknowledged() -> None:
    story = Story().does(Send("a", 1, 0))  # completes at 10
    story.does(reads(a=[(0, 1)]), process=1)
    story.does(Send("a", 2, 1))  # completes at 30
    story.does(reads(), process=1)  # begins at 35
    story.does(reads(), process=1)  # begins at 45
    assert realtime_lag(story.history) == {"a": 15}
    story.does(reads(a=[(1, 2)]), process=1)
    assert realtime_lag(story.history) == {"a": 15}


def test_a_reader_at_the_end_has_no_lag() -> None:
    story = Story().does(Send("a", 1, 0)).does(reads(a=[(0, 1)]), process=1)
    story.does(reads(), process=1)
    assert realtime_lag(story.history) == {"a": 0}


def test_acknowledged_values_count_as_unseen_until_a_poll_returns_them() -> None:
    story = Story().does(Send("a", 1, 0)).does(Send("a", 2, 1))
    story.does(reads(a=[(0, 1)]), process=1).does(reads(a=[(1, 2)]), process=1)
    assert unseen_over_time(story.history) == [(10, 1), (20, 2), (30, 1), (40, 0)]
