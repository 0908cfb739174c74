"""Options of most commands: the cluster, settings from a file, and how a call runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from oncelog_client.cli.names import FILE, SecondsType
from oncelog_client.cli.output import output_option
from oncelog_client.cli.quantities import parse_duration_ms
from oncelog_client.core.security_settings import is_security

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "connection_options",
    "dotted",
    "exactly_one",
    "former_name",
    "output_option",
    "parse_servers",
    "parse_settings",
    "read_properties",
    "run",
    "split_config",
    "split_pair",
    "typed_settings",
]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PORT: Final = 9092
DEFAULT_SERVER: Final = f"localhost:{DEFAULT_PORT}"
GIVE_UP_AFTER_S: Final = 10.0
LONGEST_WAIT_S: Final = 1_000_000.0
LONGEST_LABEL: Final = 63
LONGEST_HOST: Final = 253


def connection_options(command: F) -> F:
    """Add `--bootstrap-server`, `--command-config` and `--give-up-after`.

    `--give-up-after` is not called `--timeout`, because `--timeout` of Kafka's tools is a number of
    milliseconds, and in the console producer it is linger.ms.
    """
    command = click.option(
        "--give-up-after",
        type=SecondsType(LONGEST_WAIT_S),
        default=GIVE_UP_AFTER_S,
        metavar="SECONDS",
        help=f"How long to wait for a response.  [default: {GIVE_UP_AFTER_S:g}]",
    )(command)
    command = click.option(
        "--command-config",
        "command_config",
        type=FILE,
        metavar="FILE",
        help="File of client settings, name=value.",
    )(command)
    return click.option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "bootstrap_server",
        default=DEFAULT_SERVER,
        envvar="ONCELOG_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,…",
        callback=_servers,
        help=f"Also $ONCELOG_BOOTSTRAP_SERVER.  [{DEFAULT_SERVER}]",
    )(command)


def _servers(context: click.Context, option: click.Parameter, value: str) -> str:
    try:
        return parse_servers(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


def former_name(option: str, parameter: str, **attributes: Any) -> Callable[[F], F]:
    """Accept `option` as an older name of the parameter's option. `--help` and completion do not
    show it."""
    return click.option(option, parameter, hidden=True, **attributes)


def parse_servers(text: str) -> str:
    """Return `host:port,host:port` for addresses. The default port is 9092. A protocol before an
    address, such as `PLAINTEXT://`, is ignored as in Kafka.

    Raises ValueError for an empty list and for an invalid address.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError("no address; give host:port")
    return ",".join(_server(part.rpartition("://")[2]) for part in parts)


def _server(text: str) -> str:
    host, port = text, str(DEFAULT_PORT)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not [address]:port")
        port = rest[1:] if rest else port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    elif ":" in text:
        raise ValueError(f"{text!r} is not host:port; an IPv6 address stands in brackets")
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65_536):
        raise ValueError(f"{text!r}: the port is not between 1 and 65535")
    labels = host.removesuffix(".").split(".")
    if not all(0 < len(label) <= LONGEST_LABEL for label in labels) or len(host) > LONGEST_HOST:
        raise ValueError(f"{text[:80]!r}: not the name of a host")
    if not host.isprintable() or " " in host or "/" in host:
        raise ValueError(f"{text!r}: not the name of a host")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_properties(path: Path | None) -> dict[str, Any]:
    """Return the client settings of a properties file, under the names of this client.

    Raises click.UsageError for a line without a value, an unknown setting, a value of the wrong
    type, a setting that is not supported, and a file that is not text in UTF-8.
    """
    if path is None:
        return {}
    from oncelog_client.cli.properties_file import PropertiesError, parse_properties

    try:
        return typed_settings(parse_properties(path.read_text(encoding="utf-8-sig")))
    except UnicodeDecodeError as error:
        reason = f"not text in UTF-8 (byte {error.start})"
    except PropertiesError as error:
        reason = str(error)
    except click.UsageError as error:
        reason = error.message
    raise click.UsageError(f"--command-config {path}: {reason}")


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse `name=value` pairs with Kafka's names, as `typed_settings` does. Raises
    click.UsageError also for a pair without `=`."""
    return typed_settings(map(_pair, pairs))


def typed_settings(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the settings of this client for pairs with Kafka's names, each with a value of its
    type. Settings of Kafka's clients that only concern the Java runtime are left out.

    Raises click.UsageError for an unknown setting, a value of the wrong type, and a setting that is
    not supported.
    """
    types = setting_types()
    settings: dict[str, Any] = {}
    for name, value in pairs:
        setting = name.replace(".", "_")
        if setting not in types:
            if not (is_security(name) and _is_ignored(name, value)):
                raise click.UsageError(f"there is no setting {name!r}{_near_setting(name, types)}")
            continue
        kind = types[setting]
        # Kafka strips the blanks around a value, except around a secret.
        settings[setting] = value if "Secret" in kind else _typed(name, value.strip(), kind)
    return settings


