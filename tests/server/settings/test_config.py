"""The sources of settings, their precedence, and the messages about invalid ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oncelog_protocol.secret import Secret
from oncelog_server.config import Settings, SettingsError, load_settings
from oncelog_server.settings.description import ConfigSource, describe_broker
from oncelog_server.settings.listeners import listeners_of
from oncelog_server.settings.sources import name_of_variable

KRAFT_FILE = """
# Licensed to the Apache Software Foundation (ASF)
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
offsets.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


# The environment of a single broker in Kafka's own compose examples.
COMPOSE = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
    "PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
    "KAFKA_HEAP_OPTS": "-Xmx512m",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
}


def problems_of(*assignments: str, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(assignments=assignments, environment=environment)
    return [str(problem) for problem in caught.value.problems]


def test_nothing_needs_to_be_set() -> None:
    loaded = load_settings()
    assert loaded.settings == Settings()
    assert loaded.settings.data_directory == "./oncelog-data"
    assert loaded.warnings == ()


def test_kafkas_own_server_properties_can_be_used_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(KRAFT_FILE)
    loaded = load_settings(config_file=file)
    assert loaded.settings.node_id == 7
    assert loaded.settings.data_directory == "/tmp/kraft-combined-logs"
    assert "controller.quorum.bootstrap.servers" in loaded.without_effect
    assert loaded.warnings == ()


def test_kafkas_compose_file_can_be_used_with_another_image() -> None:
    loaded = load_settings(environment=COMPOSE)
    assert loaded.warnings == ()
    assert set(loaded.without_effect) == {
        "controller.quorum.voters",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
    }
    names = [(event.name, event.advertised_host) for event in listeners_of(loaded.settings)]
    assert names == [("PLAINTEXT_HOST", "localhost"), ("PLAINTEXT", "broker")]


def test_each_source_of_settings_overrides_the_sources_before_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nmax.connections=2\nlog.roll.ms=2\nnode.id=2\n")
    settings = load_settings(
        config_file=file,
        environment={
            "KAFKA_MAX_CONNECTIONS": "3",
            "KAFKA_LOG_ROLL_MS": "3",
            "KAFKA_NODE_ID": "3",
            "ONCELOG_LOG_ROLL_MS": "4",
            "ONCELOG_NODE_ID": "4",
        },
        assignments=["node.id=5"],
    ).settings
    assert (settings.num_partitions, settings.max_connections) == (2, 3)
    assert (settings.log_roll_ms, settings.node_id) == (4, 5)


def test_variables_of_bitnamis_image_are_settings() -> None:
    """The image's own variables that have no setting are left out, without a warning."""
    loaded = load_settings(
        environment={
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_NUM_PARTITIONS": "6",
            "KAFKA_NUM_PARTITIONS": "2",
            "KAFKA_ENABLE_KRAFT": "yes",
            "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
        }
    )
    assert (loaded.settings.node_id, loaded.settings.num_partitions) == (0, 6)
    assert loaded.warnings == ()
    with pytest.raises(SettingsError, match=r"environment variable KAFKA_CFG_NUM_PARTITIONS"):
        load_settings(environment={"KAFKA_CFG_NUM_PARTITIONS": "many"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("controller.quorum.voters", "1@a:9093,2@b:9093,3@c:9093"),
        ("controller.quorum.bootstrap.servers", "a:9093, b:9093"),
    ],
)
def test_several_voters_of_kraft_stop_the_start(name: str, value: str) -> None:
    """Each broker of such a compose file would otherwise be a cluster of its own."""
    with pytest.raises(SettingsError) as caught:
        load_settings(assignments=[f"{name}={value}"])
    (problem,) = map(str, caught.value.problems)
    assert f"names {len(value.split(','))} nodes" in problem
    assert "oncelog.etcd.endpoints is not set" in problem
    etcd = "oncelog.etcd.endpoints=http://etcd:2379"
    assert load_settings(assignments=[f"{name}={value}", etcd]).without_effect == (name,)
    alone = load_settings(assignments=[f"{name}={value.split(',')[0]}"])
    assert alone.without_effect == (name,)


def test_the_options_of_serve_override_the_environment() -> None:
    settings = load_settings(
        environment={"KAFKA_LOG_DIRS": "/var/lib/kafka"}, port=0, data="here"
    ).settings
    assert settings.data_directory == "here"
    assert settings.listeners == ("PLAINTEXT://:0",)


@pytest.mark.parametrize("name", ["listeners", "log.dirs", "log.dir"])
def test_an_option_of_serve_and_the_option_set_exclude_each_other_for_one_setting(
    name: str,
) -> None:
    option = "--port 9092" if name == "listeners" else "--data here"
    with pytest.raises(SettingsError) as caught:
        load_settings(assignments=[f"{name}=PLAINTEXT://:1"], port=9092, data="here")
    (problem,) = map(str, caught.value.problems)
    assert f"{name}=PLAINTEXT://:1 (--set)" in problem
    assert option in problem


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("LOG_RETENTION_MS", "log.retention.ms"),
        ("A__B", "a_b"),
        ("A___B", "a-b"),
        ("A____B", "a-.b"),
    ],
)
def test_variables_are_spelled_as_kafkas_image_spells_them(variable: str, name: str) -> None:
    assert name_of_variable(variable) == name


