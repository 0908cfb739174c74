"""Metadata stays as it is only if no directory has seen later metadata."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    PartitionRecord,
    RegistrationRecord,
)
from oncelog_server.cluster.store import Snapshot
from oncelog_server.salvage.planning.known import Uncertain
from oncelog_server.salvage.planning.lost_metadata import SKIPPED_IDS
from oncelog_server.salvage.planning.metadata_age import last_revision
from tests.server.salvage.planning.sources import (
    BROKERS,
    directory,
    folder,
    known,
    next_producer_id,
    partition,
    plan,
    values,
)


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
