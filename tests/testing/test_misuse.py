"""A test that misuses the plugin gets an error with the name of the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.testing import Broker, Namespace


@pytest.mark.parametrize(
    ("misuse", "said"),
    [
        (lambda given: given.topic(None), "name is NoneType, not str"),
        (lambda given: given.id(5), "name is int, not str"),
        (lambda given: given.group(""), "name is empty"),
        (lambda given: given.topic("a", partitions="3"), "partitions is str, not int"),
        (lambda given: given.topic("a", configs=["x"]), "configs is list, not a dict"),
        (lambda given: given.topic("a").committed("1"), "count is str, not int"),
        (lambda given: given.topic("a").committed(1, timeout_s=None), "timeout_s is NoneType"),
        (lambda given: given.faults.fail("EndTxn", "NOT_COORDINATOR", times="2"), "times is str"),
        (lambda given: given.faults.fail("EndTxn", "NOT_COORDINATOR", topic=5), "topic is int"),
        (lambda given: given.faults.hold("EndTxn", client_id=5), "client_id is int, not str"),
        (lambda given: given.faults.delay_fsync("5"), "ms is str, not a number"),
        (lambda given: given.faults.disk_full(None), r"patterns\[0\] is NoneType, not str"),
        (lambda given: given.clock.advance(minutes="1"), "minutes is str, not a number"),
    ],
)
def test_the_error_names_the_argument(
    oncelog: Namespace, misuse: Callable[[Any], object], said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        misuse(oncelog)
    assert oncelog.topic("still-usable").committed() == []


@pytest.mark.parametrize("settings", ["num.partitions=3", ["num.partitions=3"]])
def test_settings_are_a_mapping(settings: Any) -> None:
    with pytest.raises(TypeError, match=r"settings is .*, not a dict"):
        Broker(settings)
