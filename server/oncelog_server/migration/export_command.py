"""`oncelog storage export`: write a data directory of Apache Kafka."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

import click

from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.types import uuid_from_string
from oncelog_server.clock import SystemClock
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import ProducerIdsRecord
from oncelog_server.cluster.store import Snapshot
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.data_directory.ownership import Owner, owner_of
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.migration import markers
from oncelog_server.migration.copies import NoRoom
from oncelog_server.migration.export_changes import ExportChanges
from oncelog_server.migration.planning.coordinator_epochs import with_one_coordinator_epoch
from oncelog_server.migration.planning.coordinator_records import (
    CoordinatorRecords,
    DamagedFolder,
    read_coordinator_records,
)
from oncelog_server.migration.planning.kafka_snapshot import ControllerAddress, kafka_snapshot
from oncelog_server.migration.planning.moves import Moves, moves_to_kafka
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from oncelog_server.operating_system.file_modes import DIRECTORY_MODE
from oncelog_server.salvage.command_options import data_option, verbose_option
from oncelog_server.salvage.metadata_place import check_metadata_is_here
from oncelog_server.salvage.other_brokers import other_directories
from oncelog_server.salvage.shown import count, fail, show_lines
from oncelog_server.salvage.sources import find
from oncelog_server.salvage.stopped_brokers import check_stopped
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import CLEAN_SHUTDOWN, METADATA_FILE, partition_directory
from oncelog_server.strays import look_at_folders

# The controller listener in the server.properties of Apache Kafka 4.3.
DEFAULT_CONTROLLER: Final = "CONTROLLER://localhost:9093"
_ADDRESS: Final = re.compile(r"(?P<listener>[A-Za-z0-9_.-]+)://(?P<host>.+):(?P<port>\d{1,5})")

EXPORT_EXAMPLES: Final = """\b
Examples:
  oncelog storage export /var/lib/kafka/data --data /var/lib/oncelog
  oncelog storage export /var/lib/kafka/data --data /var/lib/oncelog --yes
