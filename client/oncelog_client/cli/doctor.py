"""`oncelog doctor`: checks of this machine and of the cluster, with advice for each problem."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import click

from oncelog_client.admin import Admin, ConfigResource, ResourceType
from oncelog_client.cli.cluster_checks import ALL, FULL_DISKS, rows_of
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import NotConnected, Target, connected_admin, target
from oncelog_client.cli.disks import disks
from oncelog_client.cli.findings import NOTICE, OK, PROBLEM, Finding, show_findings
from oncelog_client.cli.missing_rights import text_of
from oncelog_client.cli.options import connection_options, output_option, run
from oncelog_client.cli.some_names import some
from oncelog_client.cli.timed_checks import run_checks
from oncelog_client.errors import KafkaError, UnsupportedVersionError
from oncelog_client.io.clock import monotonic_ms, wall_ms
from oncelog_protocol.apis import APIS, ApiKey

SLOW_MS: Final = 200.0
DAY_S: Final = 86_400
# A certificate that expires earlier is a notice.
LEAST_DAYS: Final = 30
_TO_CONNECT: Final = "see that the address is right and a broker runs there"
# `doctor` shows every disk, so it leaves this check out.
HEALTH_CHECKS: Final = tuple(check for check in ALL if check is not FULL_DISKS)
TRANSACTION_VERSION: Final = "transaction.version"
# The APIs that producers, consumers and transactions need.
NEEDED: Final = (
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR),
    *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT),
    *(ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN),
    *(ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.DESCRIBE_TRANSACTIONS),
)


class Surprise(NamedTuple):
    """A broker setting, and its surprising effect (`found`) at the values for which `surprises`
    returns True."""

    name: str
    surprises: Callable[[str], bool]
    found: str
    to_do: str


SURPRISES: Final = (
    Surprise(
        "auto.create.topics.enable",
        lambda value: value == "true",
        "a mistyped topic name makes a new topic",
        "set auto.create.topics.enable=false in production",
    ),
    Surprise(
        "group.initial.rebalance.delay.ms",
        lambda value: value.isdecimal() and int(value) >= 1_000,
        "the first member of a group waits {value} ms for others",
        "for tests and CI set group.initial.rebalance.delay.ms=0 (`oncelog dev` does)",
    ),
    Surprise(
        "oncelog.flush.on.ack",
        lambda value: value == "false",
        "as in Kafka, a power loss may take records that were acknowledged last",
        "set oncelog.flush.on.ack=true if they must survive it",
    ),
    Surprise(
        "unclean.leader.election.enable",
        lambda value: value == "true",
        "a replica without all acknowledged records may become leader",
        "set unclean.leader.election.enable=false",
    ),
)


@click.command(cls=Tool, examples=["doctor", "doctor --bootstrap-server broker:9092 --json"])
@connection_options
@output_option
def doctor(*, output: str, **_: object) -> None:
    """Check this installation, the connection, the brokers, their settings and their disks.

    Each finding says what to do. The exit code is 1 if there is a problem; notices do not count.
    """
    where = target()
    findings = [*_installation(), *run(_cluster(where)), *_spark()]
    click.get_current_context().exit(show_findings(findings, output))


# -- this machine


def _installation() -> Iterator[Finding]:
    yield Finding(OK, "Python", sys.version.split()[0])
    versions = _distributions()
    if len(set(versions.values())) > 1:
        found = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield Finding(
            PROBLEM,
            "packages",
            f"{found}: both contain the same modules, and those installed last are used",
            "pip uninstall oncelog oncelog-client, then pip install only one of them",
        )
    else:
        found = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield Finding(OK, "packages", found or "run from its source")


def _distributions() -> dict[str, str]:
    """Return the versions of the installed distributions that contain oncelog's modules."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("oncelog", "oncelog-client"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _spark() -> Iterator[Finding]:
    """Yield a finding for each requirement of Spark. Yield nothing if PySpark is not installed."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        return
    if find_spec("pyarrow") is None:
        to_do = "pip install 'oncelog[spark]'"
        yield Finding(PROBLEM, "Spark", "PySpark is installed, PyArrow is not", to_do)
        return
    from oncelog_client.spark.requirements import (
        MissingJava,
        UnreadyWorkers,
        UnsupportedSpark,
        check_java,
        check_pyspark,
        check_workers,
    )

    checks: tuple[tuple[str, Callable[[], object]], ...] = (
        ("PySpark", check_pyspark),
        ("Java", check_java),
        ("Spark's Python workers", check_workers),
    )
    for name, check in checks:
        try:
            found = check()
        except (MissingJava, UnreadyWorkers, UnsupportedSpark) as error:
            what, _, to_do = str(error).partition(": ")
            yield Finding(PROBLEM, name, what, " ".join(to_do.split()))
        else:
            yield Finding(OK, name, "as needed" if found is None else str(found))


# -- the cluster


async def _cluster(where: Target) -> list[Finding]:
    began_ms = monotonic_ms()
    try:
        async with connected_admin(*where) as admin:
            took_ms = monotonic_ms() - began_ms
            state = OK if took_ms < SLOW_MS else NOTICE
            findings = [Finding(state, "connection", f"{where.bootstrap_server}, {took_ms:.0f} ms")]
            findings += await _brokers(admin)
            return findings
    except NotConnected as error:
        advice = error.advice
        to_do = advice[:1].lower() + advice[1:] if advice else _TO_CONNECT
        return [Finding(PROBLEM, "connection", error.found, to_do)]
    except (click.ClickException, KafkaError) as error:
        return [Finding(PROBLEM, "connection", str(error), _TO_CONNECT)]


async def _brokers(admin: Admin) -> list[Finding]:
    """Return the findings of all checks. An error of one check is a finding, and the other checks
    still run."""

    def failed(name: str, error: Exception) -> Finding:
        text = text_of(error, admin.config)
        return Finding(PROBLEM, name, text, "ask the operator of the cluster")

    async def health() -> list[Finding]:
        try:
            return [row.finding() async for row in rows_of(admin, HEALTH_CHECKS)]
        except (click.ClickException, KafkaError) as error:
            return [failed("health", error)]

    checks = {
        "advertised addresses": _addresses(admin),
        "settings": _settings(admin),
        "disk": _disk(admin),
    }
    limit_s = admin.config.default_api_timeout_ms / 1000
    found, of_health = await asyncio.gather(run_checks(checks, limit_s, failed), health())
    return [*found, *of_health]


async def _addresses(admin: Admin) -> AsyncIterator[Finding]:
    """Yield a finding for the advertised address of each broker. Clients connect to the advertised
    addresses, not to the address on the command line."""
    from oncelog_client.io.connection import Connection

    for node in (await admin.describe_cluster()).nodes:
        name = f"broker {node.node_id}"
        try:
            async with asyncio.timeout(admin.config.default_api_timeout_ms / 1000):
                connection = await Connection.open((node.host, node.port), admin.config)
        except (KafkaError, TimeoutError) as error:
            yield Finding(
                PROBLEM,
                name,
                f"it names itself {node.host}:{node.port}, which cannot be reached: {error}",
                "set advertised.listeners of the broker to an address that clients can reach",
            )
            continue
        expires_s = connection.certificate_expires_s
        missing = [APIS[key].name for key in NEEDED if not _speaks(connection, key)]
        connection.close()
        await connection.wait_closed()
        level = connection.features.get(TRANSACTION_VERSION, 0)
        if missing:
            to_do = "use a newer broker, or do not use features that need these APIs"
            yield Finding(PROBLEM, name, f"does not speak {some(missing)}", to_do)
        elif not level:
            to_do = "raise it with Apache Kafka's kafka-features.sh to 2 for KIP-890's protection"
            yield Finding(NOTICE, name, f"{TRANSACTION_VERSION} is {level}", to_do)
        else:
            found = f"{node.host}:{node.port}, {TRANSACTION_VERSION} {level}"
            yield Finding(OK, name, found)
        if expires_s is not None:
            yield _certificate(name, expires_s)


def _certificate(broker: str, expires_s: float) -> Finding:
    """Return the finding for the certificate of a broker. A client refuses an expired one."""
    days = int((expires_s - wall_ms() / 1_000) // DAY_S)
    found = f"expires at {datetime.fromtimestamp(expires_s, UTC):%Y-%m-%d %H:%M} UTC"
    name = f"certificate of {broker}"
    if days >= LEAST_DAYS:
        return Finding(OK, name, found)
    to_do = "renew the files of ssl.keystore.location; the broker reads them within a minute"
    return Finding(NOTICE, name, f"{found}, in {days} days", to_do)


def _speaks(connection: Any, key: ApiKey) -> bool:
    try:
        connection.version(APIS[key].request())
    except UnsupportedVersionError:
        return False
    return True


async def _settings(admin: Admin) -> AsyncIterator[Finding]:
    nodes = (await admin.describe_cluster()).nodes
    resources = [ConfigResource(ResourceType.BROKER, str(node.node_id)) for node in nodes]
    described = await admin.describe_configs(resources)
    surprised = False
    for surprise in SURPRISES:
        values = {
            entries[surprise.name].value or ""
            for entries in described.values()
            if surprise.name in entries
        }
        for value in sorted(filter(surprise.surprises, values)):
            surprised = True
            found = f"{surprise.name}={value}: {surprise.found.format(value=value)}"
            yield Finding(NOTICE, "setting", found, surprise.to_do)
    if not surprised:
        yield Finding(OK, "settings", "no setting with a surprising effect")


async def _disk(admin: Admin) -> AsyncIterator[Finding]:
    for disk in await disks(admin):
        check = f"disk of broker {disk.broker}"
        if disk.is_short:
            state = PROBLEM if disk.is_full else NOTICE
            to_do = "free space, or lower log.retention.bytes or log.retention.ms"
            yield Finding(state, check, disk.found, to_do)
        else:
            yield Finding(OK, check, disk.found)
