"""The plan of a recovery names the topics that may have been deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    PartitionRecord,
    TopicRecord,
)
from tests.server.salvage.planning.sources import (
    BROKERS,
    ID,
    OTHER_ID,
    directory,
    folder,
    known,
    plan,
    values,
)

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
    """A reassignment has reduced the replicas of the other partition."""
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
    """To delete it again would lose all offsets of groups."""
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
