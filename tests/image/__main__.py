"""`make image-test`: builds the image and runs docker/compose.yaml, without a Docker engine.

The steps are: build, up, a transactional round trip through the published port, commits of the
service `job` through the broker's service name, kill -9, up on the same volume, a check that
nothing is lost, down. Then docker/compose-cluster.yaml runs, and brokers and a member of etcd are
lost under a copy loop (`tests/image/cluster.py`). Then the image takes the place of the brokers of
public compose files, and their health checks pass, also with TLS and SASL. Then testcontainers
starts the image in four languages, each time with a transactional round trip. At last, all pinned
packages have wheels for arm64; `make nightly` builds and runs that image (`tests/image/arm64.py`).
The exit code is 1 if a step fails, for example because a record is lost or duplicated.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oncelog.testing.ports import free_ports
from tests.harness.certificates import Certificates
from tests.harness.debian import DebianUnavailable
from tests.harness.kafka.jars import KafkaUnavailable
from tests.image.arm64 import check_wheels
from tests.image.cluster import ClusterTest
from tests.image.compose_files import SERVICES, ComposeService
from tests.image.contents import check_contents, check_size, check_volume
from tests.image.engine import Engine, Unavailable, run_steps, say
from tests.image.modules import MODULES, Module, started
from tests.image.round_trip import compare, read_committed, write_transactions
from tests.image.secured_services import (
    SECURED,
    SecuredService,
    client_settings,
    compose_text,
    write_secrets,
    write_tool_properties,
)
from tests.image.tool_round_trip import RECORDS, TIMEOUT_MS, TOPIC, check_tools

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = "oncelog-image-test"
IMAGE = "localhost/oncelog"
BROKER, JOB, READER = (f"{PROJECT}_{service}_1" for service in ("broker", "job", "reader"))
START_TIMEOUT_S = 60.0
JOB_TIMEOUT_S = 240.0


class ImageTest:
    """The steps, in order. `timings`: the duration of each step."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        (self.port,) = free_ports(1)
        self.timings: list[tuple[str, float]] = []
        engine.environment["ONCELOG_PORT"] = str(self.port)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        say(name)
        started = time.monotonic()
        yield
        self.timings.append((name, time.monotonic() - started))

    def compose(self, *arguments: str) -> None:
        self.engine.run(
            *("podman-compose", "--project-name", PROJECT),
            *("--file", str(ROOT / "docker/compose.yaml"), *arguments),
        )

    def wait_for(
        self,
        what: str,
        condition: Callable[[], bool],
        timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Poll the condition. End the program at the timeout."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"image-test: {what}: not within {timeout_s:.0f} s")
            time.sleep(0.2)

    def logs(self, container: str) -> str:
        done = self.engine.run("podman", "logs", container, check=False)
        return done.stdout + done.stderr

    def inspect(self, container: str, form: str) -> str:
        return self.engine.run("podman", "inspect", "--format", form, container).stdout.strip()

    def reader_ended(self) -> bool:
        return self.inspect(READER, "{{.State.Status}}") == "exited"

    def healthy(self) -> bool:
        """Run the image's own health check directly, because podman has no timers here that would
        run it. Return True if it passes."""
        done = self.engine.run("podman", "healthcheck", "run", BROKER, check=False)
        return done.returncode == 0

    def run(self) -> None:
        with self.step("base image"):
            self.engine.ensure_base_image()
        with self.step("build"):
            dockerfile = ROOT / "docker/Dockerfile"
            self.engine.build(ROOT, dockerfile, "oncelog:latest")
            self.engine.build(ROOT, dockerfile, "oncelog-demo:latest", target="demo")
        with self.step("size and contents"):
            check_size(self.engine, f"{IMAGE}:latest")
            check_contents(self.engine, f"{IMAGE}:latest")
            check_volume(self.engine, f"{IMAGE}:latest")
        try:
            with self.step("up"):
                self.compose("up", "--detach")
                self.wait_for("the health check passes", self.healthy)
            with self.step("transactions through the published port"):
                first = write_transactions(self.address, "first")
                compare(first, read_committed(self.address, "first"))
            with self.step("the job commits through the service name"):
                self.wait_for("the job commits", lambda: "committed" in self.logs(JOB))
            with self.step("kill -9 and up again on the same volume"):
                self.engine.run("podman", "kill", "--signal", "KILL", BROKER)
                self.compose("up", "--detach", "broker")
                self.wait_for("the health check passes again", self.healthy)
            with self.step("nothing lost, and the next transaction"):
                compare(first, read_committed(self.address, "first"))
                second = write_transactions(self.address, "second")
                compare(second, read_committed(self.address, "second"))
            with self.step("the job ends, and the reader finds nothing lost or duplicated"):
                self.wait_for("the reader ends", self.reader_ended, JOB_TIMEOUT_S)
                say(self.logs(READER).splitlines()[-1])
                if self.inspect(READER, "{{.State.ExitCode}}") != "0":
                    raise SystemExit("image-test: the reader found losses or duplicates")
        except BaseException:
            for container in (BROKER, JOB, READER):
                sys.stderr.write(f"--- {container}\n{self.logs(container)[-4000:]}\n")
            raise
        finally:
            with self.step("down"):
                self.compose("down", "--volumes")
        with self.step("three brokers and etcd: docker/compose-cluster.yaml"):
            self.run_cluster()
        with self.step(f"{len(SERVICES)} services of public compose files"):
            for service in SERVICES:
                self.check_service(service)
        with self.step(f"{len(SECURED)} services with TLS and SASL"):
            for secured in SECURED:
                self.check_secured(secured)
        with self.engine.service() as environment:
            for module in MODULES:
                with self.step(f"testcontainers for {module.name}"):
                    self.run_module(module, environment)
        with self.step("wheels for arm64"):
            check_wheels(self.engine)
        for name, seconds in self.timings:
            say(f"{name:<45} {seconds:6.1f} s")

    def run_cluster(self) -> None:
        try:
            ClusterTest(self.engine).run()
        except DebianUnavailable as missing:
            if os.environ.get("CI") == "true":
                raise
            say(f"skipped: {missing}")

    def check_service(self, service: ComposeService) -> None:
        """Start the image in place of the image of a compose file, and wait until the health check
        of the compose file and that of the image pass."""
        variables = [f"--env={name}={value}" for name, value in service.environment.items()]
        name = f"{PROJECT}-service"
        run = ("podman", "run", "--detach", f"--name={name}", f"--hostname={service.host}")
        self.engine.run(*run, *variables, f"{IMAGE}:latest")

        def passes(*command: str) -> bool:
            done = self.engine.run("podman", "exec", name, *command, check=False)
            return done.returncode == 0

        try:
            self.wait_for(service.name, lambda: passes("sh", "-c", service.health))
            self.wait_for(f"{service.name}: health", lambda: passes("oncelog-health"))
        except BaseException:
            sys.stderr.write(self.logs(name)[-4000:])
            raise
        finally:
            self.engine.run("podman", "rm", "--force", "--time=5", name)

    def check_secured(self, service: SecuredService) -> None:
        """Start the image by a compose file with its secrets, and wait until the health check of
        the image passes. Then write and read transactions through the published port, by librdkafka
        and by Kafka's own tools, and read them by the tools in the container."""
        name = f"{PROJECT}-secured"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            certificates = Certificates(Path(folder))
            write_secrets(Path(folder), certificates)
            inside = "/etc/kafka/secrets"
            write_tool_properties(service, certificates, Path(folder), inside)
            file = Path(folder) / "compose.yaml"
            file.write_text(compose_text(service, f"{IMAGE}:latest", name, Path(folder)))
            project = ("podman-compose", "--project-name", name, "--file", str(file))
            self.engine.run(*project, "up", "--detach")

            def is_healthy() -> bool:
                health = ("podman", "exec", name, "oncelog-health")
                return self.engine.run(*health, check=False).returncode == 0

            security = client_settings(service, certificates)
            # The certificate is for localhost, and clients get the advertised address.
            address = f"localhost:{service.port}"
            try:
                self.wait_for(f"{service.name}: health", is_healthy)
                written = write_transactions(address, "secured", security)
                compare(written, read_committed(address, "secured", security))
                by_tools = self.check_kafkas_tools(service, certificates, address)
                compare(by_tools, self.read_inside(name, address, f"{inside}/client.properties"))
            except BaseException:
                sys.stderr.write(self.logs(name)[-4000:])
                raise
            finally:
                self.engine.run(*project, "down")

    def check_kafkas_tools(
        self, service: SecuredService, certificates: Certificates, address: str
    ) -> list[str]:
        """Return the records of a transactional round trip by Kafka's own tools, none without
        Java."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                properties = write_tool_properties(service, certificates, Path(folder))
                return check_tools(address, properties)
            except KafkaUnavailable as missing:
                if os.environ.get("CI") == "true":
                    raise
                say(f"skipped Kafka's own tools: {missing}")
                return []

    def read_inside(self, container: str, address: str, properties: str) -> list[str]:
        """Return what the tools of the image, which have Kafka's names, read in the container."""
        where = ("--bootstrap-server", address, "--command-config", properties)
        tool = ("podman", "exec", container)
        topics = self.engine.run(*tool, "/opt/kafka/bin/kafka-topics.sh", *where, "--list").stdout
        if TOPIC not in topics.split():
            return []
        consumer = (
            *("kafka-console-consumer.sh", *where, "--topic", TOPIC, "--from-beginning"),
            *("--isolation-level", "read_committed", "--max-messages", str(RECORDS)),
            *("--timeout-ms", str(TIMEOUT_MS)),
        )
        return self.engine.run(*tool, *consumer).stdout.splitlines()

    def run_module(self, module: Module, environment: dict[str, str]) -> None:
        self.engine.run("podman", "tag", f"{IMAGE}:latest", f"{IMAGE}:{module.tag}")
        try:
            with started(module, IMAGE, environment) as address:
                compare(write_transactions(address, "first"), read_committed(address, "first"))
        except Unavailable as missing:
            if os.environ.get("CI") == "true":
                raise
            say(f"skipped: {missing}")


def run_all(engine: Engine) -> None:
    ImageTest(engine).run()


if __name__ == "__main__":
    sys.exit(run_steps(run_all))
