"""Rules that settings of producer, consumer and admin client share: addresses, ranges, names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from .connect_failures import Address
from .errors import ConfigError

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


def parse_bootstrap_servers(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """`"host:port,[::1]:port"` or a sequence of such, as (host, port) pairs.

    Raises ConfigError for an empty list or an address without a valid port.
    """
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = tuple(_parse_address(part.strip()) for part in parts if part.strip())
    if not addresses:
        raise ConfigError("bootstrap_servers is empty")
    return addresses


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap_servers: {text!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def refuse_unknown(settings: Iterable[str], known: Iterable[str]) -> None:
    """Raise ConfigError for a setting that does not exist, naming the nearest one that does."""
    names = sorted(known)
    for name in settings:
        if name not in names:
            near = get_close_matches(name.replace(".", "_"), names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"there is no setting {name!r}{hint}")


def check_ranges(values: Mapping[str, Any], limits: Mapping[str, tuple[float, float]]) -> None:
    """Raise ConfigError for a number outside the limits (both ends allowed) Kafka sets for it."""
    for name, (least, most) in limits.items():
        value = values[name]
        if value is not None and not least <= value <= most:
            raise ConfigError(f"{name}={value} is not between {least} and {most}")


def check_choices(values: Mapping[str, Any], choices: Mapping[str, Sequence[Any]]) -> None:
    """Raise ConfigError for a value that is none of those the setting knows."""
    for name, allowed in choices.items():
        if values[name] not in allowed:
            known = ", ".join(str(choice) for choice in allowed)
            raise ConfigError(f"{name}={values[name]!r} is none of {known}")
