"""The scripts of the image: which program a command runs, and the health check."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from oncelog_client.cli import COMMANDS, KNOWN_EXTENSIONS
from oncelog_client.kafka_tools.tools import COMMANDS as TOOL_COMMANDS
from oncelog_client.kafka_tools.tools import TOOLS
from oncelog_client.listener_addresses import listeners as local_listeners
from tests.harness.broker import Oncelog

DOCKER = Path(__file__).resolve().parent.parent.parent / "docker"
ENTRYPOINT = DOCKER / "entrypoint"
SETTINGS = "/etc/oncelog/server.properties"


def ran(tmp_path: Path, *command: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the program that the entrypoint runs for a command, with its arguments. Each program
    is a script here that prints its own call."""
    for name in ("oncelog", "kafka-topics.sh"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*"\n')
        program.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(ENTRYPOINT), *command],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_entrypoint_knows_every_command_of_oncelog() -> None:
    text = ENTRYPOINT.read_text()
    listed = set(re.findall(r"(?:^    |\| )([a-z]+)(?= \||\))", text, re.MULTILINE))
    assert listed == set(COMMANDS) | set(KNOWN_EXTENSIONS)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("topics --list", "oncelog topics --list"),
        ("groups --list", "oncelog groups --list"),  # Debian has a program of this name
        ("--version", "oncelog --version"),
        ("serve", f"oncelog serve --config {SETTINGS}"),
        ("serve --set a=b", f"oncelog serve --config {SETTINGS} --set a=b"),
        ("serve --config mine", "oncelog serve --config mine"),
        ("kafka-topics.sh --list", "kafka-topics.sh --list"),
    ],
)
def test_a_command_runs_oncelog_or_a_program(tmp_path: Path, command: str, expected: str) -> None:
    assert ran(tmp_path, *command.split()) == expected


def test_a_shell_waits_for_the_script_of_testcontainers(tmp_path: Path) -> None:
    """testcontainers starts the image with such a command, and copies the script meanwhile."""
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\necho started\n")
    script.chmod(0o755)
    loop = f"while [ ! -f {script} ]; do sleep 0.1; done; {script}"
    assert ran(tmp_path, "sh", "-c", loop) == "started"


@pytest.mark.parametrize("name", ["kafka-topics.sh", "kafka-topics"])
def test_a_tool_has_kafkas_name_and_confluents(tmp_path: Path, name: str) -> None:
    """The image links each name to the same script. python3 is the interpreter with oncelog."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    (tmp_path / name).symlink_to(DOCKER / "kafka-tool")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(tmp_path / name), "--version"], env={"PATH": path}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "4.3.1\n"), done.stderr


def test_the_image_has_a_link_for_every_tool() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert "from oncelog_client.kafka_tools.tools import COMMANDS, TOOLS" in text
    assert {"kafka-topics.sh", "kafka-console-producer.sh"} <= {*TOOLS, *TOOL_COMMANDS}
    assert {words[0] for words in TOOL_COMMANDS.values()} <= set(KNOWN_EXTENSIONS)


@pytest.mark.parametrize(
    ("advertised", "listeners"),
    [
        ("PLAINTEXT://localhost:29092", ""),
        (
            "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "PLAINTEXT://0.0.0.0:29092,PLAINTEXT_HOST://0.0.0.0:9092",
        ),
        ("SASL_SSL://broker.example:19094", "SASL_SSL://0.0.0.0:19094"),
        ("SSL://[::1]:9093", "SSL://0.0.0.0:9093"),
    ],
)
def test_the_broker_listens_on_advertised_ports(
    tmp_path: Path, advertised: str, listeners: str
) -> None:
    """The health check derives the same ports, because it does not have the variables of the
    broker's process."""
    environment = {"KAFKA_ADVERTISED_LISTENERS": advertised}
    shown = ran(tmp_path, "sh", "-c", "echo $KAFKA_LISTENERS", environment=environment)
    assert shown == listeners
    ports = [part.rpartition(":")[2] for part in listeners.split(",") if part]
    assert [str(address.port) for address in local_listeners(environment)] == ports


def health(listeners: str, variable: str = "KAFKA_LISTENERS") -> int:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, variable: listeners}
    return subprocess.run([str(DOCKER / "health")], env=environment).returncode


def test_the_health_check_asks_a_listener_of_the_broker(tmp_path: Path) -> None:
    with Oncelog(tmp_path) as broker:
        assert health(f"PLAINTEXT://:{broker.port}") == 0
        assert health(f"CONTROLLER://:1,IN://127.0.0.1:{broker.port}", "KAFKA_CFG_LISTENERS") == 0
        os.kill(broker.pid, signal.SIGSTOP)
        assert health(f"PLAINTEXT://0.0.0.0:{broker.port}", "ONCELOG_LISTENERS") == 1
        os.kill(broker.pid, signal.SIGCONT)
    assert health(f"PLAINTEXT://:{broker.port}") == 1
    assert health("CONTROLLER://:9093") == 1
