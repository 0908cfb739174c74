"""An image equals the contents of the store, whether it was read or advanced by changes. An old
image never changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.image import KINDS, NO_LEADER, ClusterImage
from oncelog_server.cluster.partition_additions import NewPartitions, create_partitions
from oncelog_server.cluster.store import Delete, Put, Snapshot, Write
from oncelog_server.cluster.topic_alterations import alter_topic
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from tests.examples import examples
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()


def test_topics_are_found_by_name_and_id_and_partitions_by_number() -> None:
    cluster = Cluster((1, 2))
    topic_id = cluster.create("orders", 3, 2)
    image = cluster.image
    topic = image.topics["orders"]
    assert image.topic_by_id(topic_id) is topic
    assert image.topic_name(topic_id) == "orders"
    assert image.topic_name(bytes(16)) is None
    assert topic.replication_factor == 2
    partition = image.partition("orders", 2)
    assert partition is not None
    assert partition.leader == partition.replicas[0]
    assert (partition.leader_epoch, set(partition.replicas)) == (0, {1, 2})
    assert partition.partition_epoch == topic.revision == image.revision
    assert image.partition("orders", 3) is None
    assert image.partition("orders", -1) is None
    assert image.partition("none", 0) is None


def test_b26_a_field_of_a_newer_version_is_ignored() -> None:
    cluster = Cluster((1, 2))
    topic_id = uuid_to_string(cluster.create("orders", 1, 2))
    record = records.PartitionRecord(replicas=(1, 2), isr=(2,), leader=2, leader_epoch=3)
    newer = records.encode(record).removesuffix(b"}") + b',"mood":{"since":7}}'
    cluster.apply([Write((), (Put(records.partition_key(topic_id, 0), newer),))])
    partition = cluster.partition("orders")
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 3, (2,))


def test_brokers_have_an_address_for_each_listener() -> None:
    endpoints = (
        records.EndpointRecord("INTERNAL", "kafka", 9092),
        records.EndpointRecord("EXTERNAL", "example", 19092),
    )
    cluster = Cluster(())
    value = records.encode(records.BrokerRecord("i", endpoints, rack="r"))
    cluster.apply([Write((), (Put(records.broker_key(5), value),))])
    broker = cluster.image.brokers[5]
    assert broker.endpoint("EXTERNAL") == endpoints[1]
    assert broker.endpoint("ELSEWHERE") is None
    assert (broker.epoch, broker.rack) == (2, "r")
    cluster.apply([Write((), (Delete(records.broker_key(5)),))])
    assert not cluster.image.brokers


def test_an_old_image_stays_as_it_was() -> None:
    cluster = Cluster()
    cluster.create("a")
    before = cluster.image
    cluster.apply(delete_topics(before, SETTINGS, ["a"])[0])
    cluster.create("b")
    assert set(before.topics) == {"a"}
    assert set(cluster.image.topics) == {"b"}


def test_a_topic_is_visible_only_when_all_its_partitions_exist() -> None:
    cluster = Cluster()
    seen = []
    topic_id = cluster.new_id()
    for write in create_topic(cluster.image, SETTINGS, NewTopic("big", 300, 1), topic_id)[1]:
        seen.append(len(cluster.image.topics))
        cluster.apply([write])
    assert seen == [0, 0, 0]
    assert len(cluster.image.topics["big"].partitions) == 300
    assert not cluster.image.orphans()
    deletion = delete_topics(cluster.image, SETTINGS, ["big"])[0]
    cluster.apply(deletion[:1])
    assert not cluster.image.topics
    assert len(cluster.image.orphans()) == 300
    cluster.apply(deletion[1:])
    assert not cluster.image.orphans()


def test_a_malformed_record_is_an_error() -> None:
    cluster = Cluster()
    with pytest.raises(ValueError, match="JSON"):
        cluster.apply([Write((), (Put("topics/a", b"nonsense"),))])


def test_defect_b_a_topic_without_all_its_partition_records_is_broken_alone() -> None:
    """Defect B of the cluster brief: such a topic ended the image of every broker for good."""
    cluster = Cluster()
    cluster.create("whole", 2)
    topic_id = uuid_to_string(b"x" * 16)
    partition = records.encode(records.PartitionRecord((1,), (1,), 1, 4))
    topic = records.encode(records.TopicRecord(topic_id, 3))
    present = Put(records.partition_key(topic_id, 1), partition)
    cluster.apply([Write((), (present, Put("topics/broken", topic)))])
    broken = cluster.image.topics["broken"]
    assert broken.missing == (0, 2)
    assert [found.replicas for found in broken.partitions] == [(), (1,), ()]
    assert [found.leader for found in broken.partitions] == [NO_LEADER, 1, NO_LEADER]
    assert cluster.image.topics["whole"].missing == ()
    with pytest.raises(Refused, match="have no record"):
        create_partitions(cluster.image, SETTINGS, NewPartitions("broken", 4))
    rest = [Put(records.partition_key(topic_id, number), partition) for number in (0, 2)]
    cluster.apply([Write((), tuple(rest))])
    assert cluster.image.topics["broken"].missing == ()
    cluster.apply([Write((), (Delete(present.key),))])
    cluster.apply(delete_topics(cluster.image, SETTINGS, ["broken"])[0])
    assert set(cluster.image.topics) == {"whole"}
    assert not cluster.image.orphans()


def test_brokers_are_registered_fenced_draining_and_have_failed_replicas() -> None:
    cluster = Cluster((1, 2))
    topic_id = cluster.create("t", 1, 2)
    id_text = uuid_to_string(topic_id)
    first = records.RegistrationRecord("dir-3", endpoints=(), rack="r", boot_id="b")
    keys = (
        Put(records.registration_key(3), records.encode(first)),
        Put(records.draining_key(2), records.encode(records.DrainingRecord())),
        Put(records.failed_key(2, id_text, 0), records.encode(records.FailedRecord("disk"))),
        Put(records.creating_key(id_text), records.encode(records.CreatingRecord("t"))),
    )
    cluster.apply([Write((), keys)])
    image = cluster.image
    assert set(image.fenced) == {3}
    assert image.fenced[3].epoch == image.fenced[3].revision == image.revision
    assert set(image.draining) == {2}
    assert set(image.failed) == {(2, topic_id, 0)}
    assert set(image.creating) == {topic_id}
    again = structs.replace(first, broker_epoch=image.revision, clean_stop_epoch=image.revision)
    cluster.apply([Write((), (Put(keys[0].key, records.encode(again)),))])
    assert cluster.image.fenced[3].epoch == image.revision
    assert cluster.image.fenced[3].revision == cluster.image.revision
    cluster.apply([Write((), tuple(Delete(put.key) for put in keys))])
    image = cluster.image
    assert not any((image.fenced, image.draining, image.failed, image.creating))


def test_records_of_earlier_versions_have_the_defaults_of_new_fields() -> None:
    old = b'{"replicas":[1],"isr":[1],"leader":1,"leader_epoch":3,"adding":[],"removing":[]}'
    record = records.decode(records.PartitionRecord, old)
    assert record == records.PartitionRecord((1,), (1,), 1, 3)
    broker = b'{"incarnation":"i","endpoints":[],"rack":null,"features":{}}'
    assert records.decode(records.BrokerRecord, broker) == records.BrokerRecord("i", ())
    later = old[:-1] + b',"elr":[2],"elr_epochs":[7],"added_later":{}}'
    assert records.decode(records.PartitionRecord, later).elr_epochs == (7,)


def test_each_kind_of_record_has_a_row() -> None:
    """A kind without a row would be taken for one of a later version, and skipped."""
    kinds = {value for name, value in vars(records).items() if name.isupper() and name[0] != "_"}
    assert KINDS.keys() == {kind for kind in kinds if isinstance(kind, str)}
    documented = (record.__doc__ for record in records._DECODERS)
    keys = {doc.split("`")[1].partition("/") for doc in documented if doc}
    assert KINDS.keys() == {kind + slash for kind, slash, _ in keys}


def test_unknown_keys_and_fields_of_later_versions_are_skipped() -> None:
    cluster = Cluster()
    value = b'{"id":"' + uuid_to_string(b"x" * 16).encode() + b'","partitions":0,"new":1}'
    cluster.apply([Write((), (Put("topics/a", value), Put("later/1", b"?"), Put("zebra", b"?")))])
    assert cluster.image.topics["a"].partitions == ()


def test_a_delta_has_new_deleted_and_changed_topics() -> None:
    cluster = Cluster()
    cluster.create("kept", 2)
    cluster.create("gone")
    cluster.create("again")
    old = cluster.image
    cluster.apply(delete_topics(cluster.image, SETTINGS, ["gone"])[0])
    cluster.apply(delete_topics(cluster.image, SETTINGS, ["again"])[0])
    cluster.create("again", 2)
    cluster.apply(create_partitions(cluster.image, SETTINGS, NewPartitions("kept", 3)))
    cluster.apply(alter_topic(cluster.image, SETTINGS, "kept", {"retention.ms": "5"}))
    new = cluster.image
    delta = ImageDelta.between(old, new)
    assert {topic.name for topic in delta.topics_deleted} == {"gone", "again"}
    assert [topic.id for topic in delta.topics_created] == [new.topics["again"].id]
    assert delta.settings_changed == (new.topics["kept"],)
    kept = new.topics["kept"]
    expected = [
        PartitionChange(old.topics["gone"], old.partition("gone", 0), None),
        PartitionChange(old.topics["again"], old.partition("again", 0), None),
        PartitionChange(new.topics["again"], None, new.partition("again", 0)),
        PartitionChange(new.topics["again"], None, new.partition("again", 1)),
        PartitionChange(kept, None, kept.partitions[2]),
    ]
    assert len(delta.partitions) == len(expected)
    assert all(change in delta.partitions for change in expected)
    assert not delta.brokers_changed
    assert ImageDelta.between(new, new) == ImageDelta()


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("grow"), NAMES, st.integers(2, 5)),
        st.tuples(st.just("alter"), NAMES, st.integers(0, 3)),
    ),
    max_size=12,
)


def do(cluster: Cluster, step: tuple[str, str, int]) -> None:
    verb, name, number = step
    topic = cluster.image.topics.get(name)
    if verb == "create" and topic is None:
        cluster.create(name, number)
    elif verb == "delete" and topic is not None:
        cluster.apply(delete_topics(cluster.image, SETTINGS, [name])[0])
    elif verb == "grow" and topic is not None and number > len(topic.partitions):
        cluster.apply(create_partitions(cluster.image, SETTINGS, NewPartitions(name, number)))
    elif verb == "alter" and topic is not None:
        own = {"retention.ms": str(number)}
        cluster.apply(alter_topic(cluster.image, SETTINGS, name, own))


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, STEPS)
def test_an_advanced_image_equals_one_read_again_and_deltas_add_up(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    cluster = Cluster()
    for step in before:
        do(cluster, step)
    old = cluster.image
    cluster.names.clear()
    for step in after:
        do(cluster, step)
    new = cluster.image
    whole, named = ImageDelta.between(old, new), ImageDelta.between(old, new, cluster.names)
    for field in whole.__struct_fields__:
        found, expected = getattr(named, field), getattr(whole, field)
        assert found == expected or sorted(found, key=repr) == sorted(expected, key=repr)
    entries = tuple(cluster.entries[key] for key in sorted(cluster.entries))
    assert ClusterImage.of(Snapshot(new.revision, entries)) == new
    held = {
        (partition.topic_id, partition.partition): partition
        for t in old.topics.values()
        for partition in t.partitions
    }
    for change in ImageDelta.between(old, new).partitions:
        if change.old is not None:
            assert held.pop((change.old.topic_id, change.old.partition)) == change.old
        if change.new is not None:
            held[change.new.topic_id, change.new.partition] = change.new
    assert held == {
        (partition.topic_id, partition.partition): partition
        for t in new.topics.values()
        for partition in t.partitions
    }


class Asked(dict[str, Any]):
    """A mapping of topics that counts look-ups."""

    looks = 0

    def get(self, name: str, default: Any = None) -> Any:
        type(self).looks += 1
        return super().get(name, default)

    def items(self) -> Any:
        type(self).looks += len(self)
        return super().items()

    def __iter__(self) -> Iterator[str]:
        type(self).looks += len(self)
        return super().__iter__()


def test_the_delta_of_one_change_is_found_without_a_search_of_all_topics() -> None:
    """A search of all 10,000 topics took 5 ms of the event loop for every change."""
    cluster = Cluster()
    for number in range(50):
        cluster.create(f"topic-{number}")
    old = cluster.image
    cluster.names.clear()
    cluster.create("new")
    old, new = (
        structs.replace(image, topics=Asked(image.topics)) for image in (old, cluster.image)
    )
    delta = ImageDelta.between(old, new, cluster.names)
    assert [entry.name for entry in delta.topics_created] == ["new"]
    assert Asked.looks <= 2
