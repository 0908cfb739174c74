"""Kafka's small text files: offset checkpoints, leader epochs, partition.metadata, meta.properties
(CheckpointFile, PartitionMetadata, MetaProperties)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog_protocol.types import uuid_from_string, uuid_to_string

_VERSION: Final = 0
_META_VERSION: Final = 1


class MalformedCheckpoint(ValueError):
    """The file is not a valid checkpoint. The caller rebuilds its values, or uses safe defaults."""


class MetaProperties(NamedTuple):
    """The contents of meta.properties: the cluster and the node that own a data directory.
    `directory_id` is a UUID in Kafka's base64 form."""

    cluster_id: str
    node_id: int
    directory_id: str


def encode_lines(lines: Iterable[str]) -> bytes:
    """Return the bytes of a checkpoint: version, number of lines, the lines."""
    body = list(lines)
    return "\n".join((str(_VERSION), str(len(body)), *body, "")).encode()


def decode_lines(data: bytes) -> list[str]:
    """Return the lines of a checkpoint. An empty file has no lines, as in Kafka. Raises
    MalformedCheckpoint, also if the last line has no line end. A power loss may have shortened such
    a line, for example `7 247` to `7 2`."""
    if data and data[-1:] != b"\n":
        raise MalformedCheckpoint("cut off")
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise MalformedCheckpoint("not text") from None
    if not lines:
        return []
    if lines[0] != str(_VERSION):
        raise MalformedCheckpoint(f"unknown version {lines[0]!r}")
    if len(lines) == 1:
        return []
    if lines[1] != str(len(lines) - 2):
        raise MalformedCheckpoint(f"{len(lines) - 2} entries, but the header says {lines[1]!r}")
    return lines[2:]


def decode_numbers(data: bytes, columns: int) -> list[tuple[int, ...]]:
    """Return the numbers of each line of a checkpoint. Raises MalformedCheckpoint, also if a line
    does not have `columns` whole numbers."""
    rows = []
    for line in decode_lines(data):
        try:
            row = tuple(map(int, line.split()))
        except ValueError:
            raise MalformedCheckpoint(f"malformed line {line!r}") from None
        if len(row) != columns:
            raise MalformedCheckpoint(f"malformed line {line!r}")
        rows.append(row)
    return rows


def offset_line(name: tuple[str, int], offset: int) -> str:
    """Return the line of one partition, given as (topic, partition), in a checkpoint such as
    recovery-point-offset-checkpoint."""
    topic, partition = name
    return f"{topic} {partition} {offset}"


def decode_offsets(data: bytes) -> dict[tuple[str, int], int]:
    """Return the offsets of a checkpoint by (topic, partition). Raises MalformedCheckpoint."""
    offsets = {}
    for line in decode_lines(data):
        words = line.split()
        try:
            topic, partition, offset = words
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise MalformedCheckpoint(f"malformed line {line!r}") from None
    return offsets


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {uuid_to_string(topic_id)}\n".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """Return the topic id, 16 bytes. Raises MalformedCheckpoint."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if fields["version"] != str(_VERSION):
            raise MalformedCheckpoint(f"unknown version {fields['version']!r}")
        return uuid_from_string(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise MalformedCheckpoint(f"not partition.metadata: {error}") from None


def encode_meta_properties(meta: MetaProperties) -> bytes:
    return (
        f"version={_META_VERSION}\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\n"
        f"directory.id={meta.directory_id}\n"
    ).encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    """Return the contents of meta.properties. Raises MalformedCheckpoint. The error's message
    begins with the verb, and the caller puts the file's name before it."""
    if not data.strip():
        raise MalformedCheckpoint("is empty")
    try:
        lines = [line.strip() for line in data.decode().splitlines()]
    except UnicodeDecodeError:
        raise MalformedCheckpoint("is damaged: it is not text") from None
    fields: dict[str, str] = {}
    for line in lines:
        if line and line[0] not in "#!":
            name, equals, value = line.partition("=")
            if not equals:
                raise MalformedCheckpoint(f"is damaged: {line!r} has no '='")
            fields[name] = value
    missing = [name for name in ("version", "cluster.id", "node.id") if not fields.get(name)]
    if missing:
        raise MalformedCheckpoint(f"is damaged: it has no {' and no '.join(missing)}")
    if fields["version"] != str(_META_VERSION):
        raise MalformedCheckpoint(f"has the unknown version {fields['version']!r}")
    if not fields["node.id"].isdecimal():
        raise MalformedCheckpoint(f"is damaged: node.id is {fields['node.id']!r}")
    return MetaProperties(
        fields["cluster.id"], int(fields["node.id"]), fields.get("directory.id", "")
    )
