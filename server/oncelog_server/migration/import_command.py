"""`oncelog storage import`: take over a data directory of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from oncelog_protocol.types import uuid_from_string, uuid_to_string
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.data_directory.ownership import Owner, owner_of, refusal_of
from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    MetaProperties,
    decode_meta_properties,
)
from oncelog_server.metadata.founding import SUPPORTED_FEATURES, random_uuid
from oncelog_server.migration import markers
from oncelog_server.migration.copies import NoRoom
from oncelog_server.migration.import_changes import ImportChanges
from oncelog_server.migration.planning.folders import KafkaFolder, look_at_all
from oncelog_server.migration.planning.groups import groups_by_kind
from oncelog_server.migration.planning.import_plan import ImportPlan, ImportPlanner
from oncelog_server.migration.planning.metadata_log import (
    METADATA_LOG,
    UnreadableMetadata,
    read_metadata_log,
)
from oncelog_server.migration.planning.transactions import open_transactions
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from oncelog_server.operating_system.file_modes import DIRECTORY_MODE
from oncelog_server.operating_system.kafka_lock import KafkaLock
from oncelog_server.salvage.command_options import verbose_option, yes_option
from oncelog_server.salvage.shown import count, fail, show_lines, show_unchanged, size_of
from oncelog_server.settings.model import Settings
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import LOCK, META_PROPERTIES, parse_partition_directory

IMPORT_EXAMPLES: Final = """\b
Examples:
  oncelog storage import /var/lib/kafka/data
  oncelog storage import /var/lib/kafka/data --yes
  oncelog storage import /var/lib/kafka/data --into /var/lib/oncelog --yes