def _is_ignored(name: str, value: str) -> bool:
    """Return True if a setting of TLS or SASL has no effect on this client. Raises click.UsageError
    if this client does not support it."""
    from oncelog_client.core.security_config import has_no_effect, unsupported_reason

    if has_no_effect(name, value):
        return True
    if reason := unsupported_reason(name):
        raise click.UsageError(f"{name} is not supported: {reason}")
    return False


def _near_setting(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` or an empty string. The suggestion has dots, unless the user typed
    underscores."""
    from difflib import get_close_matches

    near = get_close_matches(name.replace(".", "_").lower(), list(known), n=1)
    if not near:
        return ""
    return f"; did you mean {near[0] if '_' in name else near[0].replace('_', '.')}?"


def setting_types() -> dict[str, str]:
    """Return the settings of all clients that a text can give: name -> type, as annotated."""
    from oncelog_client.core.client_config import AdminSettings
    from oncelog_client.core.consumer_config import ConsumerSettings
    from oncelog_client.core.producer_config import ProducerSettings

    return {"bootstrap_servers": "str"} | {
        name: kind
        for settings in (AdminSettings, ProducerSettings, ConsumerSettings)
        for name, hint in settings.__annotations__.items()
        # A text cannot be a function.
        if not (kind := getattr(hint, "__forward_arg__", str(hint))).startswith("Callable")
    }


def dotted(message: str) -> str:
    """Return an error of a client with Kafka's names of the settings: `batch.size` for
    `batch_size`."""
    known = setting_types()

    def kafka_name(match: re.Match[str]) -> str:
        name = match.group()
        return name.replace("_", ".") if name in known else name

    return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", kafka_name, message)


def split_pair(pair: str) -> tuple[str, str]:
    """Return `name=value` as (name, value). Raises click.UsageError without `=`."""
    name, value = _pair(pair)
    return name, value.strip()


def _pair(pair: str) -> tuple[str, str]:
    """Return `name=value` as (name, value). The value keeps its blanks, because it may be a
    password. Raises click.UsageError without `=`."""
    name, equals, value = pair.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{_hidden(pair)!r} is not name=value")
    return name.strip(), value


def split_config(pair: str) -> tuple[str, str]:
    """Return `name=value` of a topic or a broker as (name, value).

    Raises click.UsageError without `=`, and for a duration with a unit if the setting is in
    milliseconds.
    """
    name, value = split_pair(pair)
    duration_ms = parse_duration_ms(value) if name.endswith(".ms") else None
    if duration_ms is not None:
        raise click.UsageError(
            f"{name}={value}: not a number of milliseconds; {value} is {duration_ms}"
        )
    return name, value


def _hidden(pair: str) -> str:
    """Return at most the first 20 characters of a line without `=`, for a message. The line may be
    a secret."""
    return pair if len(pair) <= 20 else f"{pair[:20]}…"


def _typed(name: str, value: str, kind: str) -> Any:
    """Convert the value to `kind`. Raises click.UsageError for an invalid value."""
    if kind.startswith("Sequence"):
        return [part.strip() for part in value.split(",") if part.strip()]
    if kind == "bool":
        if value.lower() not in {"true", "false"}:
            raise click.UsageError(f"{name}={value}: not true or false")
        return value.lower() == "true"
    try:
        if kind.startswith("int"):
            return int(value)
        if kind == "float":
            return float(value)
    except ValueError:
        number = "number" if kind == "float" else "whole number"
        raise click.UsageError(f"{name}={value}: not a {number}") from None
    return value


def run(call: Coroutine[Any, Any, T]) -> T:
    """Run `call` and return its result. The client's errors pass through, and failures.py prints
    them."""
    import asyncio
    import logging

    # The commands themselves report the important warnings of the client.
    for name in ("oncelog_client", "asyncio"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    return asyncio.run(call)


def exactly_one(**chosen: object) -> str:
    """Return the name of the only flag with a value. Raises click.UsageError if no flag or several
    flags have a value."""
    given = [name for name, value in chosen.items() if value]
    if len(given) != 1:
        raise click.UsageError(f"exactly one of {_flags(list(chosen))} is needed")
    return given[0]


def _flags(names: Sequence[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
