"""The sources of a recovery in tests: the directories of three brokers with a topic of one
partition, and older metadata. `plan` makes the plan."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    ClusterRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegistrationRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Entry, Put, Snapshot
from oncelog_server.salvage.planning.directories import SurveyedDirectory
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import Known
from oncelog_server.salvage.planning.restoration import Restoration, Restorer

ID = bytes(range(16))

OTHER_ID = bytes(range(1, 17))

BROKERS = (1, 2, 3)


def folder(**changes: Any) -> FolderFacts:
    """Return a folder without damage, unless `changes` describe its damage."""
    facts = FolderFacts("t-0", "t", 0, False, ID, 100, 0, -1, log_end=1)
    facts = msgspec.structs.replace(facts, **changes)
    whole = {"whole_end": facts.log_end, "whole_epoch": facts.leader_epoch}
    return msgspec.structs.replace(facts, **(whole | changes))


def directory(node_id: int, *folders: FolderFacts, **changes: Any) -> SurveyedDirectory:
    made = SurveyedDirectory(node_id, "c", f"directory-{node_id}", 50, 0, folders)
    return msgspec.structs.replace(made, **changes)


def known(more: Mapping[str, Any] = MappingProxyType({})) -> Known:
    """Return metadata with a topic of one partition, and the records in `more`."""
    values = {
        records.CLUSTER: ClusterRecord("c"),
        records.PRODUCER_IDS: ProducerIdsRecord(5000),
        records.topic_key("t"): TopicRecord(uuid_to_string(ID), 1, {"retention.ms": "7"}),
        records.partition_key(uuid_to_string(ID), 0): PartitionRecord(BROKERS, BROKERS, 2, 4),
        records.registration_key(1): RegistrationRecord("directory-1"),
        **more,
    }
    entries = (Entry(key, records.encode(value), 9, 9) for key, value in sorted(values.items()))
    return Known(Snapshot(40, tuple(entries)), is_last=True, source="export")


def plan(
    directories: list[SurveyedDirectory],
    found: Known | None = None,
    brokers: tuple[int, ...] = (),
    without: tuple[int, ...] = (),
) -> Restoration:
    return Restorer(
        directories,
        found,
        brokers=brokers,
        without=without,
        features={"transaction.version": 2},
        internal_settings={},
    ).plan()


def values(writes: tuple[Put, ...]) -> dict[str, bytes]:
    return {write.key: write.value for write in writes}


def partition(made: Restoration, number: int = 0, topic_id: bytes = ID) -> PartitionRecord:
    key = records.partition_key(uuid_to_string(topic_id), number)
    return records.decode(PartitionRecord, values(made.writes)[key])


def next_producer_id(made: Restoration) -> int:
    value = values(made.writes)[records.PRODUCER_IDS]
    return records.decode(ProducerIdsRecord, value).next_producer_id


WHOLE = [directory(broker_id, folder()) for broker_id in BROKERS]
