"""The plan of a recovery: no committed record is lost, no id or epoch goes back, and what is not
certain is refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    ClusterRecord,
    DeletionRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegistrationRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Entry, Put, Snapshot
from oncelog_server.salvage.planning.evidence import FolderFacts
from oncelog_server.salvage.planning.known import Known
from oncelog_server.salvage.planning.plan import SKIPPED_IDS
from oncelog_server.salvage.planning.restoration import (
    DirectoryFacts,
    Restoration,
    Restorer,
    Uncertain,
    last_revision,
    restored_export,
)

ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
BROKERS = (1, 2, 3)
Log = list[tuple[int, int]]


class Replication:
    """A partition with three replicas, as the brokers keep it. A record is its leader epoch and a
    number. `committed` are the records that all replicas of the ISR have had, while it had two
    members."""

    def __init__(self) -> None:
        self.logs: dict[int, Log] = {broker_id: [] for broker_id in BROKERS}
        # The epochs that leaders have noted without a record yet.
        self.noted = dict.fromkeys(BROKERS, -1)
        self.leader, self.epoch, self.isr = 1, 0, set(BROKERS)
        self.committed: Log = []

    def step(self, action: str, broker_id: int) -> None:
        getattr(self, action)(broker_id)
        self._commit()

    def append(self, _: int) -> None:
        log = self.logs[self.leader]
        log.append((self.epoch, len(log)))

    def fetch(self, broker_id: int) -> None:
        if broker_id == self.leader:
            return
        same = self._same(broker_id)
        log, leaders = self.logs[broker_id], self.logs[self.leader]
        if same < len(log) or same < len(leaders):
            self.noted[broker_id] = -1
        self.logs[broker_id] = leaders[: same + 1]
        if len(leaders) <= same + 1 and self._reaches(broker_id):
            self.isr.add(broker_id)

    def shrink(self, broker_id: int) -> None:
        if broker_id != self.leader:
            self.isr.discard(broker_id)

    def elect(self, broker_id: int) -> None:
        if broker_id in self.isr:
            self.leader, self.epoch = broker_id, self.epoch + 1
            self.noted[broker_id] = self.epoch

    def _same(self, broker_id: int) -> int:
        pairs = zip(self.logs[broker_id], self.logs[self.leader], strict=False)
        return next(
            (at for at, (own, leaders) in enumerate(pairs) if own != leaders),
            min(len(self.logs[broker_id]), len(self.logs[self.leader])),
        )

    def _reaches(self, broker_id: int) -> bool:
        return self._same(broker_id) >= len(self.committed)

    def _commit(self) -> None:
        if len(self.isr) >= 2:
            end = min(len(self.logs[b]) if b == self.leader else self._same(b) for b in self.isr)
            if end > len(self.committed):
                self.committed = self.logs[self.leader][:end]

    def directories(self) -> list[DirectoryFacts]:
        return [
            directory(
                broker_id,
                folder(
                    leader_epoch=max([self.noted[broker_id], *(epoch for epoch, _ in log)]),
                    log_end=len(log),
                    log_bytes=100 * len(log),
                ),
            )
            for broker_id, log in self.logs.items()
        ]


def folder(**changes: Any) -> FolderFacts:
    """Return a whole folder, unless `changes` say where its damage is."""
    facts = FolderFacts("t-0", "t", 0, False, ID, 100, 0, -1, log_end=1)
    facts = msgspec.structs.replace(facts, **changes)
    whole = {"whole_end": facts.log_end, "whole_epoch": facts.leader_epoch}
    return msgspec.structs.replace(facts, **(whole | changes))


def directory(node_id: int, *folders: FolderFacts, **changes: Any) -> DirectoryFacts:
    made = DirectoryFacts(node_id, "c", f"directory-{node_id}", 50, 0, folders)
    return msgspec.structs.replace(made, **changes)


def known(more: Mapping[str, Any] = MappingProxyType({})) -> Known:
    """Return metadata with a topic of one partition, and further records."""
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
    directories: list[DirectoryFacts],
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


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "fetch", "fetch", "fetch", "shrink", "elect"]),
        st.sampled_from(BROKERS),
    ),
    max_size=60,
)


# The former leader has the longer log, and none of its later records is committed.
DEPOSED = [
    *(("append", 1), ("append", 1), ("append", 1), ("elect", 2)),
    *(("append", 2), ("fetch", 3), ("shrink", 1)),
]


@example(steps=DEPOSED, lost=None)
@given(steps=steps, lost=st.sampled_from([None, *BROKERS]))
def test_the_leader_has_every_committed_record(
    steps: list[tuple[str, int]], lost: int | None
) -> None:
    """Also if one directory is lost, as long as two replicas had to acknowledge."""
    replication = Replication()
    for step in steps:
        replication.step(*step)
    directories = [d for d in replication.directories() if d.node_id != lost]
    without = () if lost is None else (lost,)
    made = partition(plan(directories, None, BROKERS, without))
    assert replication.logs[made.leader][: len(replication.committed)] == replication.committed
    assert made.isr == (made.leader,)
    assert made.leader_epoch > replication.epoch


@given(
    epochs=st.lists(st.integers(-1, 10_000), min_size=3, max_size=3),
    ids=st.lists(st.integers(-1, 10**9), min_size=3, max_size=3),
    revisions=st.lists(st.integers(1, 10**6), min_size=3, max_size=3),
    stops=st.lists(st.integers(0, 10**6), min_size=3, max_size=3),
    has_metadata=st.booleans(),
)
def test_nothing_goes_back(
    epochs: list[int], ids: list[int], revisions: list[int], stops: list[int], has_metadata: bool
) -> None:
    directories = [
        directory(
            node_id,
            folder(leader_epoch=epoch, producer_id=producer_id),
            revision=revision,
            clean_stop_epoch=stop,
        )
        for node_id, epoch, producer_id, revision, stop in zip(
            BROKERS, epochs, ids, revisions, stops, strict=True
        )
    ]
    made = plan(directories, known() if has_metadata else None, BROKERS)
    record = partition(made)
    assert record.leader_epoch >= max(epochs)
    assert next_producer_id(made) > max(ids)
    assert made.floor > max(*revisions, *stops)
    assert made.revision >= max(revisions)
    if has_metadata:
        assert record.leader_epoch >= 4
        assert next_producer_id(made) >= 5000
        assert made.floor > 40


def test_metadata_that_nothing_contradicts_stays_as_it_is() -> None:
    clean = [
        directory(b, folder(leader_epoch=4, producer_id=4999), clean_stop_epoch=9, revision=40)
        for b in BROKERS
    ]
    made = plan(clean, known())
    assert partition(made) == PartitionRecord(BROKERS, BROKERS, 2, 4)
    assert next_producer_id(made) == 5000
    registration = values(made.writes)[records.registration_key(1)]
    assert records.decode(RegistrationRecord, registration).broker_epoch == 9


@pytest.mark.parametrize(
    "newer",
    [
        {"revision": 41},
        {"clean_stop_epoch": 0},
        {"folders": (folder(leader_epoch=5),)},
        {"folders": (folder(producer_id=5000),)},
        {"folders": (folder(folder="t-1", partition=1),)},
    ],
)
def test_metadata_that_a_directory_is_ahead_of_is_not_the_last(newer: dict[str, Any]) -> None:
    facts = {"clean_stop_epoch": 9, "revision": 40}
    directories = [
        directory(1, folder(leader_epoch=4), **facts),
        directory(2, folder(leader_epoch=4), **facts),
        directory(3, folder(leader_epoch=4), **(facts | newer)),
    ]
    made = plan(directories, known(), BROKERS)
    assert next_producer_id(made) >= 5000 + SKIPPED_IDS
    assert len(partition(made).isr) == 1
    registration = values(made.writes)[records.registration_key(3)]
    assert records.decode(RegistrationRecord, registration).broker_epoch == made.floor


def test_settings_come_from_the_metadata_and_new_topics_keep_everything() -> None:
    new = folder(folder="new-1", topic="new", partition=1, topic_id=OTHER_ID)
    made = plan([directory(b, folder(), new) for b in BROKERS], known(), BROKERS)
    written = values(made.writes)
    old = records.decode(TopicRecord, written[records.topic_key("t")])
    added = records.decode(TopicRecord, written[records.topic_key("new")])
    assert old.settings == {"retention.ms": "7"}
    assert (added.partitions, added.settings["retention.ms"]) == (2, "-1")
    assert partition(made, 1, OTHER_ID).replicas == BROKERS


def test_folders_of_deleted_topics_and_strays_do_not_come_back() -> None:
    deleted = {records.deletion_key(uuid_to_string(OTHER_ID)): DeletionRecord("old", 1)}
    old = folder(folder="old-0", topic="old", topic_id=OTHER_ID)
    stray = folder(folder="s-0.x-stray", topic="s", is_stray=True, topic_id=bytes(16))
    made = plan([directory(b, folder(), old, stray) for b in BROKERS], known(deleted), BROKERS)
    topics = {key for key in values(made.writes) if key.startswith(records.TOPICS)}
    assert topics == {records.topic_key("t")}
    assert any("rename it to s-0 before" in note for note in made.notes)


def test_a_damaged_log_counts_up_to_its_damage() -> None:
    """The start cuts it there, and the others would follow. Its epochs and ids still count."""
    damaged = folder(leader_epoch=9, producer_id=7000, log_end=100, whole_end=50, whole_epoch=3)
    whole = folder(leader_epoch=3, log_end=80)
    directories = [directory(1, damaged), directory(2, whole), directory(3, folder(log_end=10))]
    made = plan(directories, None, BROKERS)
    assert partition(made).leader == 2
    assert partition(made).leader_epoch > 9
    assert next_producer_id(made) > 7000
    assert "broker 1: t-0 is damaged at offset 50, with batches up to 100" in made.notes
    assert not any("t-0 is damaged" in note for note in plan(WHOLE, None, BROKERS).notes)


def test_a_topic_that_no_metadata_has_comes_back_also_from_a_clean_directory() -> None:
    """An etcd from an older copy counts its revisions on, so they do not prove a deletion."""
    clean = {"clean_stop_epoch": 9, "revision": 40}
    old = folder(folder="old-0", topic="old", topic_id=OTHER_ID)
    made = plan([directory(b, folder(), old, **clean) for b in BROKERS], known())
    assert records.topic_key("old") in values(made.writes)
    assert any("If it was deleted, delete it again" in note for note in made.notes)


SUSPECTED = "topic t comes back, although it may have been deleted: its folders are missing on "
CLEAN = {"clean_stop_epoch": 9, "revision": 40}


@pytest.mark.parametrize(
    ("on_disk", "record", "without", "missing"),
    [
        ((), {}, (), "brokers 1, 2, 3."),
        ((3,), {}, (), "brokers 1, 2."),  # it was down
        ((), {}, (3,), "brokers 1, 2."),
        ((1, 2, 3), {}, (), ""),
        ((1, 2), {}, (3,), ""),
        ((), {"replicas": (3,)}, (3,), ""),
        ((1,), {"replicas": (2,)}, (), ""),  # moved since
        ((), {"replicas": (2,)}, (), "broker 2."),
        ((1, 2), {"adding": (3,)}, (), ""),  # cancelled since
        ((2, 3), {"removing": (1,)}, (), ""),  # ended since
    ],
)
def test_a_topic_that_lacks_folders_is_suspected_of_a_deletion(
    on_disk: tuple[int, ...], record: dict[str, Any], without: tuple[int, ...], missing: str
) -> None:
    before = msgspec.structs.replace(PartitionRecord(BROKERS, BROKERS, 2, 4), **record)
    found = known({records.partition_key(uuid_to_string(ID), 0): before})
    directories = [
        directory(b, *([folder()] if b in on_disk else ()), **CLEAN | {"revision": 45})
        for b in BROKERS
        if b not in without
    ]
    made = plan(directories, found, BROKERS, without)
    notes = [note for note in made.notes if "may have been deleted" in note]
    assert records.topic_key("t") in values(made.writes)
    assert len(notes) == bool(missing)
    assert all(note.startswith(SUSPECTED + missing) for note in notes)


def test_a_topic_with_a_whole_partition_is_in_use() -> None:
    """A reassignment has reduced the replicas of the other one."""
    key = records.partition_key(uuid_to_string(ID), 1)
    found = known({key: PartitionRecord(BROKERS, BROKERS, 2, 4)})
    whole = folder(folder="t-1", partition=1)
    directories = [directory(1, folder(), whole), *(directory(b, whole) for b in (2, 3))]
    made = plan(directories, found, BROKERS)
    assert not any("may have been deleted" in note for note in made.notes)


def test_a_partition_that_only_a_lost_broker_had_does_not_clear_a_topic() -> None:
    found = known(
        {
            records.topic_key("t"): TopicRecord(uuid_to_string(ID), 2, {}),
            records.partition_key(uuid_to_string(ID), 1): PartitionRecord((3,), (3,), 3, 4),
        }
    )
    made = plan([directory(1), directory(2)], found, BROKERS, without=(3,))
    assert any(note.startswith(SUSPECTED + "brokers 1, 2.") for note in made.notes)


def test_no_topic_of_the_last_metadata_is_suspected_of_a_deletion() -> None:
    """A broker that was killed early may not have made its folders yet."""
    made = plan([directory(b, **CLEAN) for b in BROKERS], known())
    assert not any("may have been deleted" in note for note in made.notes)


def test_no_internal_topic_is_suspected_of_a_deletion() -> None:
    """To delete it again would cost all offsets of groups."""
    internal = "__consumer_offsets"
    other = uuid_to_string(OTHER_ID)
    found = known(
        {
            records.topic_key(internal): TopicRecord(other, 1, {}),
            records.partition_key(other, 0): PartitionRecord(BROKERS, BROKERS, 2, 4),
        }
    )
    made = plan([directory(b, folder()) for b in BROKERS], found, BROKERS)
    assert not any("may have been deleted" in note for note in made.notes)


def test_a_partition_that_only_a_lost_broker_had_gets_a_leader() -> None:
    key = records.partition_key(uuid_to_string(ID), 0)
    found = known({key: PartitionRecord((3,), (3,), 3, 4)})
    made = plan([directory(1), directory(2)], found, BROKERS, without=(3,))
    record = partition(made)
    assert (record.replicas, record.isr, record.leader) == ((3, 1), (1,), 1)


def test_a_restoration_counts_only_for_directories_that_have_seen_it() -> None:
    """The metadata of an older export is not newer, because the import has raised revisions."""
    clean = {"clean_stop_epoch": 9, "revision": 45}
    found = known({records.RESTORED: records.RestoredRecord(40)})
    entries = tuple(
        msgspec.structs.replace(entry, mod_revision=10_050) for entry in found.snapshot.entries
    )
    found = msgspec.structs.replace(found, snapshot=Snapshot(10_050, entries))
    with pytest.raises(Uncertain, match="has seen revision 45: name all of them with --brokers"):
        plan([directory(b, folder(), **clean) for b in BROKERS], found)
    seen = clean | {"revision": 10_050, "restored_at": 10_050}
    made = plan([directory(b, folder(leader_epoch=4), **seen) for b in BROKERS], found)
    assert next_producer_id(made) == 5000


def test_a_raised_revision_does_not_make_metadata_the_last() -> None:
    clean = [directory(b, folder(), clean_stop_epoch=9) for b in BROKERS]
    old = known()
    raised = msgspec.structs.replace(old, snapshot=Snapshot(1_000_000, old.snapshot.entries))
    assert last_revision(raised, clean) == 9
    assert last_revision(old, clean) == 40
    with pytest.raises(Uncertain, match="no broker has seen a revision near 1000000"):
        plan(clean, raised)
    assert next_producer_id(plan(clean, raised, BROKERS)) >= 5000 + SKIPPED_IDS


WHOLE = [directory(broker_id, folder()) for broker_id in BROKERS]
ANOTHER = directory(3, folder(topic_id=OTHER_ID))
EMPTY = [directory(broker_id, folder(log_bytes=0)) for broker_id in BROKERS]
UNCERTAIN: list[tuple[str, list[DirectoryFacts], Known | None, dict[str, Any]]] = [
    ("no data directory", [], known(), {}),
    ("broker 3 is missing", WHOLE[:2], known(), {}),
    ("--brokers", WHOLE, None, {}),
    ("broker 4 is missing", WHOLE, None, {"brokers": (1, 2, 3, 4)}),
    ("two directories are of broker 3", [*WHOLE, WHOLE[2]], known(), {}),
    ("different clusters", [*WHOLE[:2], directory(3, cluster_id="x")], known(), {}),
    ("given, and left out", WHOLE, known(), {"without": (2,)}),
    ("different topics of the name t", [*WHOLE[:2], ANOTHER], known(), {"brokers": BROKERS}),
    ("is not certain", [directory(1, folder(topic_id=None))], None, {"brokers": (1,)}),
    ("another topic of the name t", [*EMPTY[:2], ANOTHER], known(), {"brokers": BROKERS}),
    ("broker 1 has seen revision 50: name all", WHOLE, known(), {}),
    ("damaged", WHOLE, known({"topics/x": 1}), {}),
]


@pytest.mark.parametrize(("reason", "directories", "found", "options"), UNCERTAIN)
def test_what_is_not_certain_is_refused(
    reason: str, directories: list[DirectoryFacts], found: Known | None, options: dict[str, Any]
) -> None:
    with pytest.raises(Uncertain, match=reason):
        plan(directories, found, **options)


def test_an_export_stays_as_it_is_without_its_leases() -> None:
    leased = {records.RESTORED: records.RestoredRecord(3)}
    made = restored_export(known(leased))
    assert made.revision == 40
    assert partition(made) == PartitionRecord(BROKERS, BROKERS, 2, 4)
    assert next_producer_id(made) == 5000
    assert records.RESTORED not in values(made.writes)
    assert records.CLUSTER not in values(made.writes)
    with pytest.raises(Uncertain, match="no record of a cluster"):
        restored_export(Known(Snapshot(3, ()), is_last=True, source="export"))
