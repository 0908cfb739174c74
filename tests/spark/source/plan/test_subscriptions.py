"""Exactly one of three options selects the partitions to read."""

from __future__ import annotations

import pytest

from oncelog_client.spark.settings.options import OptionError, Options
from oncelog_client.spark.source.plan.subscriptions import SourceSubscription, read_subscription
from oncelog_client.values import TopicPartition

COUNTS = {"a": 2, "ab": 1, "b": 1}


def chosen(**options: str) -> list[str]:
    return sorted(map(str, read_subscription(Options(options)).chosen(COUNTS)))


def test_each_option_selects_existing_partitions() -> None:
    assert chosen(subscribe=" a , nowhere,") == ["a-0", "a-1"]
    assert chosen(subscribePattern="^a$") == ["a-0", "a-1"]
    assert chosen(subscribePattern="b") == ["ab-0", "b-0"], "a pattern matches any part of a name"
    assert chosen(assign='{"a":[1,7],"b":[0],"c":[0]}') == ["a-1", "b-0"]


def test_a_subscription_wants_only_its_topics() -> None:
    assert read_subscription(Options({"subscribePattern": "^a"})).wants("ab")
    assert not read_subscription(Options({"subscribePattern": "^a"})).wants("ba")
    assert not read_subscription(Options({"assign": '{"a":[1]}'})).wants("ab")


def test_the_named_topics_are_those_of_subscribe_and_assign() -> None:
    assert read_subscription(Options({"subscribe": "a,b"})).named == {"a", "b"}
    assert read_subscription(Options({"assign": '{"a":[1]}'})).named == {"a"}
    assert read_subscription(Options({"subscribePattern": "a.*"})).named == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of subscribe, subscribePattern, assign"),
        ({"subscribe": "a", "assign": '{"a":[1]}'}, "only one of subscribe,"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": ""}, "is needed"),
        ({"subscribePattern": "a("}, "is no pattern"),
        ({"subscribePattern": " "}, "is needed"),
        ({"assign": "a"}, "is no JSON"),
        ({"assign": '{"a":0}'}, "is no JSON"),
        ({"assign": '{"a":["0"]}'}, "is no JSON"),
        ({"assign": '{"a":[-1]}'}, "is no JSON"),
        ({"assign": '{"a":[true]}'}, "is no JSON"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": '{"a":[]}'}, "names no partition"),
    ],
)
def test_an_invalid_subscription_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_subscription(Options(options))


def test_a_subscription_is_shown_as_it_was_given() -> None:
    assert str(SourceSubscription(topics=frozenset("ba"))) == "a, b"
    assert str(SourceSubscription(pattern="a.*")) == "topics like a.*"
    assert str(SourceSubscription(partitions=frozenset({TopicPartition("a", 1)}))) == "a-1"
