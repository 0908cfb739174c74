"""The control records of a snapshot of `__cluster_metadata` (KIP-630, KIP-853).

The key has version and type as int16, the value is the message without a prefix.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from oncelog_protocol.codecs import encoder
from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, int64, nested, string, uint16, uuid

_KEY: Final = Struct(">hh")  # version, type


@message(range(0, 1), flexible_since=0)
class SnapshotHeaderRecord:
    """The first record of a snapshot. The timestamp is that of the last record of the log that the
    snapshot contains, in ms."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


@message(range(0, 1), flexible_since=0)
class SnapshotFooterRecord:
    """The last record of a snapshot."""

    version: int = int16()


@message(range(0, 1), flexible_since=0)
class KRaftVersionRecord:
    """The finalized level of kraft.version. From level 1 on, the log names its voters."""

    version: int = int16()
    kraft_version: int = int16()


@struct
class Endpoint:
    """The address of a voter's controller listener."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class KRaftVersionFeature:
    """The levels of kraft.version that a voter supports."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


@struct
class Voter:
    """A controller: its node id, and the id of its directory."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


@message(range(0, 1), flexible_since=0)
class VotersRecord:
    """All voters."""

    version: int = int16()
    voters: list[Voter] = array(Voter)


_TYPES: Final = {
    SnapshotHeaderRecord: 3,
    SnapshotFooterRecord: 4,
    KRaftVersionRecord: 5,
    VotersRecord: 6,
}


def encode_kraft_control(record: object) -> tuple[bytes, bytes]:
    """Return key and value of a control record."""
    parts: list[bytes] = []
    encoder(type(record), 0)(record, parts.append)
    return _KEY.pack(0, _TYPES[type(record)]), b"".join(parts)
