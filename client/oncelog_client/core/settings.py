"""Rules that settings of producer, consumer and admin client share: addresses, ranges, names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from oncelog_client.connect_failures import Address
from oncelog_client.errors import ConfigError
from oncelog_protocol.secret import Secret, displayed
from oncelog_protocol.types import MAX_STRING

from .security_settings import is_security

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


def parse_bootstrap_servers(servers: str | Iterable[str]) -> tuple[Address, ...]:
    """Return `"host:port,[::1]:port"`, or a sequence of such texts, as (host, port) pairs. An
    address may begin with a protocol, such as `PLAINTEXT://`, which is ignored as in Kafka.

    Raises ConfigError for an empty list, an address without a valid port, or another type.
    """
    parts = texts_of("bootstrap_servers", servers)
    addresses = tuple(_parse_address(part.strip()) for part in parts if part.strip())
    if not addresses:
        raise ConfigError("bootstrap_servers is empty")
    return addresses


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    is_number = port.isascii() and port.isdecimal()
    if not colon or not host or not is_number or not 0 < int(port) < 65536:
        raise ConfigError(
            f"bootstrap_servers: {displayed('bootstrap_servers', text)} is not host:port"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def texts_of(name: str, value: object) -> list[str]:
    """Return the texts of a setting that is a list of texts, or as in Kafka a text with commas.
    Raises ConfigError for another type."""
    texts = value.split(",") if isinstance(value, str) else value
    found: list[Any] = [*texts] if isinstance(texts, Iterable) else [texts]
    if not all(isinstance(text, str) for text in found):
        raise ConfigError(f"{name}={displayed(name, value)} is not a list of texts")
    return found


def check_identifiers(values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise ConfigError for a text that is too long for a request, or has no encoding."""
    for name in names:
        value = values[name]
        if value is None:
            continue
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise ConfigError(f"{name} cannot be encoded: {error}") from None
        if size > MAX_STRING:
            raise ConfigError(f"{name} has {size} bytes, and at most {MAX_STRING} are possible")


def refuse_unknown(settings: Iterable[str], known: Iterable[str]) -> None:
    """Raise ConfigError for an unknown setting, with the most similar name. The error does not
    contain the value, because a misspelled name may have a secret as its value.
    """
    names = sorted(known)
    for name in settings:
        if name not in names:
            plain = name.replace(".", "_").lower()
            if is_security(name):
                from .security_config import unsupported_reason

                if reason := unsupported_reason(plain):
                    raise ConfigError(f"{name} is not supported: {reason}")
            from difflib import get_close_matches

            near = get_close_matches(plain, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"there is no setting {name!r}{hint}")


def check_types(values: dict[str, Any], types: Mapping[str, Any]) -> None:
    """Raise ConfigError if a value does not have the type of its setting.

    `types` are the annotations as text. For an int, the text "5" and the number 0.5 are refused. A
    whole float such as 20e3 becomes an int in `values`.
    """
    for name, kind in types.items():
        value = values[name]
        wanted = _TYPES.get(str(kind))
        if wanted is None:
            continue
        allowed, called = wanted
        if isinstance(value, float) and float not in allowed and value.is_integer():
            value = values[name] = int(value)
        # True is an int in Python, but not a number here.
        is_misplaced_bool = isinstance(value, bool) and bool not in allowed
        if is_misplaced_bool or not isinstance(value, allowed):
            raise ConfigError(f"{name}={displayed(name, value)} is not {called}")


_TYPES: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "int": ((int,), "a whole number"),
    "int | None": ((int, type(None)), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "True or False"),
    "str": ((str,), "a text"),
    "str | None": ((str, type(None)), "a text"),
    "Secret | None": ((str, Secret, type(None)), "a text"),
    "tuple[str, ...] | None": ((str, list, tuple, type(None)), "a list of texts"),
}


def check_ranges(values: Mapping[str, Any], limits: Mapping[str, tuple[float, float]]) -> None:
    """Raise ConfigError for a number outside Kafka's limits. The limits themselves are allowed."""
    for name, (least, most) in limits.items():
        value = values[name]
        if value is not None and not least <= value <= most:
            raise ConfigError(f"{name}={value} is not between {least} and {most}")


def check_choices(values: Mapping[str, Any], choices: Mapping[str, Sequence[Any]]) -> None:
    """Raise ConfigError for a value that is not among the setting's `choices`."""
    for name, allowed in choices.items():
        if values[name] not in allowed:
            known = ", ".join(str(choice) for choice in allowed)
            raise ConfigError(f"{name}={values[name]!r} is not one of {known}")
