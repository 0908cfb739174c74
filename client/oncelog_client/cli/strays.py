"""`oncelog cluster strays`: the stray folders of a data directory on this computer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, for_people, note, show
from oncelog_client.cli.quantities import count_text, size_text
from oncelog_client.core.strays import Stray, Verdict, judge, parse_stray
from oncelog_client.errors import KafkaError
from oncelog_client.values import PartitionInfo
from oncelog_protocol.types import uuid_from_string

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

COLUMNS: Final = (
    Column("Folder", "id"),
    Column("Topic", "id", rank=1),
    Column("Partition", "count", rank=1),
    Column("Size", "size"),
    Column("Removable"),
    Column("Reason"),
)
META: Final = "meta.properties"
STRAY: Final = "-stray"
DELETED: Final = "-delete"
# Number of topics in one request.
AT_ONCE: Final = 500


@click.command(
    cls=Tool, examples=["cluster strays oncelog-data", "cluster strays oncelog-data --execute"]
)
@click.argument("data", metavar="DATA")
@click.option(
    "--execute", is_flag=True, help="Delete the removable folders. Without it, nothing is changed."
)
@click.option(
    "--unknown-topics",
    is_flag=True,
    help="Count folders of topics that the cluster does not have as removable.",
)
@connection_options
@output_option
def strays(*, data: str, execute: bool, unknown_topics: bool, output: str, **_: object) -> None:
    """Show the stray folders in a broker's data directory on this computer.

    A broker that was down while a partition was deleted or moved away puts its folder aside as
    `…-stray`. It is removable if all replicas of the partition are in sync. If the cluster has no
    such topic, the topic was deleted, or its metadata was lost: only --unknown-topics makes the
    folder removable.
    """
    folder = Path(data)
    cluster_id, broker_id = _owner(folder)
    found = [stray for name in sorted(os.listdir(folder)) if (stray := _stray(folder, name))]

    async def call(admin: Admin) -> list[tuple[Stray, Verdict]]:
        described = await admin.describe_cluster()
        if described.cluster_id != cluster_id:
            raise Failed(
                f"{folder} belongs to the cluster {cluster_id}, and the brokers to the cluster"
                f" {described.cluster_id}: see --bootstrap-server"
            )
        topics = await _topics(admin, {stray.topic_id for stray in found if stray.topic_id})
        return [
            (stray, judge(stray, topics, broker_id, unknown_topics=unknown_topics))
            for stray in found
        ]

    judged = ask(call)
    rows: list[tuple[Any, ...]] = [
        (stray.folder, stray.topic, stray.partition, stray.size_bytes, *verdict)
        for stray, verdict in judged
    ]
    show(COLUMNS, rows, output=output, empty="no stray folder")
    removable = [stray for stray, verdict in judged if verdict.removable]
    text = f"{count_text(len(removable), 'folder')}, {_total(removable)}"
    if execute:
        for stray in removable:
            remove(folder, stray)
        note(f"deleted: {text}")
    elif removable and for_people(output):
        note(f"nothing was changed: --execute deletes {text}")


def remove(data: Path, stray: Stray) -> None:
    """Delete a folder. First give it the name of a deleted partition's folder: if a kill interrupts
    the deletion, the next start of the broker completes it."""
    marked = data / f"{stray.folder.removesuffix(STRAY)}{DELETED}"
    (data / stray.folder).rename(marked)
    shutil.rmtree(marked)


def _total(strays: list[Stray]) -> str:
    return size_text(sum(stray.size_bytes for stray in strays))


def _owner(folder: Path) -> tuple[str, int]:
    """Return the ids of the cluster and of the broker. Raises Failed if the folder is no data
    directory."""
    try:
        lines = (folder / META).read_text(encoding="utf-8").splitlines()
        meta = dict(line.split("=", 1) for line in lines if "=" in line)
        return meta["cluster.id"], int(meta["node.id"])
    except (OSError, UnicodeDecodeError, KeyError, ValueError):
        raise Failed(
            f"{str(folder)[:80]!r} is no data directory of a broker: it has no valid {META}"
        ) from None


def _stray(folder: Path, name: str) -> Stray | None:
    """Return a stray folder, or None for another name."""
    parsed = parse_stray(name)
    path = folder / name
    if parsed is None or path.is_symlink() or not path.is_dir():
        return None
    size = sum(entry.stat().st_size for entry in path.iterdir() if entry.is_file())
    return Stray(name, *parsed, _topic_id(path), size)


def _topic_id(path: Path) -> bytes | None:
    """Return the topic id of a partition's folder, or None if it cannot be read."""
    try:
        lines = (path / "partition.metadata").read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        return uuid_from_string(fields["topic_id"])
    except (OSError, UnicodeDecodeError, KeyError, ValueError):
        return None


async def _topics(
    admin: Admin, topic_ids: Collection[bytes]
) -> dict[bytes, dict[int, PartitionInfo] | KafkaError]:
    """Return the partitions of each topic by number, or the error of its id. A list of all topics
    would not prove that a topic is deleted, because it lacks topics that the user may not
    describe."""
    found: dict[bytes, dict[int, PartitionInfo] | KafkaError] = {}
    ids = sorted(topic_ids)
    for start in range(0, len(ids), AT_ONCE):
        described = await admin.describe_topics_by_id(ids[start : start + AT_ONCE])
        for topic_id, topic in described.items():
            if isinstance(topic, KafkaError):
                found[topic_id] = topic
            else:
                found[topic_id] = {info.partition: info for info in topic.partitions}
    return found
