"""A compose file for Apache Kafka's image works with our image after a change of the image name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oncelog_server.config import Settings, load_settings
from oncelog_server.settings.listeners import Endpoint, advertised_endpoints, listeners_of
from tests.image.compose_files import SERVICES, ComposeService

BASE = Path(__file__).resolve().parent.parent.parent / "docker/server.properties"

# The example in Kafka's own documentation: one node that is broker and controller.
KAFKA_DOCUMENTATION = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_NUM_PARTITIONS": "3",
}
# The same, for clients inside and outside the network of the compose file.
TWO_LISTENERS = {
    **KAFKA_DOCUMENTATION,
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
    ),
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
    "KAFKA_HEAP_OPTS": "-Xmx512m",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
}


def advertised(settings: Settings) -> list[tuple[str, str, int]]:
    listeners = listeners_of(settings)
    bound = {listener.name: listener.port for listener in listeners}
    endpoints: tuple[Endpoint, ...] = advertised_endpoints(listeners, bound, "host-name")
    return [(endpoint.listener, endpoint.host, endpoint.port) for endpoint in endpoints]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, [("PLAINTEXT", "localhost", 9092)]),
        (KAFKA_DOCUMENTATION, [("PLAINTEXT", "localhost", 9092)]),
        (
            TWO_LISTENERS,
            [("PLAINTEXT_HOST", "localhost", 9092), ("PLAINTEXT", "broker", 19092)],
        ),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:9092"}, [("PLAINTEXT", "host-name", 9092)]),
    ],
    ids=["no settings", "Kafka's documentation", "two listeners", "no advertised.listeners"],
)
def test_clients_get_the_addresses_that_kafkas_image_would_give_them(
    environment: dict[str, str], expected: list[tuple[str, str, int]]
) -> None:
    loaded = load_settings(config_file=BASE, environment=environment)
    assert advertised(loaded.settings) == expected
    assert not loaded.warnings


def test_the_data_is_in_the_volume_unless_the_environment_says_otherwise() -> None:
    assert load_settings(config_file=BASE).settings.log_dirs == ("/var/lib/kafka/data",)
    loaded = load_settings(config_file=BASE, environment=TWO_LISTENERS)
    assert loaded.settings.log_dirs == ("/tmp/kraft-combined-logs",)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_the_listeners_of_public_compose_files(service: ComposeService) -> None:
    """`make image-test` starts the image with each of these environments."""
    environment = dict(service.environment)
    if "," in environment.get("KAFKA_ADVERTISED_LISTENERS", ""):
        # The entrypoint of the image sets the variable in the same way.
        hosts = re.compile("://[^,]*:")
        derived = hosts.sub("://0.0.0.0:", environment["KAFKA_ADVERTISED_LISTENERS"])
        environment.setdefault("KAFKA_LISTENERS", derived)
    settings = load_settings(config_file=BASE, environment=environment).settings
    assert {listener.name: listener.port for listener in listeners_of(settings)} == (
        service.listeners
    )
