"""Environments and health checks of brokers in public compose files, for images of Apache Kafka, of
Bitnami, of Confluent and of wurstmeister. The names and values are as found."""

from __future__ import annotations

from typing import Final, NamedTuple

_ONE_NODE: Final = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
_ONE_REPLICA: Final = {
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
_BITNAMI_NODE: Final = {
    "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "ALLOW_PLAINTEXT_LISTENER": "yes",
}
_INSIDE_AND_HOST: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
_OUTSIDE: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT"
_PLAIN: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"


class ComposeService(NamedTuple):
    """A broker of a compose file. `health`: the command of its health check, for a shell.
    `listeners`: each listener of the broker as name and port."""

    name: str
    environment: dict[str, str]
    health: str
    listeners: dict[str, int]
    host: str = "kafka"


SERVICES: Final = (
    ComposeService(
        "apache: one listener",
        {
            **_ONE_NODE,
            **_ONE_REPLICA,
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PLAIN,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_NUM_PARTITIONS": "3",
        },
        "/opt/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "apache: with the id of a cluster",
        {
            **_ONE_NODE,
            **_ONE_REPLICA,
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PLAIN,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "true",
            "CLUSTER_ID": "tianqi-test-kraft-cluster",
        },
        "/opt/kafka/bin/kafka-broker-api-versions.sh --bootstrap-server localhost:9092",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "apache: inside and outside",
        {
            **_ONE_NODE,
            **_ONE_REPLICA,
            "KAFKA_LISTENERS": (
                "PLAINTEXT://0.0.0.0:29092,CONTROLLER://0.0.0.0:9093,EXTERNAL://0.0.0.0:9092"
            ),
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,EXTERNAL://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _OUTSIDE,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
        },
        "/opt/kafka/bin/kafka-broker-api-versions.sh --bootstrap-server kafka:29092",
        {"PLAINTEXT": 29092, "EXTERNAL": 9092},
    ),
    ComposeService(
        "apache: advertised by its name",
        {
            **_ONE_NODE,
            **_ONE_REPLICA,
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PLAIN,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
        },
        "/opt/kafka/bin/kafka-cluster.sh cluster-id --bootstrap-server localhost:9092",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "apache: native image, no settings",
        {},
        "nc -z localhost 9092",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "apache: many partitions, many threads",
        {
            **_ONE_NODE,
            **_ONE_REPLICA,
            "CLUSTER_ID": "iceberg-streaming-eks-demo00",
            "KAFKA_LISTENERS": "CONTROLLER://:9093,PLAINTEXT://:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PLAIN,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_NUM_PARTITIONS": "32",
            "KAFKA_NUM_NETWORK_THREADS": "8",
            "KAFKA_NUM_IO_THREADS": "16",
            "KAFKA_HEAP_OPTS": "-Xms1g -Xmx1g",
            "KAFKA_LOG_RETENTION_HOURS": "2",
        },
        "timeout 5 bash -c '</dev/tcp/localhost/9092'",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "apache: internal and external names",
        {
            **_ONE_NODE,
            "KAFKA_LISTENERS": "INTERNAL://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
            "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka:9092,EXTERNAL://127.0.0.1:9094",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
            ),
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        },
        "kafka-topics.sh --bootstrap-server 127.0.0.1:9094 --list",
        {"INTERNAL": 9092, "EXTERNAL": 9094},
    ),
    ComposeService(
        "apache: Kafka's own example with three listeners",
        {
            **_ONE_NODE,
            **_ONE_REPLICA,
            "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
            "KAFKA_ADVERTISED_LISTENERS": (
                "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _INSIDE_AND_HOST,
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
            "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        },
        "/opt/kafka/bin/kafka-topics.sh --bootstrap-server broker:19092 --describe",
        {"PLAINTEXT_HOST": 9092, "PLAINTEXT": 19092},
        host="broker",
    ),
    ComposeService(
        "bitnami: one listener",
        {
            **_BITNAMI_NODE,
            "KAFKA_CFG_NODE_ID": "1",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": _PLAIN,
            "KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE": "true",
        },
        "kafka-topics.sh --bootstrap-server localhost:9092 --list",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "bitnami: node 0, no map of protocols",
        {
            **_BITNAMI_NODE,
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
        },
        "/opt/bitnami/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "bitnami: with an external listener",
        {
            **_BITNAMI_NODE,
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,EXTERNAL://127.0.0.1:9094",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": _OUTSIDE,
            "KAFKA_CFG_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CFG_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        },
        "kafka-broker-api-versions.sh --bootstrap-server localhost:9094",
        {"PLAINTEXT": 9092, "EXTERNAL": 9094},
    ),
    ComposeService(
        "bitnami: KRaft switched on, debugging",
        {
            **_BITNAMI_NODE,
            "BITNAMI_DEBUG": "yes",
            "KAFKA_ENABLE_KRAFT": "yes",
            "KAFKA_KRAFT_CLUSTER_ID": "L0ZEQh9yTbGhcEcx8Q9Q3Q",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:19093",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": _PLAIN,
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:19093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:9092",
            "KAFKA_CFG_BROKER_ID": "1",
        },
        "kafka-topics.sh --list --bootstrap-server 127.0.0.1:9092",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "bitnami: with ZooKeeper, inside and host",
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_CFG_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://0.0.0.0:9092,PLAINTEXT_HOST://0.0.0.0:29092",
            "KAFKA_CFG_ADVERTISED_LISTENERS": (
                "PLAINTEXT://kafka:9092,PLAINTEXT_HOST://localhost:29092"
            ),
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": _INSIDE_AND_HOST,
            "KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE": "true",
            "KAFKA_CFG_NUM_PARTITIONS": "3",
        },
        "kafka-topics.sh --bootstrap-server localhost:9092 --list",
        {"PLAINTEXT": 9092, "PLAINTEXT_HOST": 29092},
    ),
    ComposeService(
        "bitnami: with ZooKeeper, listeners with short names",
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_CFG_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "KAFKA_CFG_LISTENERS": "LC://kafka:29092,LX://kafka:9092",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "LC://kafka:29092,LX://localhost:9092",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "LC:PLAINTEXT,LX:PLAINTEXT",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "LC",
        },
        "kafka-topics.sh --bootstrap-server kafka:29092 --list",
        {"LC": 29092, "LX": 9092},
    ),
    ComposeService(
        "bitnami: Kafka's prefix, another port",
        {
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:19092",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:19092",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        },
        "kafka-topics.sh --bootstrap-server kafka:19092 --describe",
        {"PLAINTEXT": 19092},
    ),
    ComposeService(
        "confluent: KRaft",
        {
            **_ONE_NODE,
            **_ONE_REPLICA,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _INSIDE_AND_HOST,
            "KAFKA_ADVERTISED_LISTENERS": (
                "PLAINTEXT://broker:9091,PLAINTEXT_HOST://localhost:29091"
            ),
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            "KAFKA_LISTENERS": (
                "PLAINTEXT://broker:9091,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:29091"
            ),
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
            "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
        },
        "kafka-topics --bootstrap-server broker:9091 --list",
        {"PLAINTEXT": 9091, "PLAINTEXT_HOST": 29091},
        host="broker",
    ),
    ComposeService(
        "confluent: its tool without .sh",
        {
            **_ONE_NODE,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PLAIN,
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "true",
            "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
        },
        "kafka-broker-api-versions --bootstrap-server localhost:9092",
        {"PLAINTEXT": 9092},
    ),
    ComposeService(
        "confluent: with ZooKeeper",
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_LISTENERS": "INTERNAL://0.0.0.0:29092,EXTERNAL://0.0.0.0:9092",
            "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka:29092,EXTERNAL://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        },
        "nc -z localhost 29092 || exit 1",
        {"INTERNAL": 29092, "EXTERNAL": 9092},
    ),
    ComposeService(
        "confluent: advertised listeners alone",
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
            ),
            "KAFKA_ADVERTISED_LISTENERS": (
                "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092"
            ),
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        },
        "kafka-topics --bootstrap-server broker:29092 --list",
        {"PLAINTEXT": 29092, "PLAINTEXT_HOST": 9092},
        host="broker",
    ),
    ComposeService(
        "wurstmeister: topics to create",
        {
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ADVERTISED_HOST_NAME": "kafka",
            "KAFKA_CREATE_TOPICS": "ping:3:1,pong:3:1,events:3:1",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        },
        "kafka-topics.sh --bootstrap-server localhost:9092 --list | grep -x events",
        {"PLAINTEXT": 9092},
    ),
)
