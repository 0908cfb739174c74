"""A data directory of Apache Kafka 4.3 or 3.9 becomes oncelog's and then Kafka's again. After each
step, every client reads the same records, and Kafka's dump tool finds no error."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from oncelog.testing.ports import reserve_port
from oncelog.testing.wire import Wire
from oncelog_client.admin import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from oncelog_client.sync import Admin
from oncelog_protocol.secret import Secret
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.conformance.clients import Client, Record
from tests.conformance.clients.interface import Received
from tests.conformance.conftest import create_topic
from tests.conformance.polling import read
from tests.conformance.test_compaction import SETTINGS, padded
from tests.conformance.test_dump import dump
from tests.faults.exchanges import invoke
from tests.faults.visible import Visible, visible
from tests.harness.broker import Oncelog
from tests.harness.driving import values
from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.fixtures import QUICK_RESTART
from tests.harness.kafka.kafka import Kafka
from tests.harness.kafka.kafka_3_9 import Kafka39
from tests.harness.waiting import wait_until

ORDERS, TABLE = "orders", "table"
PARTITIONS = {ORDERS: (0, 1, 2), TABLE: (0,)}
CODECS = ("gzip", "lz4", "zstd")
# Enough for a segment of Kafka's minimum size, so that the first segment is compacted.
VERSIONS = 150
QUICK = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}
# The transaction of this id is still open when Kafka stops.
OPEN_ID = "a-transaction-that-stays-open"


GROUP = "a-group-of-kip-848"
USUAL = ScramCredentialInfo()
ALICE = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
RULES = {
    AclBinding(ResourcePattern(AclResourceType.TOPIC, ORDERS), ALICE),
    AclBinding(
        ResourcePattern(AclResourceType.TOPIC, ORDERS),
        ALICE._replace(host="10.0.0.1", permission_type=AclPermissionType.DENY),
    ),
    AclBinding(ResourcePattern(AclResourceType.GROUP, "g/", PatternType.PREFIXED), ALICE),
}
CONSUMER_PROTOCOL = {"group.protocol": "consumer"}
# Number of the records that `write` commits.
COMMITTED = 180


class Seen(NamedTuple):
    """What the clients see: the records by client and topic, the offsets by client."""

    records: dict[tuple[str, str], list[Received]]
    offsets: dict[str, dict[int, int]]
    state: Visible


class Place(NamedTuple):
    """A running broker, and its data directory."""

    address: str
    data: Path


def write(place: Place, clients: Mapping[str, Client], first: int) -> None:
    """Write committed and aborted transactions with each codec, commit offsets for a group of each
    client, and leave a transaction open."""
    writer = clients["confluent-kafka"]
    producer = writer.producer(place.address, transactional_id=OPEN_ID)
    producer.init_transactions()  # aborts the open transaction
    for number, codec in enumerate(CODECS, first):
        producer = writer.producer(place.address, transactional_id=f"{ORDERS}-{codec}", codec=codec)
        producer.init_transactions()
        for outcome in (producer.commit, producer.abort, producer.commit):
            producer.begin()
            values = [
                Record(b"%d-%d" % (number, index) * 40, key=b"k", partition=index % 3)
                for index in range(30)
            ]
            producer.send(ORDERS, values)
            outcome()
        producer.close()
    for name, client in clients.items():
        consumer = client.consumer(place.address, ORDERS, group=f"group-of-{name}")
        read(consumer, 10)
        consumer.commit({0: first + 1, 1: 2, 2: 3})
        consumer.close()
    producer = writer.producer(place.address, transactional_id=OPEN_ID)
    producer.init_transactions()
    producer.begin()
    producer.send(ORDERS, [Record(b"pending", partition=2)])


def write_table(place: Place, client: Client) -> None:
    """Write `table`, and wait until it is compacted up to its last segment."""
    client.producer(place.address).send(
        TABLE, [Record(padded(number), key=b"k%d" % (number % 3)) for number in range(VERSIONS)]
    )
    folder = place.data / f"{TABLE}-0"
    checkpoint = place.data / "cleaner-offset-checkpoint"

    def is_compacted() -> bool:
        active = max(int(log.stem) for log in folder.glob("*.log"))
        return active > 0 and f"\n{TABLE} 0 {active}\n" in checkpoint.read_text()

    wait_until(is_compacted, "the topic is compacted")


def look(place: Place, clients: Mapping[str, Client], *, orders: int) -> Seen:
    """Return the `orders` committed records of `orders` and those of `table`, as each client reads
    them, and the state of the broker."""
    # This call waits until the partitions have leaders.
    state = visible(place.address, tuple(f"group-of-{name}" for name in clients))
    with Wire(place.address) as wire:
        counts = {ORDERS: orders, TABLE: len(values(wire, TABLE))}
    records = {}
    for name, client in clients.items():
        for topic, count in counts.items():
            consumer = client.consumer(
                place.address, topic, partitions=PARTITIONS[topic], read_committed=True
            )
            records[name, topic] = read(consumer, count)
            consumer.close()
    return Seen(records, offsets_at(place, clients), state)


def offsets_at(place: Place, clients: Mapping[str, Client]) -> dict[str, dict[int, int]]:
    """Return the committed offsets of each client's group."""
    admin: Any = AdminClient({"bootstrap.servers": place.address, "log_level": 0})
    found = {}
    for name in clients:
        request = [ConsumerGroupTopicPartitions(f"group-of-{name}")]
        (future,) = admin.list_consumer_group_offsets(request).values()
        partitions = future.result().topic_partitions
        found[name] = {partition.partition: partition.offset for partition in partitions}
    return found


