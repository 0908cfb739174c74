"""Addresses are read as Kafka's clients read them."""

from __future__ import annotations

import pytest

from oncelog_client.errors import ConfigError
from oncelog_client.settings import parse_bootstrap_servers


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
