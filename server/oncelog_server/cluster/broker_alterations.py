"""Changes of the dynamic settings of one broker, or of all brokers.

Checks, codes and messages are those of Kafka's ConfigAdminManager and ConfigurationControlManager
(KIP-226, KIP-339, KIP-966).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import ConfigRecord
from oncelog_server.cluster.store import Delete, Put, Write, Written
from oncelog_server.cluster.topic_alterations import (
    Alteration,
    AlterOperation,
    check_values,
    list_after,
)
from oncelog_server.refusal import Refused
from oncelog_server.settings.dynamic import check_change, dynamic_row
from oncelog_server.settings.model import Settings
from oncelog_server.settings.table import InvalidValue, Kind, format_value

ALL_BROKERS: Final = ""
_MIN_ISR: Final = "min.insync.replicas"


def altered_broker_settings(
    before: Mapping[str, str], alterations: Sequence[Alteration]
) -> dict[str, str]:
    """Return the dynamic settings after IncrementalAlterConfigs.

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
            after[alteration.name] = _altered_list(after, alteration)
    return after


def alter_broker(
    image: ClusterImage, settings: Settings, name: str, own: Mapping[str, str]
) -> list[Write]:
    """Return the writes that replace the dynamic settings of a broker, or those of all brokers for
    the name ALL_BROKERS. Return no writes if nothing changes.

    `settings` are those of this broker. Raises Refused with INVALID_REQUEST for a setting that is
    not dynamic or not valid. Raises Refused with INVALID_CONFIG if min.insync.replicas changes for
    a single broker, or is removed for all brokers: the election of leaders needs a value that all
    brokers share.
    """
    found = image.broker_config(name)
    before = found.settings
    try:
        topics = {topic.name: topic.settings for topic in image.topics.values()}
        check_change(settings, own, _layers(image, name, own), topics)
    except InvalidValue as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error
    if name != ALL_BROKERS and before.get(_MIN_ISR) != own.get(_MIN_ISR):
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    if name == ALL_BROKERS and _MIN_ISR in before and _MIN_ISR not in own:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )
    if own == before:
        return []
    key = records.broker_config_key(name)
    change = Put(key, records.encode(ConfigRecord(dict(own)))) if own else Delete(key)
    return [Write((Written(key, found.revision),), (change,))]


def _layers(
    image: ClusterImage, name: str, own: Mapping[str, str]
) -> list[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Return the settings of each broker that the change concerns, over those of all brokers."""
    if name != ALL_BROKERS:
        return [(own, image.broker_config(ALL_BROKERS).settings)]
    brokers = [found.settings for key, found in image.configs.items() if key != ALL_BROKERS]
    return [(broker, own) for broker in ({}, *brokers)]


def _altered_list(before: Mapping[str, str], alteration: Alteration) -> str:
    row = dynamic_row(alteration.name)
    if row is None or row.kind is not Kind.LIST:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Config value {alteration.operation.name.lower()} is not allowed for config key: "
            f"{alteration.name}",
        )
    text = before.get(alteration.name)
    if text is None:
        text = format_value(Kind.LIST, row.default) or ""
    return list_after(text, alteration)
