"""The settings of etcd: the URLs of its members are those of etcd's own clients."""

from __future__ import annotations

import pytest

from oncelog_server.config import SettingsError, load_settings
from oncelog_server.settings.etcd_addresses import EtcdAddress, parse_addresses, valid_addresses


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://etcd-1:2379", EtcdAddress("etcd-1", 2379, False)),
        (" https://10.0.0.1:2379/ ", EtcdAddress("10.0.0.1", 2379, True)),
        ("http://[::1]:2379", EtcdAddress("::1", 2379, False)),
    ],
)
def test_a_url_is_an_address(url: str, address: EtcdAddress) -> None:
    assert parse_addresses([url]) == (address,)
    assert parse_addresses([str(address)]) == (address,)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "etcd:2379",
        "http://etcd",
        "http://etcd:0",
        "http://etcd:65536",
        "http://a:1/v3",
        "ftp://a:1",
    ],
)
def test_any_other_text_is_refused_with_the_form(url: str) -> None:
    assert valid_addresses([url]) == f"{url!r} is not http://host:port or https://host:port"


def test_an_address_occurs_once() -> None:
    reason = valid_addresses(["http://a:1", "http://b:1", "http://a:1/"])
    assert reason == "http://a:1 occurs twice"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("oncelog.etcd.endpoints", "etcd:2379", "is not http://host:port"),
        ("oncelog.etcd.prefix", "/payments", "ends with /"),
        ("oncelog.etcd.prefix", "/", "at least one character"),
        ("oncelog.etcd.username", "broker", "set both or neither"),
        ("oncelog.etcd.password", "secret", "set both or neither"),
    ],
)
def test_a_wrong_setting_of_etcd_stops_the_start(name: str, value: str, reason: str) -> None:
    """`oncelog_server.settings.etcd` has the table."""
    with pytest.raises(SettingsError) as caught:
        load_settings(assignments=[f"{name}={value}"])
    (problem,) = map(str, caught.value.problems)
    assert reason in problem
