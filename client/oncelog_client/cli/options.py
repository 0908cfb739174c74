"""What most commands share: where the cluster is, settings from a file, and how a call is run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from oncelog_client.errors import KafkaError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SERVER: Final = "localhost:9092"
GIVE_UP_AFTER_S: Final = 10.0

# Names in a --command-config file that need no setting here: what they ask for is what there is.
_GIVEN: Final = {"security.protocol": "PLAINTEXT"}


def connection_options(command: F) -> F:
    """Add `--bootstrap-server`, `--command-config` and `--give-up-after`.

    Not `--timeout`: in Kafka's tools that is a number of milliseconds, and for the console producer
    linger.ms.
    """
    command = click.option(
        "--give-up-after",
        type=click.FloatRange(min=0, min_open=True),
        default=GIVE_UP_AFTER_S,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for a broker, or for what does not exist.",
    )(command)
    command = click.option(
        "--command-config",
        "command_config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file of client settings, as name=value under Kafka's names.",
    )(command)
    return click.option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "bootstrap_server",
        default=DEFAULT_SERVER,
        envvar="ONCELOG_BOOTSTRAP_SERVER",
        show_default=True,
        show_envvar=True,
        help="host:port of one or more brokers, separated by commas.",
    )(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON, for scripts.")(command)


def read_properties(path: Path | None) -> dict[str, Any]:
    """Client settings of a properties file, under the names of this client.

    Raises click.UsageError for a line without `=` and for a security protocol we do not have.
    """
    if path is None:
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return parse_settings(line for line in lines if line.strip() and line.strip()[0] not in "#!")


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """`name=value` pairs under Kafka's names as settings of this client; numbers are numbers."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, value = split_pair(pair)
        if _GIVEN.get(name) == value:
            continue
        settings[name.replace(".", "_")] = _typed(value)
    return settings


def split_pair(pair: str) -> tuple[str, str]:
    """`name=value` as (name, value); raises click.UsageError where there is no `=`."""
    name, equals, value = pair.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{pair!r} is not name=value")
    return name.strip(), value.strip()


def _typed(value: str) -> str | int | bool:
    if value.lower() in {"true", "false"}:
        return value.lower() == "true"
    return int(value) if value.lstrip("-").isdecimal() else value


def run(call: Coroutine[Any, Any, T]) -> T:
    """Run one call to its end; the client's errors become one line and exit code 1."""
    import asyncio

    try:
        return asyncio.run(call)
    except KafkaError as error:
        raise click.ClickException(str(error)) from error


def run_until_stopped(call: Coroutine[Any, Any, None]) -> None:
    """Run a call that may have no end of its own: SIGINT and SIGTERM end it in good order, which
    is no failure."""
    import asyncio

    async def until_stopped() -> None:
        task = asyncio.ensure_future(call)
        for one in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(one, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    run(until_stopped())


def exactly_one(**chosen: object) -> str:
    """The one flag that is given; raises click.UsageError for none or several."""
    given = [name for name, value in chosen.items() if value]
    if len(given) != 1:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise click.UsageError(f"exactly one of {flags} is needed")
    return given[0]
