"""`oncelog cluster init`: make a single broker the first one of a cluster."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import click

from oncelog_server.cluster.store import MetadataStore, Put
from oncelog_server.config import Settings
from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.data_directory.ownership import ForeignDirectory, NeedsRecovery, Owner, owner_of
from oncelog_server.migration.planning.etcd_records import moved_records
from oncelog_server.migration.to_etcd import NotEmpty, completed_move, moved
from oncelog_server.salvage.changes import BEFORE, free_number, replace_file, set_store_aside
from oncelog_server.salvage.command_options import config_option, set_option, yes_option
from oncelog_server.salvage.etcd_access import ENDPOINTS, call_etcd, etcd_settings, place_in_etcd
from oncelog_server.salvage.shown import count, fail, show_lines, show_unchanged, size_of
from oncelog_server.salvage.sources import find
from oncelog_server.storage.layout import CLUSTER_REVISION, METADATA_COPY, METADATA_FILE

T = TypeVar("T")

PREFIX: Final = "oncelog.etcd.prefix"
INIT_EXAMPLES: Final = """\b
Examples:
  oncelog cluster init --data oncelog-data --set oncelog.etcd.endpoints=http://etcd:2379
  oncelog cluster init --config server.properties --yes
"""


@click.command(epilog=INIT_EXAMPLES, short_help="Move the metadata of a broker to etcd.")
@click.option("--data", type=click.Path(), help="Data folder.  [./oncelog-data]")
@config_option
@set_option
@yes_option
def init(data: str | None, config: Path | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Move the metadata of a stopped broker from its data directory to etcd.

    The broker is then the first one of a cluster: topics, offsets, transactions, users, rules and
    quotas stay as they are. Its logs do not change. An interrupted move can be run again.
    """
    settings = etcd_settings(config, assignments, data)
    directory = DataDirectory(settings.data_directory)
    try:
        if owner_of(directory.path) is not Owner.ONCELOG:
            fail(f"{directory.path} is no data directory of a broker")
        directory.lock()
        if directory.cluster_revision() is not None:
            if yes:
                _set_aside(directory.path)  # an interrupted move may have left the store
            fail(f"the metadata of {directory.path} is in etcd already")
        writes = _records(directory.path)
        _show(writes, settings)
        if not yes:
            call_etcd(settings, lambda store: _call(completed_move, store, settings, writes))
            show_unchanged()
            return
        revision = call_etcd(settings, lambda store: _call(moved, store, settings, writes))
        # A later start without etcd is refused.
        replace_file(directory.path / CLUSTER_REVISION, b"%d" % revision)
        kept = _set_aside(directory.path)
        click.echo(
            f"\nDone. Start the broker with {_places(settings)}. {kept} stays as a copy that no "
            "start reads"
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


def _set_aside(path: Path) -> str:
    """Rename the store and its text copy, if they are there, so that nothing takes them for the
    present metadata. Return the new name of the store. Raises OSError."""
    number = free_number(path)
    with suppress(FileNotFoundError):
        os.rename(path / METADATA_COPY, path / f"{METADATA_COPY}{BEFORE}{number}")
    set_store_aside(path, number, lambda what: None)
    return f"{METADATA_FILE}{BEFORE}{number}"


def _places(settings: Settings) -> str:
    """Return the settings that a start needs to find the metadata."""
    named = [name for name in (ENDPOINTS, PREFIX) if name in settings.given]
    return " and ".join(f"{name}={settings.given[name]}" for name in named)


def _records(path: Path) -> list[Put]:
    """Return the records to write. Raises OSError, and ValueError if they are damaged."""
    store = find(path).store
    if store is None:
        raise ValueError(f"{path / METADATA_FILE} is damaged: run oncelog storage recover first")
    return moved_records(store)


def _show(writes: list[Put], settings: Settings) -> None:
    show_lines(
        "Plan",
        [
            f"{count(len(writes), 'record')} are written to {place_in_etcd(settings)}",
            f"they have {size_of(write.key for write in writes)}",
        ],
        verbose=True,
    )


async def _call(
    function: Callable[[MetadataStore, Sequence[Put]], Awaitable[T]],
    store: MetadataStore,
    settings: Settings,
    writes: Sequence[Put],
) -> T:
    try:
        return await function(store, writes)
    except NotEmpty as error:
        raise ValueError(f"{settings.oncelog_etcd_prefix}: {error}") from error
