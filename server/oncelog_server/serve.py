"""`oncelog serve`: a broker in this process, from its settings to a clean stop."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from oncelog_protocol import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from oncelog_server.broker import Broker
    from oncelog_server.config import Settings
    from oncelog_server.faults.control import FaultControl
    from oncelog_server.faults.faults import Faults
    from oncelog_server.metadata.store_wait import StoreWait

    # Called when the broker serves. Returns the reason why the broker must stop at once, or "".
    Announce = Callable[[Broker], Awaitable[str]]

DEFAULT_HOST: Final = "localhost"
ENDED_BY_FORCE: Final = 130
SAME_MOMENT_S: Final = 0.1
# Variables that are no settings. The package `faults` reads them.
FAULT_VARIABLES: Final = ("ONCELOG_FAIL_AT", "ONCELOG_SYNC_DELAY_MS", "ONCELOG_FULL_FOR")
# The lines that Kafka logs at the end of a start, of KRaft and of ZooKeeper. Programs such as
# testcontainers wait for one of them.
KAFKA_LOG_LINES: Final = """\
[BrokerLifecycleManager id={id}] Transitioning from RECOVERY to RUNNING
[KafkaRaftServer nodeId={id}] Kafka Server started
[KafkaServer id={id}] started"""


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 picks a free one.  [9092]")
@click.option("--data", type=click.Path(file_okay=False), help="Data folder.  [./oncelog-data]")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties with Kafka's names.",
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One setting.")
@click.option(
    "--brokers",
    type=click.IntRange(1),
    metavar="N",
    help="Brokers to run as one cluster.  [1]",
)
@click.option("--debug", is_flag=True, help="Log more.")
@click.option("--allow-faults", is_flag=True, hidden=True, help="Let tests inject faults.")
@click.option("--member", type=int, hidden=True, help="Be this one of several brokers.")
@click.option("--parent-link", type=int, hidden=True, help="A descriptor: stop at its end.")
def serve(
    port: int | None,
    data: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    brokers: int | None,
    debug: bool,
    allow_faults: bool,
    member: int | None,
    parent_link: int | None,
) -> None:
    """Run a broker. Nothing has to be configured.

    Settings have Kafka's names and come from --config, from KAFKA_* and ONCELOG_* of the
    environment, and from --set. A later source overrides an earlier source. The first signal to
    stop ends the broker cleanly, a second signal at once.
    """
    sys.exit(
        run_process(
            {
                "config_file": config,
                "environment": os.environ,
                "assignments": assignments,
                "port": port,
                "data": data,
                "brokers": brokers,
            },
            debug=debug,
            allow_faults=allow_faults,
            member=member,
            parent_link=parent_link,
        )
    )


def run_process(
    sources: Mapping[str, Any],
    *,
    debug: bool = False,
    allow_faults: bool = False,
    announce: Announce | None = None,
    member: int | None = None,
    parent_link: int | None = None,
) -> int:
    """Run a broker in this process until a signal stops it. Return the exit code.

    `sources` are the arguments of `load_settings`. `announce` is called once the broker serves; by
    default it prints a line with the address and the data directory. With several brokers
    (`oncelog.brokers`), run a process for each instead. `member` is then the number of the broker
    in such a process. `parent_link` is the descriptor of a link to the process that has started
    this one, and this one stops when that one ends.
    """
    # A start makes no garbage: collections would take a twentieth of its time.
    gc.disable()
    _keep_rich_out()
    _import_msgspec()
    from oncelog_server.config import SettingsError, load_settings
    from oncelog_server.observe.logs import configure_logs
    from oncelog_server.settings.machine import member_settings

    configure_logs(debug=debug)
    _take_all_descriptors()
    try:
        loaded = load_settings(**sources)
    except SettingsError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        return 2
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if loaded.without_effect:
        names = ", ".join(loaded.without_effect)
        click.echo(f"accepted without effect: {names}", err=True)
    settings = loaded.settings
    if settings.oncelog_brokers > 1:
        if announce is not None:
            click.echo("oncelog.brokers: only `oncelog serve` runs several brokers", err=True)
            return 2
        if member is None:
            from oncelog_server.processes.broker_processes import command_line, run_brokers

            own = command_line(sources, debug=debug, allow_faults=allow_faults)
            return run_brokers(settings.oncelog_brokers, own, parent_link)
        settings = member_settings(settings, member)
    settings = leave_room_for_files(settings)
    try:
        return _run(settings, _faults(allow_faults), announce or _announce, parent_link)
    except Exception:
        # A defect. The traceback is in the log, not on the command line.
        import structlog

        structlog.get_logger("oncelog").exception("broker failed")
        return 1


def _faults(allowed: bool) -> Faults | None:
    """Return the faults that environment variables name. Return None unless faults are allowed.

    If faults are not `allowed`, but a variable names one, end the process, because the variable may
    be set by accident. Also end the process if a value is invalid.
    """
    if not allowed:
        names = [name for name in FAULT_VARIABLES if os.environ.get(name)]
        if not names:
            return None
        click.echo(f"{names[0]} makes a broker fail on purpose: it needs --allow-faults", err=True)
        sys.exit(2)
    from oncelog_server.faults.faults import Faults

    try:
        return Faults.of(os.environ)
    except (OSError, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(2)


def _keep_rich_out() -> None:
    """Prevent structlog from importing rich, which colors tracebacks.

    The import takes a fifth of the start, and the log does not need it.
    """
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None makes the import fail


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which it uses if it is installed.

    That import takes 3 ms and 0.6 MB, and serves Pythons older than those of the broker.
    """
    name = "typing_extensions"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None makes the import fail
    try:
        import_module("msgspec")
    finally:
        del sys.modules[name]


