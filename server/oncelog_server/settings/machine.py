"""The settings of each of several brokers on one machine (`oncelog.brokers`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.table import SettingValue, format_value
from oncelog_server.storage.layout import OTHER_BROKERS

_PORT: Final = r":(\d+)$"
LAST_PORT: Final = 65_535

# Kafka's defaults are for three machines. Brokers of one machine fail together.
_SINGLE_REPLICAS: Final = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}


def member_settings(settings: Settings, number: int) -> Settings:
    """Return the settings of the broker `number`, from 1 on, of `oncelog.brokers` brokers.

    The ids and ports follow each other. The first broker has the data directory itself, and the
    others have directories in it. Raises ValueError if a port is too high.
    """
    offset = number - 1
    port = port_step(settings) * offset
    own: dict[str, Any] = {
        name.replace(".", "_"): factor
        for name, factor in _SINGLE_REPLICAS.items()
        if name not in settings.given
    }
    own["member"] = number
    if offset:
        first = settings.data_directory
        own["first_broker"] = first
        own["log_dirs"] = (f"{first}/{OTHER_BROKERS}/{number}",)
        own["node_id"] = settings.node_id + offset
        own["broker_id"] = own["node_id"]
        own["listeners"] = _moved(settings.listeners, port)
        if settings.advertised_listeners is not None:
            own["advertised_listeners"] = _moved(settings.advertised_listeners, port)
        if settings.oncelog_metrics_port > 0:
            own["oncelog_metrics_port"] = settings.oncelog_metrics_port + port
    return replace(settings, **own, given={**settings.given, **dict(_texts(own))})


def _texts(own: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
    """Yield the texts that these values have in a file of settings, for DescribeConfigs."""
    for row in HONOURED.values():
        if row.attribute in own:
            yield row.name, format_value(row.kind, own[row.attribute]) or ""


def port_step(settings: Settings) -> int:
    """Return the least difference between the ports of consecutive brokers with which no two
    brokers share a port. It is 1 for a single port."""
    ports = _ports(settings)
    step = 1
    while len({port + step * n for port in ports for n in range(settings.oncelog_brokers)}) < (
        len(ports) * settings.oncelog_brokers
    ):
        step += 1
    return step


def last_port(settings: Settings) -> int:
    """Return the highest port of all brokers, 0 if each takes a free port."""
    return max(_ports(settings), default=0) + port_step(settings) * (settings.oncelog_brokers - 1)


def _ports(settings: Settings) -> set[int]:
    """Return the ports of the first broker. A port of 0 is a free port for each broker."""
    listeners = (re.search(_PORT, listener) for listener in settings.listeners)
    ports = {int(found[1]) for found in listeners if found is not None}
    return {port for port in (*ports, settings.oncelog_metrics_port) if port > 0}


def _moved(listeners: Sequence[str], by: int) -> tuple[str, ...]:
    return tuple(
        re.sub(_PORT, lambda found: f":{int(found[1]) + by if int(found[1]) else 0}", listener)
        for listener in listeners
    )
