"""The broker reads the settings of listeners as Kafka does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_server.config import Settings
from oncelog_server.settings.listeners import (
    Endpoint,
    InvalidListeners,
    ListenerAddress,
    advertised_endpoints,
    connection_limits,
    inter_broker_listener,
    listeners_of,
)

TWO = Settings(
    listeners=("internal://:9092", "EXTERNAL://0.0.0.0:9094", "CONTROLLER://:9093"),
    advertised_listeners=("EXTERNAL://broker.example:19094", "INTERNAL://kafka:9092"),
    controller_listener_names=("CONTROLLER",),
    listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
)


def test_several_names_and_no_controller() -> None:
    assert listeners_of(TWO) == (
        ListenerAddress("INTERNAL", "", 9092, "kafka", 9092),
        ListenerAddress("EXTERNAL", "0.0.0.0", 9094, "broker.example", 19094),
    )


def test_clients_get_the_advertised_address() -> None:
    assert advertised_endpoints(listeners_of(TWO), {"INTERNAL": 1, "EXTERNAL": 2}, "me") == (
        Endpoint("INTERNAL", "kafka", 9092),
        Endpoint("EXTERNAL", "broker.example", 19094),
    )


@pytest.mark.parametrize(
    ("listener", "endpoint"),
    [
        ("PLAINTEXT://:0", Endpoint("PLAINTEXT", "me", 40000)),
        ("PLAINTEXT://0.0.0.0:0", Endpoint("PLAINTEXT", "me", 40000)),
        ("PLAINTEXT://[::]:0", Endpoint("PLAINTEXT", "me", 40000)),
        ("PLAINTEXT://127.0.0.1:0", Endpoint("PLAINTEXT", "127.0.0.1", 40000)),
        ("PLAINTEXT://[::1]:0", Endpoint("PLAINTEXT", "::1", 40000)),
    ],
)
def test_without_an_advertised_address_the_bound_address_is_advertised(
    listener: str, endpoint: Endpoint
) -> None:
    listeners = listeners_of(Settings(listeners=(listener,)))
    assert advertised_endpoints(listeners, {"PLAINTEXT": 40000}, "me") == (endpoint,)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (Settings(listeners=("nonsense",)), "listeners"),
        (Settings(listeners=("PLAINTEXT://:70000",)), "listeners"),
        (Settings(listeners=("PLAINTEXT://[::1:9092",)), "listeners"),
        (Settings(listeners=("PLAINTEXT://::1]:9092",)), "listeners"),
        (Settings(listeners=()), "listeners"),
        (Settings(listeners=("PLAINTEXT://:1", "plaintext://:2")), "listeners"),
        (Settings(listeners=("A://:1",)), "listeners"),
        (Settings(listener_security_protocol_map="A:SSL"), "listener.security.protocol.map"),
        (
            Settings(listener_security_protocol_map="PLAINTEXT:TELEPATHY"),
            "listener.security.protocol.map",
        ),
        (Settings(advertised_listeners=("PLAINTEXT://0.0.0.0:9092",)), "advertised.listeners"),
        (Settings(advertised_listeners=("SSL://h:9092",)), "advertised.listeners"),
        (Settings(inter_broker_listener_name="OTHER"), "inter.broker.listener.name"),
        (
            Settings(
                listeners=("A://:1", "B://:1"),
                listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
            ),
            "listeners",
        ),
    ],
)
def test_invalid_listeners(settings: Settings, setting: str) -> None:
    with pytest.raises(InvalidListeners) as caught:
        listeners_of(settings)
    assert caught.value.setting == setting


def test_connection_limits_of_single_addresses() -> None:
    assert connection_limits("10.0.0.1:5, ::1 : 7, ,") == {"10.0.0.1": 5, "::1": 7}
    assert connection_limits(" ") == {}


@pytest.mark.parametrize(
    ("named", "listener"), [("external", "EXTERNAL"), ("INTERNAL", "INTERNAL")]
)
def test_other_brokers_use_the_named_listener(named: str, listener: str) -> None:
    settings = replace(TWO, inter_broker_listener_name=named)
    assert inter_broker_listener(settings) == listener


def test_other_brokers_use_the_first_listener_by_default() -> None:
    assert inter_broker_listener(TWO) == "INTERNAL"


def test_other_brokers_use_the_plaintext_listener_if_none_is_named() -> None:
    settings = Settings(
        listeners=("CLIENTS://:9094", "PLAINTEXT://:9092"),
        listener_security_protocol_map="CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )
    assert inter_broker_listener(settings) == "PLAINTEXT"