def _take_all_descriptors() -> None:
    """Raise the limit of descriptors to the hard limit, as the JVM does.

    The usual soft limit of 1,024 is too low for partitions and clients.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS may refuse its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def leave_room_for_files(settings: Settings) -> Settings:
    """Return the settings, with `max.connections` lowered if files would get too few descriptors.

    A refused connection fails one client, but a file that cannot be opened fails all clients.
    """
    from oncelog_server.operating_system.descriptors import affordable_connections

    affordable = affordable_connections()
    if affordable is None or settings.max_connections <= affordable:
        return settings
    import structlog

    structlog.get_logger("oncelog").info(
        "fewer connections than max.connections: too few descriptors (ulimit -n)",
        limit=affordable,
        max_connections=settings.max_connections,
    )
    return replace(settings, max_connections=affordable)


def _log_unexpected(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception that the event loop caught, as a log event instead of a bare traceback.

    uvloop leaves the look-up of a name behind when a connect is cancelled, for example at its
    timeout. The caller of the connect has already reported that, so the look-up's failure is not
    unexpected.
    """
    exception, future = context.get("exception"), context.get("future")
    is_left_behind = isinstance(future, asyncio.Future) and not isinstance(future, asyncio.Task)
    if is_left_behind and isinstance(exception, socket.gaierror):
        return
    import structlog

    structlog.get_logger("oncelog").error(
        "unexpected error", reason=context["message"], exc_info=exception
    )


def _run(
    settings: object, faults: Faults | None, announce: Announce, parent_link: int | None
) -> int:
    try:
        import uvloop
    except ImportError:  # uvloop does not exist for every platform
        return asyncio.run(_serve(settings, faults, announce, parent_link))
    return uvloop.run(_serve(settings, faults, announce, parent_link))


async def _serve(
    settings: object, faults: Faults | None, announce: Announce, parent_link: int | None
) -> int:
    from oncelog_server.config import Settings
    from oncelog_server.data_directory.lock import DirectoryInUse
    from oncelog_server.data_directory.ownership import ForeignDirectory, NeedsRecovery
    from oncelog_server.garbage import collect_in_short_stops
    from oncelog_server.metadata.store_wait import StoreWait
    from oncelog_server.startup.interruptible_start import StartStopped, until_stopped
    from oncelog_server.storage.files import StorageError

    assert isinstance(settings, Settings)
    stopping = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(_log_unexpected)
    _stop_on_signals(stopping)
    link = None
    if parent_link is not None:
        from oncelog_server.processes.parent_link import ParentLink

        link = ParentLink(parent_link, stopping.set)
    refusals = DirectoryInUse, ForeignDirectory, NeedsRecovery, OSError, StorageError, ValueError
    wait = StoreWait(settings)
    try:
        if settings.has_other_brokers:
            broker = await until_stopped(_started(settings, faults, wait), stopping)
        else:
            broker = await _started(settings, faults, wait)
    except refusals as error:
        click.echo(f"oncelog cannot start: {error}", err=True)
        return 1
    except StartStopped:
        click.echo("oncelog is stopped before its start was complete", err=True)
        return 1
    collect_in_short_stops()
    _warn_of_missing_brokers(broker)
    control, failure = await _open_control(faults, broker)
    failure = failure or await _create_first_topics(broker, wait, stopping)
    failure = failure or await announce(broker)
    if failure:
        click.echo(f"oncelog cannot start: {failure}", err=True)
    else:
        if broker.security.has_certificates:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, broker.security.reload_certificates)
        sys.stdout.flush()
        if link is not None:
            link.serves()
        await stopping.wait()
    if control is not None:
        control.close()
    await broker.stop()
    return 1 if failure else 0


