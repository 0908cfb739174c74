"""Each of several brokers on one machine has its own id, ports and directory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.config import SettingsError, load_settings
from oncelog_server.settings.description import ConfigSource, describe_broker
from oncelog_server.settings.listeners import listeners_of
from oncelog_server.settings.machine import last_port, member_settings, port_step
from oncelog_server.settings.model import Settings


def settings(*assignments: str) -> Settings:
    return load_settings(assignments=assignments).settings


def ports(settings: Settings) -> list[int]:
    return [listener.port for listener in listeners_of(settings)]


def test_ids_ports_and_directories_follow_each_other() -> None:
    all_ = settings("oncelog.brokers=3", "node.id=7", "listeners=PLAINTEXT://:9092", "log.dirs=d")
    found = [member_settings(all_, number) for number in (1, 2, 3)]
    assert [broker.node_id for broker in found] == [7, 8, 9]
    assert [ports(broker) for broker in found] == [[9092], [9093], [9094]]
    assert [broker.data_directory for broker in found] == ["d", "d/brokers/2", "d/brokers/3"]
    assert [broker.first_broker for broker in found] == [None, "d", "d"]
    assert [broker.has_metadata_elsewhere for broker in found] == [False, True, True]
    assert all(broker.has_other_brokers for broker in found)


def test_each_broker_shows_its_own_settings() -> None:
    all_ = settings("oncelog.brokers=2", "node.id=7", "listeners=PLAINTEXT://:9092", "log.dirs=d")
    shown = {row.name: row for row in describe_broker(member_settings(all_, 2))}
    own = {
        "node.id": "8",
        "broker.id": "8",
        "listeners": "PLAINTEXT://:9093",
        "log.dirs": "d/brokers/2",
        "offsets.topic.replication.factor": "1",
    }
    for name, text in own.items():
        row = shown[name]
        assert (row.value, row.synonyms[0].value) == (text, text)
        assert row.source is row.synonyms[0].source is ConfigSource.STATIC_BROKER


def test_advertised_ports_and_the_port_of_metrics_move_too() -> None:
    all_ = settings(
        "oncelog.brokers=2",
        "listeners=INSIDE://:9092,OUTSIDE://:9094",
        "advertised.listeners=INSIDE://host:9092,OUTSIDE://localhost:19094",
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name=INSIDE",
        "oncelog.metrics.port=9093",
    )
    second = member_settings(all_, 2)
    # With a distance of 1, the second broker would have the first one's ports.
    assert port_step(all_) == 3
    assert ports(second) == [9095, 9097]
    advertised = {listener.name: listener.advertised_port for listener in listeners_of(second)}
    assert advertised == {"INSIDE": 9095, "OUTSIDE": 19097}
    assert second.oncelog_metrics_port == 9096


def test_a_free_port_stays_a_free_port() -> None:
    all_ = settings("oncelog.brokers=3", "listeners=PLAINTEXT://127.0.0.1:0")
    assert ports(member_settings(all_, 3)) == [0]
    assert member_settings(all_, 3).oncelog_metrics_port == -1


@pytest.mark.parametrize("number", [1, 2])
def test_internal_topics_have_one_replica_unless_the_settings_say_otherwise(number: int) -> None:
    by_default = member_settings(settings("oncelog.brokers=2"), number)
    assert (
        by_default.offsets_topic_replication_factor,
        by_default.transaction_state_log_replication_factor,
        by_default.transaction_state_log_min_isr,
    ) == (1, 1, 1)
    given = settings("oncelog.brokers=2", "offsets.topic.replication.factor=2")
    assert member_settings(given, number).offsets_topic_replication_factor == 2


@given(
    st.sets(st.integers(1, 40), min_size=1, max_size=5),
    st.integers(1, 9),
)
def test_no_two_brokers_share_a_port(first: set[int], count: int) -> None:
    names = [f"L{number}" for number in first]
    all_ = Settings(
        oncelog_brokers=count,
        listeners=tuple(f"L{number}://:{number}" for number in first),
        listener_security_protocol_map=",".join(f"{name}:PLAINTEXT" for name in names),
    )
    taken = [
        port for number in range(1, count + 1) for port in ports(member_settings(all_, number))
    ]
    assert len(taken) == len(set(taken))
    assert max(taken) == last_port(all_)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"oncelog.etcd.endpoints": "http://etcd:2379"}, "without etcd"),
        ({"listeners": "PLAINTEXT://:65535"}, "port 65536"),
    ],
)
def test_settings_that_contradict_several_brokers_are_refused(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings("oncelog.brokers=2", *(f"{name}={value}" for name, value in given.items()))
    (problem,) = refused.value.problems
    assert problem.name == "oncelog.brokers"
    assert said in str(problem)
