"""The client parses addresses as Kafka's clients do, and refuses settings of a wrong type."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client import Producer
from oncelog_client.core.settings import parse_bootstrap_servers
from oncelog_client.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        ("a:1, b:2 ,", (("a", 1), ("b", 2))),
        (["a:1", "b:2"], (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
    ],
)
def test_addresses(given: str | list[str], read: tuple[tuple[str, int], ...]) -> None:
    assert parse_bootstrap_servers(given) == read


@pytest.mark.parametrize("given", ["", ",", "localhost", ":9092", "a:b", "a:0", "a:65536"])
def test_what_is_no_address_is_refused(given: str) -> None:
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
