"""The Java programs of the pages compile, run and print what the pages say. Kafka Connect runs with
the files of its page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.testing import Broker
from tests.docs.blocks import SERVERS, Block, blocks_of, run_shell
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, cache_directory, jars_of, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS
from tests.harness.repository import ROOT

ECOSYSTEM = ROOT / "tests" / "ecosystem"
REST = "localhost:8083"
TIMEOUT_S = 120.0


def jars(name: str) -> str:
    """Return the class path of a system, with the jars of its tests in tests/ecosystem."""
    try:
        return f"{jars_of(ECOSYSTEM / name / 'pom.xml', cache_directory() / name)}/*"
    except KafkaUnavailable as reason:
        pytest.skip(f"the jars of {name}: {reason}")


def command(block: Block, class_path: str, folder: Path) -> list[str]:
    """Compile the class of a block, and return the command that runs it."""
    found = re.search(r"public final class (\w+)", block.text)
    assert found is not None
    source = folder / f"{found[1]}.java"
    source.write_text(block.text, encoding="utf-8")
    path = f"{class_path}:{compiled(source, class_path)}"
    return [java(), *TEST_JVM_OPTIONS, "-cp", path, found[1]]


@contextmanager
def running(words: list[str], folder: Path) -> Iterator[None]:
    """Run a process until the end of the context. Show its output if the context fails."""
    log = folder / "output.txt"
    with (
        log.open("w") as file,
        subprocess.Popen(words, cwd=folder, stdout=file, stderr=file) as process,
    ):
        try:
            yield
        except BaseException as error:
            error.add_note(log.read_text(encoding="utf-8")[-4000:])
            raise
        finally:
            process.kill()


def test_the_java_client_prints_what_the_page_says(
    broker: Broker, kafka_jars: str, tmp_path: Path
) -> None:
    (program,) = blocks_of("start", "java")
    done = subprocess.run(
        [*command(program, kafka_jars, tmp_path), broker.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == program.printed


@pytest.mark.parametrize(
    ("page", "folder", "printed"),
    [
        ("howto/streams", Path.as_posix, ["CD 1", "book 1"]),
        ("howto/flink", Path.as_uri, ["bill for CD", "bill for book"]),
    ],
    ids=["streams", "flink"],
)
def test_a_job_writes_what_the_page_reads(
    page: str,
    folder: Callable[[Path], str],
    printed: list[str],
    broker: Broker,
    tmp_path: Path,
) -> None:
    (program,) = blocks_of(page, "java")
    prepare, read = blocks_of(page, "sh")
    words = command(program, jars(page.removeprefix("howto/")), tmp_path)
    run_shell(prepare.text, broker.bootstrap_servers, tmp_path)
    with running([*words, broker.bootstrap_servers, folder(tmp_path / "state")], tmp_path):
        read_lines = run_shell(read.text, broker.bootstrap_servers, tmp_path).splitlines()
    assert sorted(read_lines) == printed


def test_connect_copies_a_file_with_the_files_of_the_page(
    broker: Broker, port: int, tmp_path: Path
) -> None:
    (worker,) = blocks_of("howto/connect", "properties")
    (source,) = blocks_of("howto/connect", "json")
    (create,) = blocks_of("howto/connect", "sh")
    address = f"localhost:{port}"
    servers = broker.bootstrap_servers
    settings = tmp_path / "connect.properties"
    settings.write_text(worker.text.replace(SERVERS, servers).replace(REST, address))
    orders = tmp_path / "orders.txt"
    orders.write_text("CD\nbook\n")
    (tmp_path / "source.json").write_text(source.text.replace("orders.txt", str(orders)))
    words = [java(), *TEST_JVM_OPTIONS, "-cp", jars("connect")]
    words += ["org.apache.kafka.connect.cli.ConnectDistributed", str(settings)]
    with running(words, tmp_path):
        printed = run_shell(create.text.replace(REST, address), servers, tmp_path)
    assert printed.endswith("CD\nbook\n")