def check_dump(data: Path, java_driver: JavaDriver) -> None:
    """Check all logs with Kafka's dump tool. It reports errors of batches and indexes."""
    logs = [log for log in sorted(data.glob("*-*/*.log")) if log.stat().st_size]
    assert len(logs) > 5
    dump(java_driver, *logs, options=("--skip-record-metadata",))


@pytest.mark.parametrize("kind", [Kafka, Kafka39])
def test_a_directory_goes_to_oncelog_and_back(
    kind: type[Kafka],
    tmp_path: Path,
    kafka_jars: str,
    clients: Mapping[str, Client],
    java_driver: JavaDriver,
) -> None:
    with kind(tmp_path / "kafka", QUICK | QUICK_RESTART) as kafka:
        place = Place(kafka.address, kafka.data)
        admin: Any = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
        create_topic(admin, ORDERS, partitions=3, config={"retention.ms": "123456789000"})
        create_topic(admin, TABLE, config=SETTINGS)
        write(place, clients, 1)
        write_table(place, clients["confluent-kafka"])
        seen = look(place, clients, orders=COMMITTED)
    broker = Oncelog(tmp_path / "oncelog", QUICK)
    broker.directory.mkdir()
    imported = invoke("import", str(kafka.data), "--into", str(broker.data), "--yes")
    assert imported.exit_code == 0, imported.output
    assert f"the transaction of {OPEN_ID} stays open (Ongoing)" in imported.output
    check_dump(broker.data, java_driver)
    with broker:
        place = Place(broker.address, broker.data)
        check(look(place, clients, orders=COMMITTED), seen)
        write(place, clients, 10)
        seen = look(place, clients, orders=2 * COMMITTED)
        broker.stop()
    check_dump(broker.data, java_driver)
    after = Kafka(tmp_path / "after", QUICK | QUICK_RESTART)
    after.directory.mkdir()
    exported = invoke("export", str(after.data), "--data", str(broker.data), "--yes")
    assert exported.exit_code == 0, exported.output
    with after:
        place = Place(after.address, after.data)
        check(look(place, clients, orders=2 * COMMITTED), seen)
        write(place, clients, 20)
        look(place, clients, orders=3 * COMMITTED)


def check(found: Seen, expected: Seen) -> None:
    """Check that nothing has changed, and that the leader epochs continue."""
    assert found == expected
    assert all(found.state.epochs[at] > epoch for at, epoch in expected.state.epochs.items())


def rules_of(broker: Kafka | Oncelog) -> set[AclBinding]:
    with Admin(broker.address) as admin:
        return set(admin.describe_acls())


