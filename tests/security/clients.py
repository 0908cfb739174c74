"""Five client libraries with a login: their producers, consumers and admin clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AiokafkaTopic
from confluent_kafka.admin import AdminClient, NewTopic

import oncelog_client
from tests.conformance.clients import Aiokafka, Client, Confluent, Java, KafkaPython, Ours
from tests.conformance.clients.interface import ANSWER_TIMEOUT_S
from tests.harness.kafka.driver import JavaDriver
from tests.security.logins import Login

PARTITIONS: Final = 2


@dataclass(frozen=True, slots=True)
class SecuredClient:
    """A client library with a login. `create(address, topic)` creates a topic of PARTITIONS
    partitions, and returns the number of partitions in a description of the topic."""

    client: Client
    create: Callable[[str, str], int]


def _confluent(login: Login) -> SecuredClient:
    def create(address: str, topic: str) -> int:
        admin = AdminClient({**login.librdkafka, "bootstrap.servers": address, "log_level": 0})
        admin.poll(0)  # for the token of OAUTHBEARER
        new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)
        admin.create_topics([new])[topic].result(ANSWER_TIMEOUT_S)
        return len(admin.list_topics(topic, ANSWER_TIMEOUT_S).topics[topic].partitions)

    return SecuredClient(Confluent(login.librdkafka), create)


def _aiokafka(login: Login) -> SecuredClient:
    async def created(address: str, topic: str) -> int:
        admin = AIOKafkaAdminClient(bootstrap_servers=address, **login.aiokafka)
        await admin.start()
        try:
            await admin.create_topics([AiokafkaTopic(topic, PARTITIONS, 1)])
            return len((await admin.describe_topics([topic]))[0]["partitions"])
        finally:
            await admin.close()

    def create(address: str, topic: str) -> int:
        return asyncio.run(created(address, topic))

    return SecuredClient(Aiokafka(login.aiokafka), create)


def _kafka_python(login: Login) -> SecuredClient:
    def create(address: str, topic: str) -> int:
        admin = kafka.KafkaAdminClient(bootstrap_servers=address, **login.kafka_python)
        try:
            admin.create_topics([kafka.admin.NewTopic(topic, PARTITIONS, 1)])
            return len(admin.describe_topics([topic])[0]["partitions"])
        finally:
            admin.close()

    return SecuredClient(KafkaPython(login.kafka_python), create)


def _ours(login: Login) -> SecuredClient:
    async def created(address: str, topic: str) -> int:
        async with oncelog_client.Admin(address, **login.ours) as admin:
            await admin.create_topics([oncelog_client.NewTopic(topic, PARTITIONS)])
            return len((await admin.describe_topics([topic]))[topic].partitions)

    def create(address: str, topic: str) -> int:
        return asyncio.run(created(address, topic))

    return SecuredClient(Ours(login.ours), create)


# The clients that need no JVM, by the names of their packages.
CLIENTS: Final[dict[str, Callable[[Login], SecuredClient]]] = {
    "confluent-kafka": _confluent,
    "aiokafka": _aiokafka,
    "kafka-python": _kafka_python,
    Ours.name: _ours,
}


def java_client(login: Login, driver: JavaDriver) -> SecuredClient:
    """Return Kafka's own client. Its admin client is that of kafka-topics."""

    def create(address: str, topic: str) -> int:
        common = ("--bootstrap-server", address, "--command-config", str(login.java_file))
        new = ("--topic", topic, "--partitions", str(PARTITIONS))
        driver.tool("topics", *common, "--create", *new)
        described = driver.tool("topics", *common, "--describe", "--topic", topic).lines
        return sum("\tPartition: " in line for line in described)

    return SecuredClient(Java(driver, login.java), create)
