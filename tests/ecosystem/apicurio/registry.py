"""Apicurio Registry with kafkasql storage: its only lasting state is in topics of a broker. Maven
fetches the program once by name, and the user's cache keeps it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from oncelog.testing.ports import reserve_port
from tests.harness.application import Application
from tests.harness.class_archive import ClassArchive
from tests.harness.kafka.jars import FETCH_TIMEOUT_S, KafkaUnavailable, cache_directory
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS
from tests.harness.waiting import wait_until

POM = Path(__file__).with_name("pom.xml")
JOURNAL = "kafkasql-journal"
# Apicurio Registry 3.3 is compiled for this version of Java.
JAVA_VERSION = 21
JAVA_HOMES = Path("/usr/lib/jvm")
START_TIMEOUT_S = 120.0
# A start waits this long for records of a topic that has no more. The default is 5 s.
QUICK = {"apicurio.kafkasql.consumer.poll.timeout": "500"}
# Apicurio Registry 3.3 drops the records of the poll in which its consumer of the snapshots gets
# its partition. A quick broker returns all records to that poll, and the registry then reads the
# whole journal. With these settings, the first fetch takes longer than that poll.
FINDS_SNAPSHOTS = {
    "apicurio.kafkasql.consumer.poll.timeout": "3000",
    "apicurio.kafkasql.consumer.fetch.min.bytes": "1000000",
    "apicurio.kafkasql.consumer.fetch.max.wait.ms": "3300",
}
_CALL_TIMEOUT_S = 60.0
_TERMINATED = 143


class Registry(Application):
    """A registry with its storage at the broker `address`, and its snapshots in the folder
    `snapshots`. Programs connect to `url`."""

    def __init__(
        self,
        log: Path,
        address: str,
        snapshots: Path,
        settings: Mapping[str, str] = QUICK,
        *,
        jvm_options: Sequence[str] | None = None,
    ) -> None:
        snapshots.mkdir(exist_ok=True)
        port, management_port = reserve_port(self), reserve_port(self)
        self._address = f"http://127.0.0.1:{port}"
        self.ready_url = f"http://127.0.0.1:{management_port}/health/ready"
        self.url = f"{self._address}/apis/ccompat/v7"
        options = _class_archive().options if jvm_options is None else jvm_options
        command = [_java(), *TEST_JVM_OPTIONS, *options]
        command += [f"-D{name}={value}" for name, value in settings.items()]
        super().__init__(
            [*command, "-jar", str(_home() / "quarkus-run.jar")],
            log,
            {
                "APICURIO_STORAGE_KIND": "kafkasql",
                "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": address,
                "APICURIO_STORAGE_SNAPSHOT_LOCATION": str(snapshots),
                "QUARKUS_HTTP_HOST": "127.0.0.1",
                "QUARKUS_HTTP_PORT": str(port),
                "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
                "QUARKUS_MANAGEMENT_PORT": str(management_port),
                "QUARKUS_LOG_CATEGORY__ORG_APACHE_KAFKA__LEVEL": "WARN",
            },
        )

    def wait_until_ready(self) -> None:
        """Return once the registry has read its journal."""

        def is_ready() -> bool:
            self.check()
            return _succeeds("GET", self.ready_url)

        wait_until(is_ready, f"a ready registry: {self.log.name}", START_TIMEOUT_S)

    def snapshot(self) -> None:
        """Write a snapshot of the whole state to the folder, and its place to a topic of the
        broker. A later start reads the snapshot, and the journal from there."""

        def is_written() -> bool:
            self.revive()
            return _succeeds("POST", f"{self._address}/apis/registry/v3/admin/snapshots")

        wait_until(is_written, "a snapshot", START_TIMEOUT_S)


def prepare(folder: Path, address: str) -> None:
    """Fetch the registry, and make the archive of its classes with a run at the broker `address`.
    Later calls do nothing. Raises KafkaUnavailable with the reason."""
    _home()
    _class_archive().make(partial(_run_once, folder, address))


def _run_once(folder: Path, address: str, jvm_options: Sequence[str]) -> None:
    log = folder / "first-registry.log"
    with Registry(log, address, folder / "snapshots", jvm_options=jvm_options) as registry:
        registry.wait_until_ready()
        assert registry.stop() == _TERMINATED


def _class_archive() -> ClassArchive:
    return ClassArchive(_directory(), _java(), _home())


def _java() -> str:
    """Return the path of a `java` that runs the registry. Raises KafkaUnavailable without one."""
    found = shutil.which("java")
    homes = [Path(found).resolve().parents[1]] if found else []
    homes += [Path(home) for home in (os.environ.get("JAVA_HOME"),) if home]
    for home in [*homes, *sorted(JAVA_HOMES.glob("*"))]:
        release = home / "release"
        version = (
            re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.M)
            if (release.exists())
            else None
        )
        if version and int(version[1]) >= JAVA_VERSION:
            return str(home / "bin" / "java")
    raise KafkaUnavailable(
        f"Java {JAVA_VERSION} or newer is neither on the PATH, nor at JAVA_HOME, nor in"
        f" {JAVA_HOMES}"
    )


def _directory() -> Path:
    return cache_directory() / "apicurio"


def _home() -> Path:
    """Return the folder of the registry. Fetch it at first use.

    Several processes may call this at once. Raises KafkaUnavailable with the reason.
    """
    directory = _directory()
    home = directory / f"registry-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"
    if not home.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not home.exists():
                _fetch(directory / "fetch", home)
    return home


def _fetch(work: Path, home: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("no `mvn` on the PATH to fetch Apicurio Registry")
    # Maven writes `target` beside its pom. A copy keeps the source tree clean.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    shutil.copy(POM, work / "pom.xml")
    unpacked = work / "unpacked"
    command = [maven, "-q", "-B", "-f", str(work / "pom.xml"), "dependency:unpack"]
    outcome = subprocess.run(
        [*command, f"-DoutputDirectory={unpacked}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if outcome.returncode:
        raise KafkaUnavailable(f"mvn could not fetch Apicurio Registry: {outcome.stdout[-2000:]}")
    unpacked.rename(home)


def _succeeds(method: str, url: str) -> bool:
    """Return True if the response is a success. Return False for another response, or without
    one."""
    try:
        request = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(request, timeout=_CALL_TIMEOUT_S):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False
