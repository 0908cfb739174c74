"""Connects a command to the cluster. The clients' default timeouts are Kafka's, of up to a minute.
That is too long at a prompt, so `--give-up-after` replaces them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import click
from click.core import ParameterSource

from oncelog_client.admin import Admin
from oncelog_client.cli.failures import Failed, Missing
from oncelog_client.cli.missing_rights import name_missing_right
from oncelog_client.cli.options import DEFAULT_SERVER, parse_servers, read_properties, run
from oncelog_client.cli.output import note
from oncelog_client.connect_failures import ConnectCause, ConnectFailure
from oncelog_client.core.client_config import ClientConfig
from oncelog_client.errors import (
    AuthenticationError,
    AuthorizationError,
    KafkaError,
    RetriableError,
)
from oncelog_client.io.clock import monotonic_ms
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

WATCH_S: Final = 0.2
# A wait of this length needs an explanation.
NOTE_AFTER_S: Final = 1.0
NAMES_NOTHING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Client(Protocol):
    """The common methods of admin client, producer and consumer."""

    @property
    def config(self) -> ClientConfig: ...

    @property
    def outage(self) -> tuple[ConnectFailure, ...]: ...

    async def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Client)
T = TypeVar("T")


class NotConnected(Failed):
    """The command reached no broker that it can use. `found` says why, `advice` what to do. The
    advice may be empty."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}{advice}")
        self.found = found
        self.advice = advice.removeprefix(". ")


class Target(NamedTuple):
    """The cluster of a command line: addresses, client settings and timeout."""

    bootstrap_server: str
    settings: dict[str, Any]
    give_up_after: float


class ToolSettings(NamedTuple):
    """The client settings of a tool of Kafka that runs a command, as the object of click's context.
    They replace the file of `--command-config`."""

    settings: dict[str, Any]


def target() -> Target:
    """Return the connection options of the command line. An option may be given to the verb or to
    the command before the verb.

    An address on the command line overrides `bootstrap.servers` of the `--command-config` file. The
    file overrides the environment.
    """
    server, source = _given("bootstrap_server")
    path, _ = _given("command_config")
    timeout, _ = _given("give_up_after")
    of_tool = click.get_current_context().find_object(ToolSettings)
    settings = read_properties(path) if of_tool is None else dict(of_tool.settings)
    of_file = settings.pop("bootstrap_servers", None)
    if of_file is not None and source is not ParameterSource.COMMANDLINE:
        try:
            server = parse_servers(str(of_file))
        except ValueError as error:
            raise click.UsageError(f"--command-config {path}: bootstrap.servers: {error}") from None
    return Target(server, settings, timeout)


def timeout_when_lost() -> float:
    """Return the number of seconds that a long-running command waits for a broker after it has lost
    the connection. Unless `--give-up-after` is given, the wait has no limit, as in Kafka's console
    tools."""
    seconds, source = _given("give_up_after")
    return float(seconds) if source is ParameterSource.COMMANDLINE else math.inf


def _given(name: str) -> tuple[Any, ParameterSource | None]:
    """Return a parameter's value and the source of the value. A value on the command line comes
    first, from the innermost command that has one. Otherwise the innermost command with this
    parameter counts."""
    context: click.Context | None = click.get_current_context()
    fallback: tuple[Any, ParameterSource | None] | None = None
    while context is not None:
        if name in context.params:
            source = context.get_parameter_source(name)
            if source is ParameterSource.COMMANDLINE:
                return context.params[name], source
            fallback = fallback or (context.params[name], source)
        context = context.parent
    assert fallback is not None, f"the command has no {name}"
    return fallback


def ask(call: Callable[[Admin], Awaitable[T]]) -> T:
    """Return the result of a call on an admin client for the current command's target."""
    where = target()

    async def connect_and_call() -> T:
        async with connected_admin(*where) as admin:
            try:
                return await reported(admin, call(admin), where.give_up_after)
            except (KafkaError, Missing) as error:
                if isinstance(error, Missing) or error.code in NAMES_NOTHING:
                    from oncelog_client.cli.near_names import add_near_name

                    await add_near_name(admin, error)
                raise

    return run(connect_and_call())


async def reported(admin: Admin, work: Awaitable[T], give_up_after: float) -> T:
    """Return the result of `work`. If its calls are repeated for NOTE_AFTER_S, report the reason on
    standard error, and each new reason."""
    watching = asyncio.ensure_future(_report(admin, give_up_after))
    try:
        return await work
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _report(admin: Admin, give_up_after: float) -> None:
    reason = ""
    await asyncio.sleep(NOTE_AFTER_S)
    while True:
        error = admin.retried
        if error is not None and str(error) != reason:
            reason = str(error)
            note(f"{reason}; trying again for up to {give_up_after:g} s (--give-up-after)")
        await asyncio.sleep(WATCH_S)


@asynccontextmanager
async def connected(client: C, give_up_after: float, operation: str = "") -> AsyncIterator[C]:
    """Start `client`, and close it at the end of the block.

    Raises Failed with the cause if no broker is reached. The error comes at once if every address
    has refused, else after `give_up_after` seconds. An AuthorizationError of the block gets a
    message with the missing right: `operation`, or the operation in the error.
    """
    try:
        await client.start(timeout_ms=give_up_after * 1000, fail_fast=True)
    except RetriableError as error:
        found = _unreached(error, client.config, give_up_after)
        raise NotConnected(found, advice_for(_failures(error))) from error
    except AuthenticationError as error:
        raise NotConnected(error.message, advice_for(error.failures)) from error
    try:
        yield client
    except AuthorizationError as error:
        name_missing_right(error, client.config, operation)
        raise
    finally:
        await client.close()


