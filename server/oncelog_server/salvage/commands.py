"""`oncelog storage`: rebuild the metadata of a data directory from its folders, or back it up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from oncelog_server.cluster import records
from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.data_directory.ownership import Owner, owner_of, refusal_of
from oncelog_server.metadata.founding import NEW_LEVELS, random_uuid
from oncelog_server.salvage.backup import BackupFailed, back_up
from oncelog_server.salvage.changes import PlannedChanges
from oncelog_server.salvage.command_options import data_option, verbose_option, yes_option
from oncelog_server.salvage.metadata_place import check_metadata_is_here
from oncelog_server.salvage.other_brokers import check_others, other_directories, survey_others
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.machine import OtherBroker
from oncelog_server.salvage.planning.plan import Plan, Planner
from oncelog_server.salvage.shown import count, fail, show_lines, show_unchanged, size_of
from oncelog_server.salvage.sources import Found, find
from oncelog_server.salvage.stopped_brokers import check_stopped
from oncelog_server.salvage.surveys import folder_facts
from oncelog_server.settings.model import Settings
from oncelog_server.storage.files import StorageError

RECOVER_EXAMPLES: Final = """\b
Examples:
  oncelog storage recover --data /var/lib/oncelog
  oncelog storage recover --data /var/lib/oncelog --yes
"""
BACKUP_EXAMPLES: Final = """\b
Examples:
  oncelog storage backup /backup/oncelog-today
  oncelog storage backup /backup/oncelog-today --data /var/lib/oncelog
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def storage() -> None:
    """Rebuild or back up a broker's metadata, and exchange directories with Apache Kafka."""


@storage.command(epilog=RECOVER_EXAMPLES, short_help="Rebuild the metadata from the folders.")
@data_option
@yes_option
@verbose_option
def recover(data: Path, yes: bool, verbose: bool) -> None:
    """Rebuild the metadata of a stopped broker from the folders of its partitions.

    Topics, ids, partitions, leader epochs and the next producer id are read from the folders, with
    `serve --brokers` from those of all brokers. Settings are read from the store or its text copy,
    if one of them is left. Folders that were put aside (-stray) become partitions again. No data is
    deleted: a replaced store, text copy or meta.properties is kept as *.before.1, and so on.
    """
    path = data.absolute()
    try:
        with ExitStack() as locks:
            _check(path)
            if yes:
                _lock(path, locks)
            found = find(path)
            others = survey_others(path, found.notes)
            facts = folder_facts(path)
            plan = _plan(found, facts, others)
            is_right = found.store == plan.snapshot
            has_ids = found.meta is not None and all(other.meta is not None for other in others)
            is_done = is_right and not plan.moves and not plan.relabelled and has_ids
            folders = len(facts) + sum(len(other.folders) for other in others)
            _show(found, plan, folders, verbose, is_done=yes and not is_done)
            if is_done:
                click.echo(_nothing_to_do(plan))
            elif not yes:
                show_unchanged(f"oncelog storage recover --data {data}")
            else:
                PlannedChanges(path).make(plan, store_is_right=is_right)
                click.echo(f"\nDone. Start the broker on {path}.")
    except (DirectoryInUse, OSError, StorageError, ValueError) as error:
        fail(str(error))


@storage.command(epilog=BACKUP_EXAMPLES, short_help="Copy the metadata to a new folder.")
@click.argument("destination", type=click.Path(path_type=Path))
@data_option
def backup(destination: Path, data: Path) -> None:
    """Copy the metadata of a broker, running or not, to a new or empty folder.

    The copy is of one moment. It holds topics, ids, settings and the next producer id, but no
    records of topics.
    """
    try:
        check_metadata_is_here(data.absolute(), "`oncelog cluster export` writes it to a file")
        snapshot = back_up(data.absolute(), destination)
    except (BackupFailed, OSError, ValueError) as error:
        fail(str(error))
    topics = sum(entry.key.startswith(records.TOPICS) for entry in snapshot.entries)
    click.echo(
        f"{topics} topics at revision {snapshot.revision} copied to {destination}: "
        "only the metadata, no records"
    )


def _check(path: Path) -> None:
    if not path.is_dir():
        fail(f"{path} is not a directory")
    owner = owner_of(path)
    if owner is Owner.EMPTY:
        fail(f"{path} is empty: there is nothing to recover, and a broker can start on it")
    if owner in (Owner.FOREIGN, Owner.MIGRATING):
        fail(refusal_of(path))
    check_metadata_is_here(path, "`oncelog cluster recover` rebuilds it")
    check_stopped(path)
    check_others(path)


def _lock(path: Path, locks: ExitStack) -> None:
    """Lock the directory, and those of the other brokers of this machine. Raises DirectoryInUse and
    OSError."""
    for place in (path, *other_directories(path).values()):
        directory = DataDirectory(str(place))
        directory.take()
        locks.callback(directory.release)


def _plan(found: Found, facts: Sequence[FolderFacts], others: Sequence[OtherBroker]) -> Plan:
    planner = Planner(
        facts,
        found.known,
        found.meta,
        features=NEW_LEVELS,
        new_uuid=random_uuid,
        settings=Settings(),
        others=others,
    )
    return planner.plan()


def _show(found: Found, plan: Plan, folders: int, verbose: bool, *, is_done: bool) -> None:
    show_lines("Found", [*found.notes, f"{count(folders, 'folder')} of partitions"], verbose)
    plans = [size_of(entry.key for entry in plan.snapshot.entries), *plan.notes]
    if found.meta is None:
        plans.append(f"meta.properties is written: {_shown(plan, is_done=is_done)}")
    show_lines("Plan", plans, verbose)
    show_lines("Left as it is", [f"{name}: {why}" for name, why in plan.left], verbose)


def _nothing_to_do(plan: Plan) -> str:
    if not plan.without_folder:
        return "Nothing to do: the metadata is whole and agrees with the folders."
    return (
        "Nothing to do: the metadata is whole. "
        f"{count(plan.without_folder, 'partition')} without a folder will be empty when a "
        "broker starts here: if they had records, put their folders back first."
    )


def _shown(plan: Plan, *, is_done: bool) -> str:
    """Return the text about the node and its cluster. A plan that is not carried out does not show
    a random cluster id, because the next run draws another one."""
    node = f"node {plan.meta.node_id}"
    if plan.draws_cluster_id and not is_done:
        return f"{node} of a cluster with a new id, because no cluster id is left"
    return f"{node} of cluster {plan.cluster_id}"
