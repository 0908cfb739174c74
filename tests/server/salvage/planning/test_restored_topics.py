"""A recovery brings the topics of folders and of older metadata back, and no deleted one."""

from __future__ import annotations

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    DeletionRecord,
    TopicRecord,
)
from tests.server.salvage.planning.sources import (
    BROKERS,
    OTHER_ID,
    directory,
    folder,
    known,
    partition,
    plan,
    values,
)


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


def test_a_topic_that_no_metadata_has_comes_back_also_from_a_clean_directory() -> None:
    """An etcd that comes from an older copy continues to count revisions, so a high revision does
    not prove a deletion."""
    clean = {"clean_stop_epoch": 9, "revision": 40}
    old = folder(folder="old-0", topic="old", topic_id=OTHER_ID)
    made = plan([directory(b, folder(), old, **clean) for b in BROKERS], known())
    assert records.topic_key("old") in values(made.writes)
    assert any("If it was deleted, delete it again" in note for note in made.notes)