async def watched(
    client: Client,
    work: Coroutine[Any, Any, None],
    give_up_after: float,
    stop: asyncio.Event | None = None,
) -> None:
    """Run `work`. Report on standard error when the last broker becomes unreachable, when a broker
    is reached again, and when brokers begin or cease to refuse records. `stop` cancels `work`
    without a failure.

    If no broker is reached for `give_up_after` seconds, cancels `work` and raises Failed.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_watch(client, give_up_after))
    stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
    tasks = (working, watching, stopping)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait({working}, timeout=WATCH_S)
            if watching.done():
                await watching
        elif not working.cancelled():
            await working
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(client: Client, give_up_after: float) -> None:
    """Report the connection as `watched` says. Raise Failed if no broker is reached for
    `give_up_after` seconds."""
    lost_ms: float | None = None
    is_refused = False
    while True:
        await asyncio.sleep(WATCH_S)
        refused = "; ".join(dict.fromkeys(map(str, getattr(client, "refusals", ()))))
        if refused and not is_refused:
            note(f"{refused}; trying again")
        elif is_refused and not refused:
            note("the brokers accept records again")
        is_refused = bool(refused)
        causes = "; ".join(dict.fromkeys(map(str, client.outage)))
        if not causes:
            if lost_ms is not None:
                note("connected again")
            lost_ms = None
        elif lost_ms is None:
            lost_ms = monotonic_ms()
            timeout = "" if math.isinf(give_up_after) else f" for {give_up_after:g} s"
            note(f"{causes}; trying again{timeout} (--give-up-after)")
        elif monotonic_ms() - lost_ms > give_up_after * 1000:
            raise Failed(f"{causes}; gave up after {give_up_after:g} s (--give-up-after)")


def connected_admin(
    bootstrap_server: str, settings: Mapping[str, Any], give_up_after: float
) -> AbstractAsyncContextManager[Admin]:
    """Return an admin client with `give_up_after` seconds for each call. A setting of the user
    overrides this limit."""
    own: Any = {"default_api_timeout_ms": max(round(give_up_after * 1000), 1), **settings}
    return connected(Admin(bootstrap_server, **own), give_up_after)


def unreachable(error: RetriableError, config: ClientConfig, give_up_after: float) -> str:
    """Return an error text: the reason why each address was not reached, and advice."""
    return _unreached(error, config, give_up_after) + advice_for(_failures(error))


def _unreached(error: RetriableError, config: ClientConfig, give_up_after: float) -> str:
    failures = _failures(error)
    if not failures:
        where = _addresses(config)
        return f"no response from {where} for {give_up_after:g} s: is a broker running there?"
    return "; ".join(dict.fromkeys(_sentence(failure, give_up_after) for failure in failures))


def _failures(error: RetriableError) -> tuple[ConnectFailure, ...]:
    return tuple(getattr(error, "failures", ()))


def _sentence(failure: ConnectFailure, give_up_after: float) -> str:
    if failure.cause in {ConnectCause.TIMED_OUT, ConnectCause.SILENT}:
        return f"{failure} within {give_up_after:g} s"
    return str(failure)


def advice_for(failures: Iterable[ConnectFailure]) -> str:
    """Return a sentence that says what to do, after a stop and a blank. It may be empty."""
    causes = {failure.cause for failure in failures}
    if causes == {ConnectCause.REFUSED}:
        local = all(failure.address[0] in LOOPBACK for failure in failures)
        start = ". Start a broker with `oncelog serve`, or name another with --bootstrap-server"
        return start if local else ". Is a broker running there?"
    if causes & {ConnectCause.HTTP, ConnectCause.SSH, ConnectCause.NOT_KAFKA}:
        return ". Is that the port of a broker? The default is 9092"
    return next((advice for cause, advice in _SECURITY_ADVICE.items() if cause in causes), "")


# The names of settings here are those of a file for --command-config.
_SECURITY_ADVICE: Final = {
    ConnectCause.TLS: (
        ". Set security.protocol to SSL or SASL_SSL in a file, and name it by --command-config"
    ),
    ConnectCause.NEEDS_SASL: (
        ". Set security.protocol to SASL_SSL or SASL_PLAINTEXT, and sasl.mechanism, in a file, and"
        " name it by --command-config"
    ),
    ConnectCause.UNTRUSTED: ". Name the certificates to trust by ssl.truststore.location",
    ConnectCause.NOT_VALID_NOW: (
        ". Renew the certificate of the broker or of its authority, or set the clock of this"
        " computer"
    ),
    ConnectCause.WRONG_HOST: (
        ". Use a host of its certificate; an empty ssl.endpoint.identification.algorithm accepts"
        " any host"
    ),
    ConnectCause.CERTIFICATE_REFUSED: (
        ". Name a certificate that the broker trusts by ssl.keystore.location"
    ),
    ConnectCause.PLAINTEXT: ". Set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
}


def _addresses(config: ClientConfig) -> str:
    return ", ".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in config.bootstrap_servers
    )


__all__ = ["DEFAULT_SERVER", "Target", "ask", "connected", "connected_admin", "target"]
