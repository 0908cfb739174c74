"""Changes of a topic's own settings: all of them (AlterConfigs) or some (IncrementalAlterConfigs).

Checks, codes and messages are those of Kafka's ConfigurationControlManager (KIP-339).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import Write, Written
from oncelog_server.cluster.topic_writes import topic_put
from oncelog_server.cluster.topics import checked_settings
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.settings.table import Kind, format_value
from oncelog_server.settings.topics import TOPIC_SETTINGS, topic_default


class AlterOperation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(msgspec.Struct, frozen=True):
    """A change of one setting. `text` may be None for DELETE only (see `altered_settings`)."""

    name: str
    operation: AlterOperation
    text: str | None


def replaced_settings(own: Mapping[str, str | None]) -> dict[str, str]:
    """Return a topic's own settings after AlterConfigs: exactly those of the request.

    Raises Refused with INVALID_REQUEST if a setting has no value.
    """
    missing = [name for name, text in own.items() if text is None]
    if missing:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}"
        )
    return {name: text for name, text in own.items() if text is not None}


def check_values(alterations: Sequence[Alteration]) -> None:
    """Raise Refused with INVALID_REQUEST if a value is missing."""
    missing = [
        alteration.name
        for alteration in alterations
        if alteration.text is None and alteration.operation is not AlterOperation.DELETE
    ]
    if missing:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}"
        )


def altered_settings(
    settings: Settings, before: Mapping[str, str], alterations: Sequence[Alteration]
) -> dict[str, str]:
    """Return a topic's own settings after IncrementalAlterConfigs.

    Raises Refused with INVALID_REQUEST if a value is missing, with INVALID_CONFIG for APPEND or
    SUBTRACT on a setting that is not a list.
    """
    check_values(alterations)
    after = dict(before)
    for alteration in alterations:
        if alteration.operation is AlterOperation.DELETE:
            after.pop(alteration.name, None)
        elif alteration.operation is AlterOperation.SET:
            after[alteration.name] = alteration.text or ""
        else:
            after[alteration.name] = _altered_list(settings, after, alteration)
    return after


def alter_topic(
    image: ClusterImage, settings: Settings, name: str, own: Mapping[str, str]
) -> list[Write]:
    """Return the writes that replace a topic's own settings. Return no writes if the topic has
    exactly these settings already.

    Raises Refused if the topic does not exist or a setting is invalid.
    """
    topic = image.topics.get(name)
    checked = checked_settings(settings, own, {} if topic is None else topic.settings)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if checked == topic.settings:
        return []
    put = topic_put(topic, settings=checked)
    return [Write((Written(put.key, topic.revision),), (put,))]


def _altered_list(settings: Settings, before: Mapping[str, str], alteration: Alteration) -> str:
    row = TOPIC_SETTINGS.get(alteration.name)
    if row is None or row.kind is not Kind.LIST:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Can't {alteration.operation.name} to key {alteration.name} because its type"
            " is not LIST.",
        )
    text = before.get(alteration.name)
    if text is None:
        text = format_value(Kind.LIST, topic_default(settings, alteration.name)) or ""
    return list_after(text, alteration)


def list_after(text: str, alteration: Alteration) -> str:
    """Return the value of a list after APPEND or SUBTRACT. `text` is the value before."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in (alteration.text or "").split(","):
        if alteration.operation is AlterOperation.SUBTRACT:
            parts = [other for other in parts if other != part]
        elif part not in parts:
            parts.append(part)
    return ",".join(parts)
