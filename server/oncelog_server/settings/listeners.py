"""`listeners`, `advertised.listeners` and `listener.security.protocol.map`, as Kafka reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.settings.broker import BrokerSettings

# Brackets around the host are optional: like Kafka, the broker accepts an IPv6 address without
# them.
_LISTENER = re.compile(r"([^:/]+)://(?:\[([0-9a-zA-Z%._:\-]*)\]|([0-9a-zA-Z\-%._:]*?)):([0-9]+)")
INTER_BROKER_LISTENER_NAME: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
_PROTOCOL_MAP = "listener.security.protocol.map"
_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


class ListenerAddress(msgspec.Struct, frozen=True):
    """An address to listen on. An empty host stands for every address, port 0 for a free port.

    `advertised_host` is "" and `advertised_port` 0 if the bound host and port are advertised.
    """

    name: str
    host: str
    port: int
    advertised_host: str = ""
    advertised_port: int = 0
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a broker that one listener gives to its clients."""

    listener: str
    host: str
    port: int


class InvalidListeners(ValueError):
    """The listeners are invalid. `setting` is the name of the invalid setting."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting


class InvalidConnectionLimits(ValueError):
    """`max.connections.per.ip.overrides` is not a list of addresses and counts."""


def connection_limits(overrides: str) -> dict[str, int]:
    """Return the maximum number of connections by address, from `address:count,...`.

    Raises InvalidConnectionLimits.
    """
    limits: dict[str, int] = {}
    for entry in filter(None, map(str.strip, overrides.split(","))):
        address, _, limit = (part.strip() for part in entry.rpartition(":"))
        if not (address and limit.isascii() and limit.isdigit()):
            raise InvalidConnectionLimits(f"{entry!r} is not an address and a count, as in ::1:50")
        limits[address] = int(limit)
    return limits


def listeners_of(settings: BrokerSettings) -> tuple[ListenerAddress, ...]:
    """Return the listeners to open, in their order. Raises InvalidListeners.

    Listeners of a KRaft controller are left out. A listener without an advertised address
    advertises its bound address.
    """
    controllers = _controllers(settings)
    bound = _parse("listeners", settings.listeners)
    _reject_same_address(bound)
    advertised = {
        listener.name: listener
        for listener in _parse("advertised.listeners", settings.advertised_listeners or ())
        if listener.name not in controllers
    }
    _check_advertised(advertised, bound)
    protocols = _protocols(settings.listener_security_protocol_map)
    found = []
    for listener in bound:
        if listener.name in controllers:
            continue
        protocol = protocols.get(listener.name)
        if protocol is None:
            raise _without_protocol(settings, listener.name)
        listener = msgspec.structs.replace(listener, protocol=protocol)
        address = advertised.get(listener.name)
        if address is not None:
            listener = msgspec.structs.replace(
                listener, advertised_host=address.host, advertised_port=address.port
            )
        found.append(listener)
    if not found:
        raise InvalidListeners("listeners", "there is no listener for clients")
    inter_broker = settings.inter_broker_listener_name
    if inter_broker is not None:
        if inter_broker.upper() not in protocols:
            raise InvalidListeners(
                INTER_BROKER_LISTENER_NAME,
                f"Listener with name {inter_broker.upper()} defined in "
                f"{INTER_BROKER_LISTENER_NAME} not found in listener.security.protocol.map.",
            )
        _check_inter_broker(
            INTER_BROKER_LISTENER_NAME, inter_broker, list(advertised) or _names(found)
        )
    return tuple(found)


def client_listeners(settings: BrokerSettings) -> tuple[ListenerAddress, ...]:
    """Return the listeners, none if their settings are invalid. `contradictions` reports invalid
    ones."""
    try:
        return listeners_of(settings)
    except InvalidListeners:
        return ()


def check_inter_broker_protocol(settings: BrokerSettings) -> None:
    """Raise InvalidListeners for a security.inter.broker.protocol that a user has set, if no
    listener fits, or if `inter.broker.listener.name` is set too.

    The rules and their texts are those of Kafka 4.3
    (AbstractKafkaConfig.getInterBrokerListenerNameAndSecurityProtocol, KafkaConfig.validateValues).
    """
    if settings.inter_broker_listener_name is not None:
        raise InvalidListeners(
            INTER_BROKER_PROTOCOL,
            f"Only one of {INTER_BROKER_LISTENER_NAME} and {INTER_BROKER_PROTOCOL} should be set.",
        )
    advertised = [
        listener.name
        for listener in _parse("advertised.listeners", settings.advertised_listeners or ())
        if listener.name not in _controllers(settings)
    ]
    names = advertised or _names(listeners_of(settings))
    _check_inter_broker(INTER_BROKER_PROTOCOL, settings.security_inter_broker_protocol, names)


def _check_inter_broker(setting: str, name: str, advertised: Sequence[str]) -> None:
    """Raise InvalidListeners if the listener for other brokers is not advertised."""
    if name.upper() not in advertised:
        raise InvalidListeners(
            setting,
            f"no advertised listener has the name {name.upper()}, and "
            f"{INTER_BROKER_LISTENER_NAME} must be a listener name defined in "
            "advertised.listeners. The valid options based on currently configured listeners are "
            f"{','.join(advertised)}",
        )


def _names(listeners: Iterable[ListenerAddress]) -> list[str]:
    return [listener.name for listener in listeners]


def _controllers(settings: BrokerSettings) -> set[str]:
    return {name.upper() for name in settings.controller_listener_names}


def shares_an_address(host: str, other: str) -> bool:
    """Return True if two hosts to listen on overlap: they are equal, or either is every address."""
    return host == other or bool(_EVERY_ADDRESS & {host, other})


def inter_broker_listener(settings: BrokerSettings) -> str:
    """Return the name of the listener for other brokers.

    It is `inter.broker.listener.name`, else the listener with the name of
    `security.inter.broker.protocol` (KafkaConfig 4.3,
    getInterBrokerListenerNameAndSecurityProtocol). If neither is set and no listener has the name
    PLAINTEXT, it is the first listener.
    """
    names = _names(listeners_of(settings))
    name = (settings.inter_broker_listener_name or settings.security_inter_broker_protocol).upper()
    return name if name in names else names[0]


def advertised_endpoints(
    listeners: tuple[ListenerAddress, ...], bound_ports: Mapping[str, int], host_name: str
) -> tuple[Endpoint, ...]:
    """Return the addresses that clients get.

    `bound_ports` are the ports by listener name. `host_name` is the advertised host of a listener
    that is bound to every address and has no advertised host of its own.
    """
    endpoints = []
    for listener in listeners:
        host = listener.advertised_host or listener.host
        port = listener.advertised_port or bound_ports[listener.name]
        endpoints.append(
            Endpoint(listener.name, host_name if host in _EVERY_ADDRESS else host, port)
        )
    return tuple(endpoints)


def _parse(setting: str, texts: tuple[str, ...]) -> list[ListenerAddress]:
    listeners: list[ListenerAddress] = []
    for text in texts:
        match = _LISTENER.fullmatch(text)
        if match is None or int(match[4]) > 65535:
            raise InvalidListeners(setting, f"{text} is not of the form NAME://host:port")
        name = match[1].upper()
        if any(other.name == name for other in listeners):
            raise InvalidListeners(setting, f"each listener must have a different name: {name}")
        listeners.append(ListenerAddress(name, match[2] or match[3] or "", int(match[4])))
    return listeners


def _reject_same_address(listeners: list[ListenerAddress]) -> None:
    addresses = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(addresses)) < len(addresses):
        raise InvalidListeners("listeners", "each listener must have a different port")


def _check_advertised(
    advertised: Mapping[str, ListenerAddress], bound: list[ListenerAddress]
) -> None:
    names = {listener.name for listener in bound}
    for listener in advertised.values():
        if listener.name not in names:
            raise InvalidListeners("advertised.listeners", f"{listener.name} is not in listeners")
        if listener.host in ("0.0.0.0", "::"):
            raise InvalidListeners(
                "advertised.listeners",
                f"cannot use the nonroutable meta-address {listener.host}. Use a routable address.",
            )


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    protocols = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = entry.partition(":")
        try:
            protocols[name.strip().upper()] = SecurityProtocol(protocol.strip().upper())
        except ValueError:
            raise InvalidListeners(_PROTOCOL_MAP, f"{entry} names no security protocol") from None
    return protocols


def _without_protocol(settings: BrokerSettings, name: str) -> InvalidListeners:
    """Return the error for a listener without a security protocol. It names the setting that is not
    the default: `listeners`, or else the map, which leaves the default listener out."""
    message = f"No security protocol defined for listener {name}"
    if settings.listeners == BrokerSettings().listeners:
        return InvalidListeners(_PROTOCOL_MAP, message)
    return InvalidListeners("listeners", f"{message}: add it to {_PROTOCOL_MAP}")
