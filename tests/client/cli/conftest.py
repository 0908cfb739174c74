"""The command line against a running broker: oncelog, and Apache Kafka as the control."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.testing.ports import free_ports
from oncelog_client.cli import oncelog
from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until

SETTLE_TIMEOUT_S = 30.0
QUICK = {"group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`oncelog` as a user calls it, with the address of a broker in the environment."""

    address: str

    def call(self, *arguments: str, lines: str = "") -> Result:
        """Run a call to its end. Return its result, whatever the exit code."""
        environment = {"ONCELOG_BOOTSTRAP_SERVER": self.address}
        return CliRunner().invoke(oncelog, arguments, input=lines, env=environment)

    def text(self, *arguments: str, lines: str = "") -> str:
        """Return the standard output of a call that must succeed."""
        result = self.call(*arguments, lines=lines)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str, lines: str = "") -> Any:
        """Return the parsed output with `--json`."""
        return json.loads(self.text(*arguments, "--json", lines=lines))

    def settled(self, promise: Callable[[Any], bool], *arguments: str) -> Any:
        """Repeat a call with `--json` until `promise` is true of its output, because brokers learn
        of changes late. Return the output."""
        said: Any = None

        def holds() -> bool:
            nonlocal said
            result = self.call(*arguments, "--json")
            said = json.loads(result.stdout) if result.exit_code == 0 else None
            return said is not None and promise(said)

        wait_until(holds, f"the expected output of {arguments}", SETTLE_TIMEOUT_S)
        assert said is not None
        return said

    def create(self, topic: str, *, partitions: int = 1) -> None:
        """Create a topic, and wait until all its partitions have a leader."""
        self.text("topics", "--create", "--topic", topic, "--partitions", str(partitions))
        self.settled(led(partitions), "topics", "--describe", "--topic", topic)

    def values(self, topic: str, *arguments: str, count: int) -> list[str]:
        """Return the values of `count` records of a topic, from its beginning, sorted."""
        flags = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000")
        return sorted(self.text("consume", "--topic", topic, *flags, *arguments).splitlines())

    def refused(self, *arguments: str, lines: str = "") -> str:
        """Return the message of a call that must fail without a traceback."""
        result = self.call(*arguments, lines=lines)
        assert result.exit_code in {1, 2}, result.output
        assert isinstance(result.exception, SystemExit)
        return result.output


@pytest.fixture(scope="session", params=["oncelog", "kafka"])
def command_line(request: pytest.FixtureRequest) -> CommandLine:
    """The command line with oncelog, then with Apache Kafka. It works with both."""
    names = {"oncelog": "running_oncelog", "kafka": "kafka"}
    broker: Oncelog | Kafka = request.getfixturevalue(names[request.param])
    return CommandLine(broker.address)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """oncelog alone, for tests of the command itself."""
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield CommandLine(broker.address)
        # The broker may have been ended by a test, or by a signal to all processes with its name.
        # Such a signal ends commands too, and their tests then fail for no visible reason.
        assert broker.is_running, f"the broker has ended by itself: {broker.said()}"


@pytest.fixture
def name() -> str:
    """A new name."""
    return f"cli-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(command_line: CommandLine, name: str) -> str:
    """A new topic of two partitions."""
    command_line.create(name, partitions=2)
    return name


def led(count: int) -> Callable[[Any], bool]:
    """Return a condition for the description of a topic: it has this number of partitions, all with
    a leader."""
    return lambda rows: [row["leader"] is not None for row in rows] == [True] * count


@pytest.fixture
def nowhere() -> str:
    """An address that refuses connections."""
    return f"127.0.0.1:{free_ports(1)[0]}"
