"""Changes of a topic's own settings: all of them (AlterConfigs) or some (IncrementalAlterConfigs).

Checks, codes and messages are those of Kafka's ConfigurationControlManager (KIP-339).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import Write, Written
from oncelog_server.cluster.topic_names import check_topic_name
from oncelog_server.cluster.topic_writes import topic_put
from oncelog_server.cluster.topics import checked_settings
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.settings.table import Kind, format_value
from oncelog_server.settings.topics import TOPIC_SETTINGS


class AlterOperation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(AlterOperation)


class Alteration(msgspec.Struct, frozen=True):
    """A change of one setting. `operation` may be unknown, and `text` may be None for DELETE only
    (see `check_alterations`)."""

    name: str
    operation: int
    text: str | None


def replaced_settings(own: Mapping[str, str | None]) -> dict[str, str]:
    """Return a topic's own settings after AlterConfigs: exactly those of the request.

    Raises Refused with INVALID_REQUEST if a setting has no value.
    """
    refuse_missing([name for name, text in own.items() if text is None])
    return {name: text for name, text in own.items() if text is not None}


def check_alterations(alterations: Sequence[Alteration]) -> None:
    """Raise Refused with INVALID_REQUEST if a value is missing or an operation is unknown."""
    refuse_missing(
        [
            alteration.name
            for alteration in alterations
            if alteration.text is None and alteration.operation != AlterOperation.DELETE
        ]
    )
    for alteration in alterations:
        if alteration.operation not in _OPERATIONS:
            message = f"Unknown operations type {alteration.operation}"
            raise Refused(ErrorCode.INVALID_REQUEST, message)


def refuse_missing(names: Sequence[str]) -> None:
    """Raise Refused with INVALID_REQUEST if there are `names`, settings that lack a value."""
    if names:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(names)}"
        )


def altered_settings(
    before: Mapping[str, str], alterations: Sequence[Alteration]
) -> dict[str, str]:
    """Return a topic's own settings after IncrementalAlterConfigs.

    Raises Refused with INVALID_REQUEST if a value is missing or an operation is unknown, with
    INVALID_CONFIG for APPEND or SUBTRACT on a setting that is not a list.
    """
    check_alterations(alterations)
    after = dict(before)
    for alteration in alterations:
        if alteration.operation == AlterOperation.DELETE:
            after.pop(alteration.name, None)
        elif alteration.operation == AlterOperation.SET:
            after[alteration.name] = alteration.text or ""
        else:
            after[alteration.name] = _altered_list(after, alteration)
    return after


def alter_topic(
    image: ClusterImage, settings: Settings, name: str, own: Mapping[str, str]
) -> list[Write]:
    """Return the writes that replace a topic's own settings. Return no writes if the topic has
    exactly these settings already.

    Raises Refused if the topic does not exist, or if its name or a setting is invalid.
    """
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)
    topic = image.topics.get(name)
    checked = checked_settings(settings, own, {} if topic is None else topic.settings)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if checked == topic.settings:
        return []
    put = topic_put(topic, settings=checked)
    return [Write((Written(put.key, topic.revision),), (put,))]


def _altered_list(before: Mapping[str, str], alteration: Alteration) -> str:
    """Return the list after APPEND or SUBTRACT. As in Kafka, a list that the topic does not set is
    the setting's default before, whatever the broker's setting is."""
    row = TOPIC_SETTINGS.get(alteration.name)
    if row is None or row.kind is not Kind.LIST:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Can't {AlterOperation(alteration.operation).name} to key {alteration.name} because "
            "its type is not LIST.",
        )
    text = before.get(alteration.name)
    if text is None:
        text = format_value(Kind.LIST, row.default) or ""
    return list_after(text, alteration)


def list_after(text: str, alteration: Alteration) -> str:
    """Return the value of a list after APPEND or SUBTRACT. `text` is the value before.

    As in Kafka, entries are compared with their blanks, and SUBTRACT removes the first of equal
    entries.
    """
    parts = [part for part in text.split(",") if part]
    altered = _split(alteration.text or "")
    if alteration.operation == AlterOperation.APPEND:
        present = set(parts)
        new = [part for part in dict.fromkeys(altered) if part not in present]
        return ",".join(parts + new)
    removals = Counter(altered)
    kept: list[str] = []
    for part in parts:
        if removals[part]:
            removals[part] -= 1
        else:
            kept.append(part)
    return ",".join(kept)


def _split(text: str) -> list[str]:
    """Return the entries of a text as Java's String.split does: without the empty ones at the end,
    and a single empty one for an empty text."""
    kept = text.rstrip(",")
    return kept.split(",") if kept or not text else []
