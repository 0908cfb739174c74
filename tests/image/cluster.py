"""docker/compose-cluster.yaml under podman: brokers and a member of etcd are lost under a
transactional copy loop.

`python -m tests.image.cluster` builds the image and runs this part of `make image-test` alone. With
ONCELOG_CLUSTER_KILLS=20, as in `make nightly`, it kills twenty containers, brokers and members of
etcd, one in fifteen seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from oncelog.testing.ports import free_ports
from tests.copiers.running import Copiers, Feed, audit, progress
from tests.copiers.work import Work
from tests.harness.etcd import program
from tests.harness.waiting import wait_until
from tests.image.engine import BASE_IMAGE, Engine, run_steps, say
from tests.image.round_trip import compare, read_committed, write_transactions

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PROJECT: Final = "oncelog-cluster-test"
COMPOSE: Final = ROOT / "docker/compose-cluster.yaml"
BROKERS: Final = ("broker-1", "broker-2", "broker-3")
MEMBERS: Final = ("etcd-1", "etcd-2", "etcd-3")
ETCD_IMAGE: Final = "quay.io/coreos/etcd:v3.5.21"

KILLS: Final = int(os.environ.get("ONCELOG_CLUSTER_KILLS", "0"))
KILL_INTERVAL_S: Final = 15.0
# The copiers' consumers have the shortest session that a broker allows by default.
SESSION_MS: Final = 6_000
TRANSACTION_MS: Final = 30_000
COPIERS: Final = 2
RECORDS: Final = 200
START_S: Final = 120.0


class ClusterTest:
    """The steps, in order."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        ports = free_ports(len(BROKERS))
        for number, port in enumerate(ports, 1):
            engine.environment[f"ONCELOG_PORT_{number}"] = str(port)
        self.address = ",".join(f"localhost:{port}" for port in ports)
        self.work = Work(self.address, "copies", 0)
        self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})

        # The clients warn about every attempt to reach a killed broker.
        logging.getLogger("oncelog_client").setLevel(logging.ERROR)

    def run(self, kills: int = KILLS) -> None:
        """Run the steps. Raises SystemExit or AssertionError if a promise is broken, and
        DebianUnavailable without an etcd."""
        self.build_etcd()
        try:
            with timed("three brokers and three members of etcd"):
                self.compose("up", "--detach")
                wait_until(self.is_complete, "three brokers are one cluster", START_S)
                self.check_settings_of_etcd()
            victims = random_victims(kills) if kills else ["broker-1", "broker-2"]
            with timed(f"a copy loop while {len(victims)} containers are killed"):
                asyncio.run(self.copy_under_kills(victims))
            with timed("a new topic without one member of etcd"):
                self.engine.run("podman", "stop", container("etcd-1"))
                compare(
                    write_transactions(self.address, "without-etcd-1"),
                    read_committed(self.address, "without-etcd-1"),
                )
            with timed("a clean stop of the brokers"):
                self.check_clean_stop()
        except BaseException:
            for service in (*BROKERS, *MEMBERS):
                logs = self.logs(service)[-4000:]
                sys.stderr.write(f"--- {service}\n{logs}\n")
            raise
        finally:
            with timed("down"):
                self.compose("down", "--volumes")

    def build_etcd(self) -> None:
        """Build a replacement for etcd's official image, with the etcd of the tests."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(program(), Path(folder) / "etcd")
            dockerfile = Path(folder) / "Dockerfile"
            dockerfile.write_text(
                f'FROM {BASE_IMAGE}\nCOPY etcd /usr/local/bin/etcd\nCMD ["/usr/local/bin/etcd"]\n'
            )
            self.engine.build(Path(folder), dockerfile, ETCD_IMAGE)

    def compose(self, *arguments: str) -> None:
        self.engine.run(
            *("podman-compose", "--project-name", PROJECT, "--file", str(COMPOSE), *arguments)
        )

    def logs(self, service: str) -> str:
        done = self.engine.run("podman", "logs", container(service), check=False)
        return done.stdout + done.stderr

    def is_complete(self) -> bool:
        """Return True if each broker passes the health check of the image, and all are known."""
        try:
            brokers = self.admin.list_topics(timeout=5).brokers
        except KafkaException:
            return False
        return len(brokers) == len(BROKERS) and all(
            self.engine.run(
                "podman", "healthcheck", "run", container(broker), check=False
            ).returncode
            == 0
            for broker in BROKERS
        )

    def check_settings_of_etcd(self) -> None:
        for member in MEMBERS:
            unknown = [line for line in self.logs(member).splitlines() if "unrecognized" in line]
            if unknown:
                raise SystemExit(f"image-test: {member}: {unknown[0]}")

    async def copy_under_kills(self, victims: list[str]) -> None:
        """Kill one container after the other, each when the last one is in the cluster again. Then
        each record is copied once."""
        feed = Feed(self.work, replicas=len(BROKERS))
        copiers = Copiers(self.address, self.work.name, TRANSACTION_MS, SESSION_MS)
        await feed.create()
        feed.feeding = asyncio.create_task(feed.run())
        try:
            for number in range(COPIERS):
                copiers.start(number, "consumer")
            await progress(self.work, copiers, RECORDS)
            for victim in victims:
                next_kill = time.monotonic() + (KILL_INTERVAL_S if KILLS else 0)
                await self.kill_and_start(victim, copiers)
                await asyncio.sleep(next_kill - time.monotonic())
            await audit(feed, copiers)
            copied = sum(len(values) for values in feed.sent)
            say(f"{copied} records copied once, {copiers.restarts} copiers started again")
        finally:
            feed.ended = True
            copiers.close()

    async def kill_and_start(self, victim: str, copiers: Copiers) -> None:
        """Kill a container. Start it again after further records have been copied without it."""
        began = time.monotonic()
        kill = ("podman", "kill", "--signal", "KILL", container(victim))
        await asyncio.to_thread(self.engine.run, *kill)
        await progress(self.work, copiers, RECORDS)
        gap_s = time.monotonic() - began
        await asyncio.to_thread(self.engine.run, "podman", "start", container(victim))
        await asyncio.to_thread(wait_until, self.are_in_sync, f"{victim} is back", START_S)
        back_s = time.monotonic() - began
        say(f"{victim} killed: copies after {gap_s:.1f} s, all in sync after {back_s:.1f} s")

    def are_in_sync(self) -> bool:
        """Return True if all replicas are in sync, also those of the internal topics."""
        try:
            topics = self.admin.list_topics(timeout=5).topics.values()
        except KafkaException:
            return False
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(len(partition.isrs) == len(BROKERS) for partition in partitions)

    def check_clean_stop(self) -> None:
        """Check that the brokers end by themselves, in `stop_grace_period`."""
        self.compose("stop", *BROKERS)
        for broker in BROKERS:
            form = ("--format", "{{.State.ExitCode}}")
            code = self.engine.run("podman", "inspect", *form, container(broker)).stdout.strip()
            if code != "0":
                raise SystemExit(f"image-test: {broker} ended with {code}")


def container(service: str) -> str:
    return f"{PROJECT}_{service}_1"


def random_victims(count: int) -> list[str]:
    """Return services to be killed. Each occurs among the first six."""
    randomness = random.Random(count)
    victims: list[str] = []
    while len(victims) < count:
        victims += randomness.sample((*BROKERS, *MEMBERS), len(BROKERS) + len(MEMBERS))
    return victims[:count]


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    say(f"cluster: {what}: {time.monotonic() - began:.1f} s")


def run_cluster(engine: Engine) -> None:
    """Build the image, and run the test alone."""
    engine.ensure_base_image()
    with timed("build"):
        engine.build(ROOT, ROOT / "docker/Dockerfile", "oncelog:latest")
    ClusterTest(engine).run()


if __name__ == "__main__":
    sys.exit(run_steps(run_cluster))
