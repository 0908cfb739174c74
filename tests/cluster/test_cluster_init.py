"""`oncelog cluster init`: a single broker becomes the first one of a cluster, with all it has."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog_server.migration.commands import storage
from tests.cluster.reading import CALL_S, metadata_of, values
from tests.faults.folders import fingerprint
from tests.harness.broker import BrokerFailed, OncelogByAddress
from tests.harness.cluster import Cluster
from tests.harness.committing import commit_offsets
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

TOPIC = "orders"
GROUP = "readers"


def command(broker: OncelogByAddress, etcd: Etcd, prefix: str, *more: str) -> CompletedProcess[str]:
    sets = (f"oncelog.etcd.endpoints={','.join(etcd.urls)}", f"oncelog.etcd.prefix={prefix}")
    return run(
        [
            *(sys.executable, "-m", "oncelog_client.cli", "cluster", "init"),
            *("--data", str(broker.data)),
            *(part for text in sets for part in ("--set", text)),
            *more,
        ],
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=False,
    )


def test_the_folder_of_a_single_broker_becomes_the_first_of_a_cluster(
    tmp_path: Path, real_etcd: Etcd
) -> None:
    prefix = "/moved/"
    cluster = Cluster(tmp_path, real_etcd, settings={"oncelog.etcd.prefix": prefix})
    alone = OncelogByAddress(
        cluster.brokers[1].directory, {"transaction.partition.verification.enable": "true"}
    )
    with alone:
        wrote = used(alone.address)
        alone.stop()
    planned = command(alone, real_etcd, prefix)
    assert (planned.returncode, "add --yes" in planned.stdout) == (0, True), planned
    done = command(alone, real_etcd, prefix, "--yes")
    assert done.returncode == 0, done
    with pytest.raises(BrokerFailed, match=r"oncelog\.etcd\.endpoints"):
        alone.start()
    # As if the command had been killed before it renamed the store.
    for name in ("oncelog-metadata.sqlite", "oncelog-metadata.txt"):
        (alone.data / f"{name}.before.1").rename(alone.data / name)
    again = command(alone, real_etcd, prefix, "--yes")
    assert (again.returncode, "in etcd already" in again.stderr) == (1, True), again
    with cluster:
        admin = AdminClient({"bootstrap.servers": cluster.address})
        wait_until(lambda: is_led(admin), "the topic has a leader")
        assert values(cluster.address, TOPIC, 1) == wrote
        assert committed(cluster.address) == len(wrote)
        admin.create_topics([NewTopic("new", 3, 3)])["new"].result(CALL_S)
        # The producer's id and epoch are known: it continues, and its transaction commits.
        wrote += transaction(cluster.address, 20)
        assert values(cluster.address, TOPIC, 1) == wrote
    stale = ["oncelog-metadata.sqlite.before.1", "oncelog-metadata.txt.before.1"]
    assert sorted(path.name for path in alone.data.glob("oncelog-metadata.[st]*")) == stale
    # The second broker has never had a store of its own.
    for broker in (cluster.brokers[1], cluster.brokers[2]):
        refused(broker.data)


def refused(data: Path) -> None:
    """Check that no command uses metadata from before the move, or invents some."""
    before = fingerprint(data)
    target = data.parent / "target"
    for arguments, instead in (
        (["export", str(target)], "`oncelog cluster export`"),
        (["export", str(target), "--yes"], "`oncelog cluster export`"),
        (["backup", str(target)], "`oncelog cluster export`"),
        (["recover"], "`oncelog cluster recover`"),
        (["recover", "--yes"], "`oncelog cluster recover`"),
    ):
        result = CliRunner().invoke(storage, [*arguments, "--data", str(data)])
        assert result.exit_code == 1, result.output
        assert f"the metadata of {data} is in etcd" in result.output
        assert instead in result.output
    assert fingerprint(data) == before
    assert not target.exists()


def used(address: str) -> list[str]:
    """Write in a transaction, and commit an offset of a group."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(CALL_S)
    wrote = transaction(address, 0)
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    commit_offsets(consumer, [TopicPartition(TOPIC, 0, len(wrote))])
    consumer.close()
    return wrote


def transaction(address: str, first: int) -> list[str]:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "writer"})
    producer.init_transactions(CALL_S)
    producer.begin_transaction()
    written = [f"{number:06}" for number in range(first, first + 20)]
    for value in written:
        producer.produce(TOPIC, value)
    producer.commit_transaction(CALL_S)
    return written


def committed(address: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    (place,) = consumer.committed([TopicPartition(TOPIC, 0)], CALL_S)
    consumer.close()
    return int(place.offset)


def is_led(admin: AdminClient) -> bool:
    topic = metadata_of(admin, TOPIC).topics[TOPIC]
    return len(topic.partitions) == 1 and topic.partitions[0].leader == 1