def test_our_own_settings_by_either_prefix() -> None:
    for variable in ("ONCELOG_FLUSH_ON_ACK", "KAFKA_ONCELOG_FLUSH_ON_ACK"):
        assert load_settings(environment={variable: "true"}).settings.oncelog_flush_on_ack


def test_variables_that_the_image_or_kubernetes_uses_are_not_settings() -> None:
    loaded = load_settings(
        environment={
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "KAFKA_OPTS": "-Dx",
            "KAFKA_JMX_PORT": "9101",
            "KAFKA_LOG4J_LOGGERS": "kafka=INFO",
            "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
            "KAFKA_SERVICE_HOST": "10.0.0.1",
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "PATH": "/bin",
        }
    )
    assert loaded.warnings == ()
    assert loaded.settings == Settings()


def test_unknown_variables_are_ignored_with_a_warning_and_the_nearest_name() -> None:
    given = {"KAFKA_NUM_PARTITONS": "3", "KAFKA_FOO_BAR": "1"}
    assert sorted(load_settings(environment=given).warnings) == [
        "ignored: foo.bar=1 (environment variable KAFKA_FOO_BAR): unknown setting",
        "ignored: num.partitons=3 (environment variable KAFKA_NUM_PARTITONS): unknown setting; "
        "did you mean num.partitions?",
    ]


def test_all_problems_are_reported_at_once_with_name_value_source_and_nearest_name() -> None:
    assert problems_of(
        "num.partitons=3",
        "max.connections=-1",
        "delegation.token.secret.key=x",
        "log.dirs=a,b",
        environment={"KAFKA_LOG_ROLL_MS": "x"},
    ) == [
        "num.partitons=3 (--set): unknown setting; did you mean num.partitions?",
        "log.roll.ms=x (environment variable KAFKA_LOG_ROLL_MS): "
        "Invalid value x for configuration log.roll.ms: Not a number of type LONG",
        "max.connections=-1 (--set): "
        "Invalid value -1 for configuration max.connections: Value must be at least 0",
        "delegation.token.secret.key=[hidden] (--set): refused: delegation tokens are not built",
        "log.dirs=a,b (--set): exactly one data directory can be used for now",
    ]


def test_settings_that_turn_on_no_unsupported_feature_are_not_refused() -> None:
    loaded = load_settings(
        assignments=[
            "authorizer.class.name=",
            "ssl.client.auth=none",
            "remote.log.storage.system.enable=false",
        ]
    )
    assert replace(loaded.settings, given={}) == Settings()


def test_passwords_are_never_shown() -> None:
    (problem,) = problems_of("delegation.token.secret.key=hunter2")
    assert "hunter2" not in problem
    loaded = load_settings(assignments=["ssl.key.password=hunter2"])
    assert loaded.settings.ssl_key_password == Secret("hunter2")
    assert "hunter2" not in repr(loaded)


def test_setting_names_of_kip_98_are_accepted_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "transaction.max.timeout.ms=2\nmax.transaction.timeout.ms=1\n"
        "transactional.id.timeout.ms=3\n"
    )
    loaded = load_settings(config_file=file)
    assert loaded.settings.transaction_max_timeout_ms == 2
    assert loaded.settings.given["transactional.id.expiration.ms"] == "3"
    assert len(loaded.warnings) == 2


def test_settings_that_kafka_4_removed_are_ignored_with_a_warning() -> None:
    (warning,) = load_settings(assignments=["zookeeper.connect=zk:2181"]).warnings
    assert "zookeeper.connect" in warning


def test_the_older_name_of_the_broker_id() -> None:
    assert load_settings(assignments=["broker.id=4"]).settings.node_id == 4
    (problem,) = problems_of("broker.id=4", "node.id=5")
    assert "must be the same as node.id" in problem


@pytest.mark.parametrize("given", ["node.id", "broker.id"])
def test_each_name_of_the_broker_id_sets_the_other(given: str) -> None:
    """KafkaConfig.populateSynonyms: DescribeConfigs shows both as set."""
    settings = load_settings(assignments=[f"{given}=4"]).settings
    shown = {row.name: row for row in describe_broker(settings)}
    for name in ("node.id", "broker.id"):
        assert (shown[name].value, shown[name].source) == ("4", ConfigSource.STATIC_BROKER)


def test_a_broker_id_of_minus_1_leaves_the_id_to_node_id() -> None:
    assert load_settings(assignments=["broker.id=-1"]).settings.node_id == 1


def test_an_unreadable_source_is_reported_with_the_other_problems(tmp_path: Path) -> None:
    assert problems_of("num.partitions", "max.connections=x", "=5")[:2] == [
        "--set num.partitions: expected name=value",
        "--set =5: expected name=value",
    ]
    file = tmp_path / "server.properties"
    for content in (b"name=\\u00zz", b"name=\xff"):
        file.write_bytes(content)
        with pytest.raises(SettingsError, match=str(file)):
            load_settings(config_file=file)