"""


class _Found(NamedTuple):
    """The result of the reading part of an import. `notes` are sentences for the operator."""

    meta: MetaProperties
    folders: list[KafkaFolder]
    plan: ImportPlan
    notes: list[str]


@click.command("import", epilog=IMPORT_EXAMPLES, short_help="Take over data of Apache Kafka.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="Copy everything to this new or empty folder. Without this option, DIRECTORY changes.",
)
@yes_option
@verbose_option
def import_(directory: Path, into: Path | None, yes: bool, verbose: bool) -> None:
    """Make a data directory of a stopped Apache Kafka (KRaft, 3.9 to 4.3) one of oncelog.

    Topics with their ids and settings, partitions, leader epochs, committed offsets, open
    transactions, producer ids and the level of transaction.version are kept. The logs stay as they
    are. If oncelog cannot keep something, the command names it and changes nothing. An interrupted
    import can be run again.
    """
    # A link to the source must not pass for another directory, because a copy empties its target.
    source = directory.resolve()
    target = source if into is None else into.resolve()
    try:
        with _locked(source, target, changes=yes):
            if _is_at_its_end(source, target):
                _end(source, target, yes=yes)
                return
            found = _read(source)
            _show(found, source, target, verbose)
            if found.plan.refusals:
                fail("this directory cannot be imported. Nothing was changed")
            if not yes:
                to = "" if into is None else f" --into {into}"
                show_unchanged(f"oncelog storage import {directory}{to}")
                return
            ImportChanges(source, target).make(found.plan)
            click.echo(f"\nDone. {_how_to_start(target, found.meta)}")
    except (DirectoryInUse, NoRoom, OSError, StorageError, UnreadableMetadata) as error:
        fail(str(error))


@contextmanager
def _locked(source: Path, target: Path, *, changes: bool) -> Iterator[None]:
    """Lock the source against Apache Kafka, and the directory that changes against a broker."""
    if not source.is_dir():
        fail(f"{source} is not a directory")
    if not (source / METADATA_LOG).is_dir() and markers.source_of(source) != source:
        fail(_without_metadata(source))
    _check_target(source, target)
    ours, theirs = DataDirectory(str(target)), KafkaLock(source, LOCK)
    try:
        if changes:
            target.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            # This lock comes first. It creates the lock file of a directory without one, and only
            # an existing file can be locked against Apache Kafka.
            ours.take()
        if not theirs.take():
            raise DirectoryInUse(f"Apache Kafka uses {source}: stop it first")
        yield
    finally:
        theirs.release()
        ours.release()


def _check_target(source: Path, target: Path) -> None:
    if target == source:
        return
    if source in target.parents or target in source.parents:
        fail(f"{target} and {source} must not contain each other")
    owner = owner_of(target)
    if owner is Owner.MIGRATING and markers.source_of(target) == source:
        return
    if owner is not Owner.EMPTY:
        fail(f"{target} is not empty")


def _is_at_its_end(source: Path, target: Path) -> bool:
    """Return True if only the last step of an import in place is missing."""
    is_marked = target == source and markers.source_of(source) == source
    return is_marked and not (source / METADATA_LOG).is_dir()


def _end(source: Path, target: Path, *, yes: bool) -> None:
    if not yes:
        click.echo(f"Only the last step is missing: oncelog storage import {source} --yes")
        return
    ImportChanges(source, target).finish()
    click.echo(f"Done. {_how_to_start(target, _meta(source))}")


def _read(source: Path) -> _Found:
    names = sorted(path.name for path in source.iterdir() if path.is_dir())
    if METADATA_LOG not in names:
        fail(_without_metadata(source))
    owner = owner_of(source)
    if owner is Owner.MIGRATING and markers.source_of(source) != source:
        fail(refusal_of(source))  # an incomplete copy of another directory
    if owner not in (Owner.FOREIGN, Owner.MIGRATING):
        fail(f"{source} is a data directory of oncelog already")
    files, root = ReadOnlyFiles(), str(source)
    meta = _meta(source)
    cluster, notes = read_metadata_log(files, f"{root}/{METADATA_LOG}")
    folders = list(look_at_all(files, root, [name for name in names if name != METADATA_LOG]))
    groups = groups_by_kind(files, root, _folders_of(CONSUMER_OFFSETS, names))
    transactions, unknown = open_transactions(files, root, _folders_of(TRANSACTION_STATE, names))
    plan = ImportPlanner(
        cluster,
        meta,
        folders,
        groups,
        features=SUPPORTED_FEATURES,
        settings=Settings(),
    ).plan()
    plan.refusals += unknown
    plan.notes += [
        f"the transaction of {transactional_id} stays open ({state.kafka_name})"
        for transactional_id, state in sorted(transactions.items())
    ]
    return _Found(meta, folders, plan, notes)


def _folders_of(topic: str, names: list[str]) -> list[str]:
    return [
        name
        for name in names
        if (partition := parse_partition_directory(name)) is not None and partition.topic == topic
    ]


def _without_metadata(source: Path) -> str:
    if not (source / META_PROPERTIES).exists():
        return f"{source} is not a data directory of Apache Kafka: it has no {META_PROPERTIES}"
    return (
        f"{source} has no {METADATA_LOG}. Either Apache Kafka has not started on it, or its "
        "metadata.log.dir is another directory, or it uses ZooKeeper: these cannot be imported"
    )


def _meta(source: Path) -> MetaProperties:
    """Return meta.properties. A directory that a version before 3.7 has formatted has no id yet."""
    path = source / META_PROPERTIES
    try:
        meta = decode_meta_properties(path.read_bytes())
        if not meta.directory_id:
            return meta._replace(directory_id=uuid_to_string(random_uuid()))
        uuid_from_string(meta.directory_id)
    except MalformedCheckpoint as error:
        fail(f"{path} {error}")
    except ValueError as error:
        fail(f"{path} is damaged: directory.id: {error}")
    return meta


def _show(found: _Found, source: Path, target: Path, verbose: bool) -> None:
    size = sum(folder.log_bytes for folder in found.folders)
    entries = found.plan.snapshot.entries
    show_lines(
        "Found",
        [
            f"cluster {found.meta.cluster_id} of Apache Kafka, node {found.meta.node_id}",
            size_of(entry.key for entry in entries),
            f"{count(len(found.folders), 'folder')} of partitions with {size:,} bytes of records",
            *found.notes,
        ],
        verbose,
    )
    plans = list(found.plan.notes)
    if target == source:
        plans.append(f"{METADATA_LOG} gets another name, so that Apache Kafka's metadata is kept")
    else:
        plans.append(f"everything is copied to {target}; {source} stays as it is")
    show_lines("Plan", plans, verbose)
    left = [f"{folder}: it belongs to no topic" for folder in found.plan.strays]
    show_lines("Left out", left, verbose)
    show_lines("Cannot be imported", found.plan.refusals, verbose)


def _how_to_start(target: Path, meta: MetaProperties) -> str:
    node = "" if meta.node_id == Settings().node_id else f" --set node.id={meta.node_id}"
    return f"Start the broker: oncelog serve --data {target}{node}"