def _warn_of_missing_brokers(broker: Broker) -> None:
    """Warn if the metadata in this data directory has brokers that this start leaves out. Brokers
    on an etcd may run anywhere."""
    settings, image = broker.settings, broker.metadata.image
    if settings.has_metadata_elsewhere:
        return
    running = range(settings.node_id, settings.node_id + settings.oncelog_brokers)
    if image.registrations.keys() <= set(running):
        return
    from oncelog_server.cluster.missing_brokers import missing_brokers

    click.echo(f"warning: {missing_brokers(image, running)}", err=True)


async def _started(settings: Settings, faults: Faults | None, wait: StoreWait) -> Broker:
    """Return a broker that serves. Raises the refusals of a start."""
    from oncelog_server.broker import Broker
    from oncelog_server.environment import OsEnvironment

    if settings.first_broker is not None:
        from oncelog_server.startup.awaited_brokers import await_first_broker

        await await_first_broker(settings, wait)
    broker = Broker(settings, OsEnvironment(settings.data_directory, faults))
    await broker.start(wait)
    return broker


async def _create_first_topics(broker: Broker, wait: StoreWait, stopping: asyncio.Event) -> str:
    """Create the topics of oncelog.create.topics. Return the reason of a failure, or ""."""
    settings = broker.settings
    if not settings.oncelog_create_topics or settings.member != 1:
        return ""
    from oncelog_server.metadata.store_wait import StoreSilent
    from oncelog_server.startup.first_topics import create_first_topics
    from oncelog_server.startup.interruptible_start import StartStopped, until_stopped

    try:
        return await until_stopped(create_first_topics(broker.metadata, settings, wait), stopping)
    except StartStopped:
        return "it is stopped before the topics of oncelog.create.topics exist"
    except StoreSilent as silent:
        return str(silent)


async def _open_control(faults: Faults | None, broker: Broker) -> tuple[FaultControl | None, str]:
    """Open the control socket of the faults, if faults are allowed. Return the socket, and the
    reason why it cannot be opened, or ""."""
    if faults is None:
        return None, ""
    from oncelog_server.faults.control import FaultControl

    control = FaultControl(faults, broker.directory.path)
    try:
        await control.open()
    except OSError as error:
        return None, f"the control socket of --allow-faults: {error}"
    return control, ""


async def _announce(broker: Broker) -> str:
    """Print the broker's address and data directory. Return "": the broker may serve."""
    from oncelog_server.network.binding import EVERY_ADDRESS

    listener, host, port = broker.addresses[0]
    is_open = host in EVERY_ADDRESS
    shown = _address(DEFAULT_HOST if is_open else host, port)
    notes = [_openness(broker.settings, listener)] if is_open else []
    registered = broker.metadata.image.brokers.get(broker.settings.node_id)
    endpoint = None if registered is None else registered.endpoint(listener)
    if endpoint is not None and (advertised := _address(endpoint.host, endpoint.port)) != shown:
        # A client connects to this address after its first response.
        notes.append(f"advertised as {advertised}")
    note = f" ({'; '.join(notes)})" if notes else ""
    click.echo(f"oncelog {__version__} listening on {shown}{note}, data in {broker.directory.path}")
    if broker.settings.oncelog_kafka_log_lines:
        click.echo(KAFKA_LOG_LINES.format(id=broker.settings.node_id))
    return ""


def _openness(settings: Settings, listener: str) -> str:
    """Return the note for a listener that is bound to every address."""
    from oncelog_server.security.protocols import SecurityProtocol
    from oncelog_server.settings.listeners import listeners_of

    protocols = {address.name: address.protocol for address in listeners_of(settings)}
    is_plain = protocols[listener] is SecurityProtocol.PLAINTEXT
    return "every address, without authentication" if is_plain else "every address"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """Stop cleanly on the first signal, at once on the second.

    Signals within SAME_MOMENT_S count as one, because a terminal and a program that runs the broker
    may both pass on the same Ctrl-C. The handlers are not those of the event loop, because the loop
    may be busy: a start after a crash reads the logs.
    """
    loop = asyncio.get_running_loop()
    first_signal_s: float | None = None

    def stop(_number: int, _frame: object) -> None:
        nonlocal first_signal_s
        if loop.is_closed():
            return  # the process is about to end
        if first_signal_s is None:
            first_signal_s = loop.time()
            loop.call_soon_threadsafe(stopping.set)
        elif loop.time() - first_signal_s > SAME_MOMENT_S:
            os._exit(ENDED_BY_FORCE)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
