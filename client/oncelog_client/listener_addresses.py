"""The addresses of a broker's listeners: from a text, or from the environment and the
server.properties of a broker on this computer."""

from __future__ import annotations

# `oncelog health` runs every few seconds, and the import of `typing` takes a tenth of its time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

DEFAULT: Final = "localhost:9092"
_PREFIXES: Final = ("ONCELOG_", "KAFKA_CFG_", "KAFKA_")
_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")


class Address:
    """A listener. `tls` is None if it is not known whether the listener has TLS."""

    __slots__ = ("host", "port", "tls")

    def __init__(self, host: str, port: int, tls: bool | None = None) -> None:
        self.host = host
        self.port = port
        self.tls = tls

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    """Return the addresses of `host:port,PROTOCOL://host:port`. Raises ValueError, with the address
    that is wrong."""
    found = []
    for part in text.split(","):
        protocol, _, address = part.strip().rpartition("://")
        host, _, port = address.rpartition(":")
        if protocol not in ("", *_PROTOCOLS) or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise ValueError(f"{part.strip()!r} is not host:port or PROTOCOL://host:port")
        tls = protocol.endswith("SSL") if protocol else None
        found.append(Address(_reachable(host), int(port), tls))
    return found


def listeners(environment: Mapping[str, str], lines: Iterable[str] = ()) -> list[Address]:
    """Return the listeners of a broker on this computer, from its variables and from the lines of
    its server.properties, without the listeners of controllers. A variable overrides a line."""
    pairs = [line.partition("=") for line in lines if not line.lstrip().startswith(("#", "!"))]
    of_file = {name.strip(): value.strip() for name, _, value in pairs}

    def setting(name: str) -> str:
        variable = name.upper().replace(".", "_")
        texts = (environment.get(prefix + variable) for prefix in _PREFIXES)
        return next(filter(None, texts), "") or of_file.get(name, "")

    protocols = dict(
        pair.strip().split(":", 1)
        for pair in setting("listener.security.protocol.map").split(",")
        if ":" in pair
    )
    controllers = setting("controller.listener.names").split(",")
    addresses = []
    for listener in (_of_advertised(environment) or setting("listeners")).split(","):
        name, _, address = listener.strip().rpartition("://")
        host, _, port = address.rpartition(":")
        if name in controllers or "CONTROLLER" in name.upper() or not port.isdecimal():
            continue
        protocol = protocols.get(name, name).upper()
        addresses.append(Address(_reachable(host), int(port), protocol.endswith("SSL")))
    return addresses


def _of_advertised(environment: Mapping[str, str]) -> str:
    """Return the listeners that the image's entrypoint derives from KAFKA_ADVERTISED_LISTENERS, or
    an empty text if it derives no listeners. A health check runs beside the broker's process,
    without its variables."""
    advertised = environment.get("KAFKA_ADVERTISED_LISTENERS", "")
    is_set = any(environment.get(f"{prefix}LISTENERS") for prefix in _PREFIXES)
    if is_set or not any(sign in advertised for sign in (",", "SSL://", "SASL_")):
        return ""
    parts = (part.strip() for part in advertised.split(","))
    return ",".join(f"{part.partition('://')[0]}://:{part.rpartition(':')[2]}" for part in parts)


def _reachable(host: str) -> str:
    host = host.strip("[]")
    return "localhost" if host in _EVERY_ADDRESS else host