"""


class _Found(NamedTuple):
    """The result of the reading part of an export."""

    image: ClusterImage
    meta: MetaProperties
    next_producer_id: int
    folders: list[str]
    moves: Moves
    refusals: list[str]


@click.command("export", epilog=EXPORT_EXAMPLES, short_help="Write data for Apache Kafka.")
@click.argument("destination", type=click.Path(path_type=Path))
@data_option
@click.option(
    "--controller",
    default=DEFAULT_CONTROLLER,
    metavar="NAME://HOST:PORT",
    help="The controller listener of the Kafka node that will start on DESTINATION."
    f"  [{DEFAULT_CONTROLLER}]",
)
@click.option("--yes", is_flag=True, help="Write it. Without this flag, only the plan is shown.")
@verbose_option
def export(destination: Path, data: Path, controller: str, yes: bool, verbose: bool) -> None:
    """Copy the data of a stopped broker to a new folder on which Apache Kafka 4.3 starts.

    Topics with their ids and settings, partitions, leader epochs, records, committed offsets, open
    transactions and producer ids are kept. The node of Kafka must have the same node.id. It is the
    only controller, at the address of --controller. An interrupted export can be run again.
    """
    source, target = data.absolute(), destination.absolute()
    address = _address(controller)
    directory = DataDirectory(str(source))
    try:
        _check(source, target)
        if yes:
            directory.take()
        found = _read(source)
        _show(found, target, address, verbose)
        if found.refusals:
            fail("this directory cannot be exported. Nothing was written")
        if not yes:
            click.echo(
                "\nNothing was written. To write it: "
                f"oncelog storage export {destination} --data {data} --yes"
            )
            return
        _write(found, source, target, address)
        click.echo(f"\nDone. Start Apache Kafka with log.dirs={target}.")
    except (
        CorruptRecords,
        DamagedFolder,
        DirectoryInUse,
        NoRoom,
        OSError,
        StorageError,
        ValueError,
    ) as error:
        fail(str(error))
    finally:
        directory.release()


def _address(text: str) -> ControllerAddress:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) >= 1 << 16:
        raise click.BadParameter(f"{text} is not NAME://HOST:PORT", param_hint="--controller")
    return ControllerAddress(match["listener"], match["host"], int(match["port"]))


def _check(source: Path, target: Path) -> None:
    if owner_of(source) is not Owner.ONCELOG:
        fail(f"{source} is not a data directory of oncelog")
    check_metadata_is_here(
        source,
        "only a broker without etcd can be exported. `oncelog cluster export` writes the metadata "
        "of its cluster to a file",
    )
    check_stopped(source)
    if not (source / CLEAN_SHUTDOWN).exists():
        fail(f"the broker of {source} was not stopped cleanly: start it, and stop it again")
    if target == source or source in target.parents or target in source.parents:
        fail(f"{target} and {source} must not contain each other")
    if not target.parent.is_dir():
        fail(f"{target.parent} is not a directory")
    owner = owner_of(target)
    is_rerun = owner is Owner.MIGRATING and markers.source_of(target) == source
    if owner is not Owner.EMPTY and not is_rerun:
        fail(f"{target} is not empty")


def _read(source: Path) -> _Found:
    found = find(source)
    if found.store is None or found.meta is None:
        fail(
            f"{source}: {METADATA_FILE} or meta.properties is damaged:"
            " run oncelog storage recover first"
        )
    image = with_one_coordinator_epoch(ClusterImage.of(found.store))
    folders: list[str] = []
    refusals: list[str] = []
    for topic in image.topics.values():
        for partition in topic.partitions:
            name = partition_directory(topic.name, partition.partition)
            if partition.replicas != (found.meta.node_id,):
                refusals.append(f"{name} is on the brokers {list(partition.replicas)}")
            elif not (source / name).is_dir():
                refusals.append(f"{name} has no folder: start the broker, and stop it again")
            folders.append(name)
    refusals += [
        f"{name} is a partition that the metadata does not have: run oncelog storage recover first"
        for name in _unknown(source, image, found.meta.node_id)
    ]
    if refusals:
        return _Found(image, found.meta, 0, folders, Moves(), refusals)
    moves = moves_to_kafka(
        _coordinator(source, image, CONSUMER_OFFSETS),
        _coordinator(source, image, TRANSACTION_STATE),
    )
    next_producer_id = _next_producer_id(found.store)
    return _Found(image, found.meta, next_producer_id, folders, moves, moves.refusals)


def _unknown(source: Path, image: ClusterImage, node_id: int) -> list[str]:
    """Return the folders of partitions that the metadata does not have, also those of other brokers
    of this machine. Raises StorageError."""
    places = (source, *other_directories(source).values())
    return [
        str((place / name).relative_to(source))
        for place in places
        for name in look_at_folders(ReadOnlyFiles(str(place)), image, node_id).unknown
    ]


def _next_producer_id(snapshot: Snapshot) -> int:
    for entry in snapshot.entries:
        if entry.key == records.PRODUCER_IDS:
            return records.decode(ProducerIdsRecord, entry.value).next_producer_id
    return 0


def _coordinator(source: Path, image: ClusterImage, name: str) -> dict[int, CoordinatorRecords]:
    topic = image.topics.get(name)
    files = ReadOnlyFiles()
    return {
        partition.partition: read_coordinator_records(
            files, str(source / partition_directory(name, partition.partition))
        )
        for partition in (() if topic is None else topic.partitions)
    }


def _show(found: _Found, target: Path, controller: ControllerAddress, verbose: bool) -> None:
    partitions = sum(len(topic.partitions) for topic in found.image.topics.values())
    show_lines(
        "Found",
        [
            f"cluster {found.meta.cluster_id}, node {found.meta.node_id}",
            f"{count(len(found.image.topics), 'topic')} with {count(partitions, 'partition')}",
        ],
        verbose,
    )
    listener, host, port = controller
    plans = [
        f"everything is copied to {target}",
        f"node {found.meta.node_id} is the only controller, at {listener}://{host}:{port}",
    ]
    if found.moves.ids:
        plans.append(
            f"the records of {count(found.moves.ids, 'id')} (groups, transactional ids) move to the"
            " partition in which Apache Kafka looks for them"
        )
    show_lines("Plan", plans, verbose)
    show_lines("Cannot be exported", found.refusals, verbose)


def _write(found: _Found, source: Path, target: Path, controller: ControllerAddress) -> None:
    now_ms = SystemClock().now_ms()
    snapshot = kafka_snapshot(
        found.image,
        node_id=found.meta.node_id,
        directory_id=uuid_from_string(found.meta.directory_id),
        controller=controller,
        next_producer_id=found.next_producer_id,
        now_ms=now_ms,
    )
    target.mkdir(DIRECTORY_MODE, exist_ok=True)
    epochs = {
        (topic.name, partition.partition): partition.leader_epoch
        for topic in found.image.topics.values()
        for partition in topic.partitions
    }
    changes = ExportChanges(source, target)
    changes.make(found.folders, found.moves, epochs, snapshot, found.meta, now_ms)
