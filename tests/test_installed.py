"""A wheel in a new environment, without the repository: a broker, a transaction, a reader, the
command line. `oncelog-client` has no broker, and names the package that has one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness.broker import Oncelog
from tests.harness.distributions import FOLDERS, THIN, WHOLE, build, clone, environment

TIMEOUT_S: Final = 60
BOTH = pytest.mark.parametrize("name", [WHOLE, THIN])

# A committed, an aborted and another committed transaction, and the records that a read_committed
# reader gets.
TRANSACTION = """
import asyncio, sys
from oncelog import Admin, Consumer, NewTopic, Producer

async def main(address, topic):
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(topic, 1)])
    async with Producer(address, transactional_id=topic) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"committed")
        await producer.begin_transaction()
        await producer.send(topic, b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"last")
    values = []
    async with Consumer(
        address, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        await consumer.subscribe([topic])
        while b"last" not in values:
            values += [record.value for record in await consumer.poll(1000)]
    print(values)

asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 50))
"""

# Modules that an import of the public names must not load, before a name is used.
HEAVY: Final = {"asyncio", "click", "cramjam", "crc32c", "logging", "re", "rich", "ssl", "typing"}
IMPORT = """
import sys
before = set(sys.modules)
import oncelog
print(*sorted(set(sys.modules) - before))
assert oncelog.__version__ and "Producer" in dir(oncelog)
oncelog.Producer, oncelog.Consumer, oncelog.Admin
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The `bin` folders of two new environments, one with each distribution."""
    fresh = clone(tmp_path_factory.mktemp("clone"))
    folders = {}
    for name, project in FOLDERS.items():
        wheel = build(fresh / project, "wheel", tmp_path_factory.mktemp("wheel"))
        folders[name] = environment(name, wheel, tmp_path_factory.mktemp(name) / "python")
    return folders


class InstalledBroker(Oncelog):
    """The program `oncelog` of an environment, run as a user runs it."""

    def __init__(self, folder: Path, directory: Path) -> None:
        super().__init__(directory, {"group.initial.rebalance.delay.ms": "0"}, {"PYTHONPATH": ""})
        self._folder = folder

    def command(self) -> list[str]:
        _, _, _, *arguments = super().command()
        return [str(self._folder / "oncelog"), *arguments]


@pytest.fixture(scope="module")
def broker(
    installed: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oncelog]:
    with InstalledBroker(installed[WHOLE], tmp_path_factory.mktemp("broker")) as running:
        yield running


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment in a folder without the repository's files."""
    program, *arguments = words
    return subprocess.run(
        [str(folder / program), *arguments],
        cwd=folder,
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@BOTH
def test_a_reader_gets_only_the_committed_records(
    installed: dict[str, Path], broker: Oncelog, name: str
) -> None:
    done = run(installed[name], "python", "-c", TRANSACTION, broker.address, f"of-{name}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[b'committed', b'last']\n"


@BOTH
def test_the_command_line(installed: dict[str, Path], broker: Oncelog, name: str) -> None:
    server = ("--bootstrap-server", broker.address)
    topic = ("--topic", f"by-{name}")
    assert run(installed[name], "oncelog", "topics", "--create", *topic, *server).returncode == 0
    listed = run(installed[name], "oncelog", "topics", "--list", *server)
    assert f"by-{name}" in listed.stdout, listed.stderr
    version = run(installed[name], "python", "-m", "oncelog", "--version")
    assert broker.version in version.stdout, version.stderr


def test_no_module_is_imported_from_the_repository(installed: dict[str, Path]) -> None:
    places = "import oncelog, oncelog_server; print(oncelog.__file__, oncelog_server.__file__)"
    done = run(installed[WHOLE], "python", "-c", places)
    root = str(installed[WHOLE].parent)
    assert all(place.startswith(root) for place in done.stdout.split()), done.stderr


def test_serve_of_oncelog_client_says_how_to_install_the_broker(installed: dict[str, Path]) -> None:
    refused = run(installed[THIN], "oncelog", "serve")
    assert refused.returncode == 1
    assert "pip uninstall oncelog-client && pip install oncelog" in refused.stderr
    assert "Traceback" not in refused.stderr


@BOTH
def test_an_import_of_the_public_names_loads_few_modules(
    installed: dict[str, Path], name: str
) -> None:
    done = run(installed[name], "python", "-c", IMPORT)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"oncelog", "oncelog_client", "oncelog_protocol"} <= loaded
    assert not loaded & HEAVY
    assert len(loaded) < 10, "the import loads modules that are not needed yet"


TESTING = """
from oncelog.testing import Broker
from oncelog.testing.wire import Wire
from oncelog_protocol.messages.metadata import MetadataRequest

with Broker() as broker:
    broker.faults.clear()
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.call(MetadataRequest(), 12).brokers
"""


def test_oncelog_has_a_broker_for_tests_and_its_pytest_plugin(installed: dict[str, Path]) -> None:
    done = run(installed[WHOLE], "python", "-W", "error", "-c", TESTING)
    assert done.returncode == 0, done.stderr
    plugins = (
        "from importlib.metadata import entry_points;"
        "print([each.value for each in entry_points(group='pytest11', name='oncelog')])"
    )
    assert run(installed[WHOLE], "python", "-c", plugins).stdout == "['oncelog.testing.plugin']\n"


def test_oncelog_client_has_neither(installed: dict[str, Path]) -> None:
    find = "from importlib.util import find_spec; print(find_spec('oncelog.testing'))"
    assert run(installed[THIN], "python", "-c", find).stdout == "None\n"
