"""`oncelog cluster init`: make a single broker the first one of a cluster."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import click

from oncelog_server.cluster import records
from oncelog_server.cluster.store import Put
from oncelog_server.config import Settings, SettingsError, load_settings
from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.data_directory.ownership import ForeignDirectory, NeedsRecovery, Owner, owner_of
from oncelog_server.etcd.opening import open_etcd
from oncelog_server.migration.planning.etcd_records import moved_records
from oncelog_server.migration.to_etcd import NotEmpty, check_empty, move
from oncelog_server.salvage.changes import replace_file
from oncelog_server.salvage.shown import count, fail, show_lines
from oncelog_server.salvage.sources import find
from oncelog_server.storage.layout import CLUSTER_REVISION, METADATA_FILE

ENDPOINTS: Final = "oncelog.etcd.endpoints"
PREFIX: Final = "oncelog.etcd.prefix"
INIT_EXAMPLES: Final = """\b
Examples:
  oncelog cluster init --data oncelog-data --set oncelog.etcd.endpoints=http://etcd:2379
  oncelog cluster init --config server.properties --yes
"""


@click.command(epilog=INIT_EXAMPLES, short_help="Move the metadata of a broker to etcd.")
@click.option("--data", type=click.Path(), help="Data folder.  [./oncelog-data]")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties, as for `oncelog serve`.",
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One setting.")
@click.option(
    "--yes", is_flag=True, help="Make the changes. Without this flag, only the plan is shown."
)
def init(data: str | None, config: Path | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Move the metadata of a stopped broker from its data directory to etcd.

    The broker is then the first one of a cluster: topics, offsets, transactions, users, rules and
    quotas stay as they are. Its logs do not change. An interrupted move can be run again.
    """
    settings = _settings(config, data, assignments)
    directory = DataDirectory(settings.data_directory)
    try:
        if owner_of(directory.path) is not Owner.ONCELOG:
            fail(f"{directory.path} is no data directory of a broker")
        directory.lock()
        if directory.cluster_revision() is not None:
            fail(f"the metadata of {directory.path} is in etcd already")
        writes = _records(directory.path)
        _show(writes, settings)
        if not yes:
            asyncio.run(_check(settings, writes))
            click.echo("\nNothing was changed. To make these changes, add --yes")
            return
        revision = asyncio.run(_move(settings, writes))
        # A later start without etcd is refused.
        replace_file(directory.path / CLUSTER_REVISION, b"%d" % revision)
        click.echo(
            f"\nDone. Start the broker with {_places(settings)}. {METADATA_FILE} stays as a copy "
            "that no start reads"
        )
    except (
        DirectoryInUse,
        ForeignDirectory,
        NeedsRecovery,
        OSError,
        ValueError,
    ) as error:
        fail(str(error))
    finally:
        directory.release()


def _places(settings: Settings) -> str:
    """Return the settings that a start needs to find the metadata."""
    named = [name for name in (ENDPOINTS, PREFIX) if name in settings.given]
    return " and ".join(f"{name}={settings.given[name]}" for name in named)


def _settings(config: Path | None, data: str | None, assignments: tuple[str, ...]) -> Settings:
    try:
        settings = load_settings(
            config_file=config, environment=os.environ, assignments=assignments, data=data
        ).settings
    except SettingsError as error:
        fail(str(error))
    if not settings.oncelog_etcd_endpoints:
        fail(f"{ENDPOINTS} is not set")
    return settings


def _records(path: Path) -> list[Put]:
    """Return the records to write. Raises OSError, and ValueError if they are damaged."""
    store = find(path).store
    if store is None:
        raise ValueError(f"{path / METADATA_FILE} is damaged: run oncelog storage recover first")
    return moved_records(store)


def _show(writes: list[Put], settings: Settings) -> None:
    topics = sum(write.key.startswith(records.TOPICS) for write in writes)
    partitions = sum(write.key.startswith(records.PARTITIONS) for write in writes)
    show_lines(
        "Plan",
        [
            f"{count(len(writes), 'record')} are written to {settings.given[ENDPOINTS]}, "
            f"prefix {settings.oncelog_etcd_prefix}",
            f"they have {count(topics, 'topic')} with {count(partitions, 'partition')}",
        ],
        verbose=True,
    )


async def _check(settings: Settings, writes: list[Put]) -> None:
    store = open_etcd(settings)
    try:
        await check_empty(store, writes)
    except NotEmpty as error:
        raise ValueError(f"{settings.oncelog_etcd_prefix}: {error}") from error
    finally:
        await store.close()


async def _move(settings: Settings, writes: list[Put]) -> int:
    await _check(settings, writes)
    store = open_etcd(settings)
    try:
        return await move(store, writes)
    finally:
        await store.close()
