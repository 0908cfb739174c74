"""A wrong argument is refused before it changes anything. The error names the argument."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client.core import arguments
from oncelog_client.values import OffsetAndMetadata, TopicPartition

PLACE = TopicPartition("orders", 0)


class Index:
    """An integer of another library, such as numpy."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ("orders", TypeError, r"names is a text: pass a list, \['orders'\]"),
        (None, TypeError, "names is NoneType, not a list of texts"),
        (b"orders", TypeError, r"names\[0\] is int, not str"),
        (["a", None], TypeError, r"names\[1\] is NoneType, not str"),
        (["\ud800"], ValueError, r"names\[0\] cannot be encoded"),
    ],
)
def test_names(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        arguments.texts("names", given)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (PLACE, TypeError, "partitions is a single partition: pass a list"),
        ("orders", TypeError, "partitions is str, not a list"),
        (None, TypeError, "partitions is NoneType, not a list"),
        (["orders"], TypeError, "'orders' is str, not TopicPartition"),
        ([[PLACE]], TypeError, "is list, not TopicPartition"),
        ([("orders",)], TypeError, "is not TopicPartition"),
        ([("orders", "0")], TypeError, "the partition of orders is str, not int"),
        ([("orders", True)], TypeError, "the partition of orders is bool, not int"),
        ([("orders", -1)], ValueError, "orders has no partition -1"),
        ([("", 0)], ValueError, "the topic of a partition is empty"),
        ([(None, 0)], TypeError, "topic is NoneType, not str"),
    ],
)
def test_partitions(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        arguments.topic_partitions("partitions", given)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (None, TypeError, "offsets is NoneType, not a dict"),
        ([PLACE], TypeError, "offsets is list, not a dict"),
        ({"orders": 5}, TypeError, "'orders' is str, not TopicPartition"),
        ({PLACE: None}, TypeError, "the offset of orders-0 is NoneType, not int"),
        ({PLACE: "5"}, TypeError, "the offset of orders-0 is str, not int"),
        ({PLACE: 5.0}, TypeError, "the offset of orders-0 is float, not int"),
        ({PLACE: OffsetAndMetadata(-1)}, ValueError, "orders-0 has no offset -1"),
        ({PLACE: 1 << 63}, ValueError, "orders-0 has no offset 9223372036854775808"),
        ({PLACE: OffsetAndMetadata(5, "\ud800")}, ValueError, "the metadata of orders-0 cannot"),
    ],
)
def test_offsets(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        arguments.offsets_to_commit(given)


def test_pairs_plain_offsets_and_other_integers_are_accepted() -> None:
    number: Any = Index()
    pair: Any = ("orders", number)
    assert arguments.topic_partitions("partitions", [pair]) == [TopicPartition("orders", 7)]
    assert arguments.offsets_to_commit({pair: number}) == {
        TopicPartition("orders", 7): OffsetAndMetadata(7)
    }


@pytest.mark.parametrize("given", [None, "5", True])
def test_a_time_is_a_number(given: Any) -> None:
    with pytest.raises(TypeError, match="timeout_ms is"):
        arguments.number("timeout_ms", given)
    with pytest.raises(ValueError, match="timeout_ms is nan"):
        arguments.number("timeout_ms", float("nan"))
