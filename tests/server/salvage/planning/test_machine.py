"""The recovery of several brokers on one machine: each partition stays with the broker that has its
folder, and no id, epoch or revision goes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    FeaturesRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegistrationRecord,
    TopicRecord,
)
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import Known, Uncertain
from oncelog_server.salvage.planning.lost_metadata import SKIPPED_EPOCHS, SKIPPED_REVISIONS
from oncelog_server.salvage.planning.machine import Machine, OtherBroker
from oncelog_server.salvage.planning.plan import Plan, Planner
from oncelog_server.settings.model import Settings
from tests.server.salvage.planning.sources import ID, OTHER_ID, folder, known

FIRST = MetaProperties("c", 1, "directory-1")
STRAY = f"t-1.{bytes(16).hex()}-stray"


def other(number: int, *folders: FolderFacts, **changes: Any) -> OtherBroker:
    """Return the directory of a broker that has seen revision 40."""
    meta = MetaProperties("c", number, f"directory-{number}")
    paths = (
        msgspec.structs.replace(facts, folder=f"brokers/{number}/{facts.folder}")
        for facts in folders
    )
    return msgspec.structs.replace(OtherBroker(number, meta, 40, 0, tuple(paths)), **changes)


def one(number: int, **changes: Any) -> FolderFacts:
    return folder(folder=f"t-{number}", partition=number, **changes)


def stray(**changes: Any) -> FolderFacts:
    return folder(folder=STRAY, partition=1, is_stray=True, **changes)


def empty(number: int) -> FolderFacts:
    return one(number, log_bytes=0, log_end=0)


def recorded(*replicas: int, partitions: int = 2, epoch: int = 4) -> Known:
    """Return metadata in which partition n of the topic is on the broker `replicas[n]`."""
    id_text = uuid_to_string(ID)
    more: dict[str, Any] = {
        records.topic_key("t"): TopicRecord(id_text, partitions, {}),
        records.FEATURES: FeaturesRecord({}),
    }
    for number, broker in enumerate(replicas):
        record = PartitionRecord((broker,), (broker,), broker, epoch)
        more[records.partition_key(id_text, number)] = record
    return known(more)


def plan(
    first: Sequence[FolderFacts],
    others: Sequence[OtherBroker],
    found: Known | None = None,
    meta: MetaProperties | None = FIRST,
) -> Plan:
    return Planner(
        first,
        found,
        meta,
        features={},
        new_uuid=lambda: b"n" * 16,
        settings=Settings(),
        others=others,
    ).plan()


def values(made: Plan) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in made.snapshot.entries}


def partition(made: Plan, number: int) -> PartitionRecord:
    value = values(made)[records.partition_key(uuid_to_string(ID), number)]
    return records.decode(PartitionRecord, value)


def test_a_partition_belongs_to_the_broker_with_its_folder() -> None:
    made = plan([one(0)], [other(2, one(1)), other(3, one(2, leader_epoch=6))])
    for number, broker in enumerate((1, 2, 3)):
        record = partition(made, number)
        assert (record.replicas, record.isr, record.leader) == ((broker,), (broker,), broker)
        assert record.leader_epoch == 6 + SKIPPED_EPOCHS
    assert not any("will be empty" in note for note in made.notes)


def test_metadata_that_is_the_newest_stays_as_it_is() -> None:
    found = recorded(1, 2)
    made = plan([one(0)], [other(2, one(1))], found)
    assert made.snapshot == found.snapshot
    assert not made.moves


def test_the_longest_log_with_the_latest_epoch_leads() -> None:
    short, long = one(0, log_end=5), one(0, log_end=9)
    made = plan([short], [other(2, long), other(3, one(0, log_end=7))])
    record = partition(made, 0)
    assert (record.replicas, record.leader) == ((1, 2, 3), 2)
    for broker in (1, 2, 3):
        value = values(made)[records.registration_key(broker)]
        registration = records.decode(RegistrationRecord, value)
        assert registration.directory_id == f"directory-{broker}"
        assert (registration.broker_epoch,) == record.isr_epochs


@pytest.mark.parametrize("sign", ["revision", "clean_stop_epoch"])
def test_the_revision_is_above_each_one_that_a_broker_has_seen(sign: str) -> None:
    found = recorded(1, 2)
    made = plan([one(0)], [other(2, one(1), revision=900), other(3, **{sign: 5000})], found)
    assert made.snapshot.revision == 5000 + SKIPPED_REVISIONS + 1
    assert any("the records are older than the folders" in note for note in made.notes)


def test_producer_ids_and_epochs_of_other_brokers_count() -> None:
    made = plan([one(0)], [other(2, one(1, producer_id=70_000, leader_epoch=9))], recorded(1, 2))
    value = values(made)[records.PRODUCER_IDS]
    assert records.decode(ProducerIdsRecord, value).next_producer_id > 70_000
    assert partition(made, 0).leader_epoch == 9 + SKIPPED_EPOCHS


def test_a_partition_that_has_moved_since_has_its_new_broker() -> None:
    record = partition(plan([one(0)], [other(2, one(1))], recorded(1, 1)), 1)
    assert (record.replicas, record.leader) == ((2,), 2)


def test_a_folder_that_a_move_has_left_behind_changes_nothing() -> None:
    found = recorded(1, 2)
    assert plan([one(0), one(1)], [other(2, one(1))], found).snapshot == found.snapshot


def test_a_stray_takes_the_place_of_an_empty_log_of_another_broker() -> None:
    made = plan([one(0), empty(1)], [other(2, stray())], recorded(1, 1))
    assert made.moves == [(f"brokers/2/{STRAY}", "brokers/2/t-1")]
    assert made.stray_directories == {"brokers/2"}
    record = partition(made, 1)
    assert (record.replicas, record.isr, record.leader) == ((2,), (2,), 2)


@pytest.mark.parametrize(
    "present", [one(1), one(1, log_bytes=0, log_end=8)], ids=["records", "expired records"]
)
def test_a_stray_stays_if_another_broker_has_the_partition(present: FolderFacts) -> None:
    found = recorded(1, 1)
    made = plan([one(0), present], [other(2, stray())], found)
    assert (made.moves, made.snapshot) == ([], found.snapshot)
    assert made.left == [(f"brokers/2/{STRAY}", "t-1 is there already")]


def test_all_replicas_with_the_same_damaged_topic_id_are_taken() -> None:
    short, long = (one(1, topic_id=OTHER_ID, log_end=end) for end in (5, 9))
    made = plan([one(0, log_bytes=900), short], [other(2, one(0)), other(3, long)])
    record = partition(made, 1)
    assert (record.replicas, record.leader) == ((1, 3), 3)
    assert made.relabelled == {"t-1": ID, "brokers/3/t-1": ID}
    assert not made.moves


def test_partitions_of_a_broker_without_a_directory_stay_its_own() -> None:
    """They do not begin anew on another broker: the directory may come back."""
    made = plan([one(0)], [other(2, revision=50)], recorded(1, 3))
    record = partition(made, 1)
    assert (record.replicas, record.leader) == ((3,), 3)
    assert any("it is on broker 3, which has no directory here" in note for note in made.notes)
    assert made.without_folder == 0


def test_partitions_of_other_brokers_stay_theirs_if_only_the_first_directory_is_left() -> None:
    found = recorded(1, 2)
    made = plan([one(0)], [], found)
    assert made.snapshot == found.snapshot
    assert any("it is on broker 2, which has no directory here" in note for note in made.notes)
    assert not any("will be empty" in note for note in made.notes)


def test_lost_ids_follow_from_those_of_another_broker() -> None:
    second = MetaProperties("c", 8, "directory-8")
    made = plan([one(0)], [other(2, meta=second), other(3, one(1), meta=None)], meta=None)
    assert {path: (meta.node_id, meta.cluster_id) for path, meta in made.metas.items()} == {
        "": (7, "c"),
        "brokers/2": (8, "c"),
        "brokers/3": (9, "c"),
    }
    assert made.metas["brokers/2"] == second
    assert "brokers/3/meta.properties is written, for node 9" in made.notes
    assert not made.draws_cluster_id
    assert partition(made, 1).leader == 9


def test_directories_of_different_clusters_or_of_the_same_broker_are_refused() -> None:
    with pytest.raises(Uncertain, match="brokers/2 belongs to cluster d"):
        Machine(FIRST, [other(2, meta=MetaProperties("d", 2, "directory-2"))])
    with pytest.raises(Uncertain, match="the data directory and brokers/2 are both of broker 1"):
        plan([], [other(2, meta=FIRST)])
