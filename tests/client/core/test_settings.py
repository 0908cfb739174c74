"""The client parses addresses as Kafka's clients do, and refuses settings of a wrong type."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client import Consumer, Producer
from oncelog_client.core.settings import parse_bootstrap_servers
from oncelog_client.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        ("a:1, b:2 ,", (("a", 1), ("b", 2))),
        (["a:1", "b:2"], (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
        ("PLAINTEXT://localhost:9092", (("localhost", 9092),)),
    ],
)
def test_addresses(given: str | list[str], read: tuple[tuple[str, int], ...]) -> None:
    assert parse_bootstrap_servers(given) == read


@pytest.mark.parametrize(
    "given",
    [
        *("", ",", "localhost", ":9092", "a:b", "a:0", "a:65536", "a:\uff19"),
        *(None, 9092, b"localhost:9092", ["a:1", None], ("localhost", 9092), []),
    ],
)
def test_what_is_no_address_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        parse_bootstrap_servers(given)


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("request_timeout_ms", "5", "request_timeout_ms='5' is not a whole number"),
        ("request_timeout_ms", 0.5, "request_timeout_ms=0.5 is not a whole number"),
        ("request_timeout_ms", None, "request_timeout_ms=None is not a whole number"),
        ("request_timeout_ms", True, "request_timeout_ms=True is not a whole number"),
        ("linger_ms", "soon", "linger_ms='soon' is not a number"),
        ("enable_idempotence", "false", "enable_idempotence='false' is not True or False"),
        ("transactional_id", 7, "transactional_id=7 is not a text"),
        ("client_id", b"x", "client_id=b'x' is not a text"),
        ("acks", [], r"acks=\[\] is not one of all, -1, 0, 1"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(setting: str, value: Any, text: str) -> None:
    """A former defect: the client raised TypeError, or gave the setting another meaning."""
    with pytest.raises(ConfigError, match=text):
        Producer("broker:9092", **{setting: value})


def test_a_float_that_is_a_whole_number_is_accepted() -> None:
    settings: Any = {"request_timeout_ms": 20e3}
    assert Producer("broker:9092", **settings).config.request_timeout_ms == 20_000


@pytest.mark.parametrize("setting", ["client_id", "client_rack", "group_id", "group_instance_id"])
def test_a_text_that_no_request_can_carry_is_refused(setting: str) -> None:
    group = {"group_id": "g"} if setting == "group_instance_id" else {}
    for value, said in (("\ud800", "cannot be encoded"), ("é" * 16_384, "has 32768 bytes")):
        settings: Any = {**group, setting: value}
        with pytest.raises(ConfigError, match=f"{setting} {said}"):
            Consumer("localhost:9092", **settings)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_'"),
        ("a" * 250, "is longer than the max allowed length 249"),
    ],
)
def test_the_name_of_a_static_member_is_checked_as_in_kafka(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match="Group instance id is invalid: ") as found:
        Consumer("localhost:9092", group_id="g", group_instance_id=name)
    assert reason in str(found.value)


def test_assignment_strategies_may_be_a_text_with_commas_as_in_kafka() -> None:
    text: Any = "range, roundrobin"
    consumer = Consumer("localhost:9092", partition_assignment_strategy=text)
    assert consumer.config.partition_assignment_strategy == ("range", "roundrobin")
    nothing: Any = None
    with pytest.raises(ConfigError, match="partition_assignment_strategy=None is not a list"):
        Consumer("localhost:9092", partition_assignment_strategy=nothing)
