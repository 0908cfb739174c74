"""The groups of newer protocols in `__consumer_offsets` (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from struct import Struct
from typing import Final

from oncelog_protocol.internal.group_metadata import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
)
from oncelog_server.inspection.folder_records import records_in_folder
from oncelog_server.storage.files import Files

_TYPE: Final = Struct(">h")
_LENGTH: Final = Struct(">h")


class GroupKind(Enum):
    """The protocol of a group. UNKNOWN: the record's type is newer than this release."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


# The types of a key (Kafka's CoordinatorRecordType), by the kind of group that has the record.
_KINDS: Final = {
    **dict.fromkeys((LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA), GroupKind.CLASSIC),
    **dict.fromkeys((*range(3, 9), 16), GroupKind.CONSUMER),
    **dict.fromkeys(range(9, 16), GroupKind.SHARE),
    **dict.fromkeys(range(17, 24), GroupKind.STREAMS),
}


def groups_by_kind(
    files: Files, root: str, folders: Sequence[str]
) -> dict[GroupKind, dict[str, list[int]]]:
    """Return the groups of a kind, with the types of their records in force.

    `folders` are those of `__consumer_offsets`. Every group may have classic records, because
    committed offsets are records of that kind. Raises StorageError.
    """
    in_force: dict[bytes, None] = {}
    for folder in folders:
        for record in records_in_folder(files, f"{root}/{folder}"):
            if record.key is None:
                continue
            if record.value is None:
                in_force.pop(record.key, None)
            else:
                in_force[record.key] = None
    found: dict[GroupKind, dict[str, list[int]]] = {}
    for key in in_force:
        number = _TYPE.unpack_from(key)[0] if len(key) >= _TYPE.size else -1
        groups = found.setdefault(_KINDS.get(number, GroupKind.UNKNOWN), {})
        types = groups.setdefault(_group_id(key), [])
        if number not in types:
            types.append(number)
    return found


def _group_id(key: bytes) -> str:
    """Return the first field of a key. In all types it is the id of the group."""
    start = _TYPE.size + _LENGTH.size
    if len(key) < start:
        return ""
    (length,) = _LENGTH.unpack_from(key, _TYPE.size)
    return key[start : start + max(length, 0)].decode(errors="replace")
