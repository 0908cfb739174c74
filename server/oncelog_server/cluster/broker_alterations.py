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
    check_alterations,
    list_after,
)
from oncelog_server.refusal import Refused
from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.dynamic import check_change
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.table import InvalidValue, Kind, format_value
from oncelog_server.settings.thread_counts import check_steps

ALL_BROKERS: Final = ""
_MIN_ISR: Final = "min.insync.replicas"


def altered_broker_settings(
    before: Mapping[str, str], alterations: Sequence[Alteration]
) -> dict[str, str]:
    """Return the dynamic settings after IncrementalAlterConfigs.

    Raises Refused with INVALID_REQUEST if a value is missing or an operation is unknown, with
    INVALID_CONFIG for APPEND or SUBTRACT on a setting that is unknown or is not a list.
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


def alter_broker(
    image: ClusterImage, settings: Settings, name: str, own: Mapping[str, str]
) -> list[Write]:
    """Return the writes that replace the dynamic settings of a broker, or those of all brokers for
    the name ALL_BROKERS. Return no writes if nothing changes.

    `settings` are those of this broker. Raises Refused with INVALID_REQUEST for a setting that is
    not dynamic or not valid, and for a number of threads that changes by more than a factor of two.
    Raises Refused with INVALID_CONFIG if min.insync.replicas changes for a single broker, or is
    removed for all brokers: the election of leaders needs a value that all brokers share.
    """
    found = image.broker_config(name)
    before = found.settings
    try:
        check_change(settings, own, _layers(image, name, own))
        here = (settings.dynamic, own) if name == ALL_BROKERS else _layers(image, name, own)[0]
        check_steps(settings, (settings.dynamic, settings.dynamic_defaults), here)
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
    name = alteration.name
    row = HONOURED.get(name) or ACCEPTED.get(name) or REFUSED.get(name)
    if row is None:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if row.kind is not Kind.LIST:
        operation = AlterOperation(alteration.operation).name.lower()
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Config value {operation} is not allowed for config key: {name}",
        )
    text = before.get(name)
    if text is None:
        default = row.default
        text = default if isinstance(default, str) else format_value(Kind.LIST, default)
    return list_after(text or "", alteration)