class KafkaWithScram(Kafka):
    """A node with a listener for users with SCRAM, at the address `sasl`."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings)
        self.sasl = f"127.0.0.1:{reserve_port(self)}"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        for name in ("listeners", "advertised.listeners"):
            self._settings[name] += f",SASL://{self.sasl}"
        self._settings |= {
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": module,
        }


def credentials_of(broker: Kafka | Oncelog) -> dict[str, list[ScramCredentialInfo]]:
    with Admin(broker.address) as admin:
        return admin.describe_user_scram_credentials()


def can_log_in(address: str, user: str, password: str) -> bool:
    client = AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        },
        logger=logging.getLogger("librdkafka"),
    )
    try:
        client.list_topics(timeout=5)
    except ck.KafkaException:
        return False
    return True


def write_orders(address: str, count: int) -> None:
    """Create the topic `orders` with this number of records."""
    create_topic(AdminClient({"bootstrap.servers": address, "log_level": 0}), ORDERS)
    producer = ck.Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(count):
        producer.produce(ORDERS, b"%d" % number)
    producer.flush()


def poll_and_commit(address: str, count: int, **settings: str) -> None:
    """Read this number of records as a member of `GROUP`, and commit."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )
    consumer.subscribe([ORDERS])
    found: list[Any] = []

    def has_all() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
            consumer.commit(message, asynchronous=False)
        return len(found) == count

    wait_until(has_all, f"{count} records")
    consumer.close()


def committed(address: str) -> int:
    """Return the offset that `GROUP` has committed."""
    admin: Any = AdminClient({"bootstrap.servers": address, "log_level": 0})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).values()
    (partition,) = future.result().topic_partitions
    offset: int = partition.offset
    return offset


def test_rules_credentials_and_a_group_go_to_oncelog_and_back(
    tmp_path: Path, kafka_jars: str
) -> None:
    """Each broker has the same access rules, users with the same passwords can log in, and a group
    keeps its offsets. oncelog does not have the protocol of KIP-848, so the group continues with
    the classic protocol. Kafka accepts the records of both protocols."""
    settings = QUICK | {"authorizer.class.name": STANDARD_AUTHORIZER}
    settings |= {"super.users": "User:ANONYMOUS"}
    users = {"alice": [USUAL], "b/ö,=": [ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)]}
    with Kafka(tmp_path / "kafka", settings | QUICK_RESTART) as kafka:
        with Admin(kafka.address) as admin:
            admin.create_acls(RULES)
            admin.alter_user_scram_credentials(
                UserScramCredentialUpsertion(user, Secret("a-password"), info)
                for user, (info,) in users.items()
            )
        write_orders(kafka.address, 30)
        poll_and_commit(kafka.address, 5, **CONSUMER_PROTOCOL)
        wait_until(lambda: rules_of(kafka) == RULES, "the rules")
        wait_until(lambda: credentials_of(kafka) == users, "the credentials")
    broker = Oncelog(tmp_path / "oncelog", settings)
    broker.directory.mkdir()
    imported = invoke("import", str(kafka.data), "--into", str(broker.data), "--yes")
    assert imported.exit_code == 0, imported.output
    assert f"access rules (ACLs): {len(RULES)}" in imported.output
    assert f"SCRAM credentials of users: {len(users)}" in imported.output
    assert f"group {GROUP} keeps its offsets" in imported.output
    with broker:
        assert rules_of(broker) == RULES
        assert credentials_of(broker) == users
        with Admin(broker.address) as admin:
            carol = UserScramCredentialUpsertion("carol", Secret("of-oncelog"), USUAL)
            admin.alter_user_scram_credentials([carol])
        wait_until(lambda: committed(broker.address) == 5, "the committed offset")
        poll_and_commit(broker.address, 5)
        broker.stop()
    after = KafkaWithScram(tmp_path / "after", settings | QUICK_RESTART)
    after.directory.mkdir()
    exported = invoke("export", str(after.data), "--data", str(broker.data), "--yes")
    assert exported.exit_code == 0, exported.output
    with after:
        wait_until(lambda: rules_of(after) == RULES, "Kafka has the same rules")
        wait_until(lambda: credentials_of(after) == users | {"carol": [USUAL]}, "Kafka's users")
        assert can_log_in(after.sasl, "alice", "a-password")
        assert can_log_in(after.sasl, "carol", "of-oncelog")
        assert not can_log_in(after.sasl, "alice", "of-oncelog")
        poll_and_commit(after.address, 5, **CONSUMER_PROTOCOL)
        assert committed(after.address) == 15
