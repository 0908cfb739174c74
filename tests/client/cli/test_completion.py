"""`oncelog completion`: real shells run the printed scripts."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_client.cli.completion import TIMEOUT_S
from tests.client.cli.conftest import QUICK, CommandLine
from tests.harness.broker import Oncelog

TOPIC = "completed-topic"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with Oncelog(tmp_path_factory.mktemp("broker"), QUICK) as running:
        command_line = CommandLine(running.address)
        command_line.create(TOPIC)
        command_line.text(
            "produce", "--topic", TOPIC, "--transactional-id", "completed-id", lines="v\n"
        )
        command_line.values(TOPIC, "--group", "completed-group", count=1)
        yield running


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with this `oncelog` as the program."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "oncelog"
    command = shlex.join([sys.executable, "-m", "oncelog_client.cli"])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def completed(path: str, address: str, *words: str) -> list[str]:
    """Return bash's suggestions for the last word of a line."""
    line = shlex.join(["oncelog", *words])
    script = f"""
    source <(oncelog completion bash)
    COMP_WORDS=({line}); COMP_CWORD={len(words)}
    _oncelog_completion oncelog
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = os.environ | {"PATH": path, "ONCELOG_BOOTSTRAP_SERVER": address}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("top",), ["topic", "topics"]),
        (("topic", "de"), ["delete", "describe"]),
        (("topic", "create", "x", "--part"), ["--partitions"]),
        (("topic", "describe", "comp"), [TOPIC]),
        (("topic", "trim", "comp"), [TOPIC]),
        (("topics", "--describe", "--topic", "comp"), [TOPIC]),
        (("consume", "--topic", "comp"), [TOPIC]),
        (("group", "describe", "comp"), ["completed-group"]),
        (("group", "seek", "comp"), ["completed-group"]),
        (("groups", "--group", "comp"), ["completed-group"]),
        (("txn", "abort", "comp"), ["completed-id"]),
        (("transactions", "describe", "comp"), ["completed-id"]),
    ],
    ids=" ".join,
)
def test_bash_completes_verbs_options_and_names(
    broker: Oncelog, path: str, words: tuple[str, ...], expected: list[str]
) -> None:
    assert sorted(completed(path, broker.address, *words)) == expected


def test_the_bootstrap_server_option_on_the_line_selects_the_broker(
    broker: Oncelog, path: str, nowhere: str
) -> None:
    words = ("topic", "describe", "--bootstrap-server", broker.address, "comp")
    assert completed(path, nowhere, *words) == [TOPIC]


def test_without_a_broker_there_is_no_suggestion_and_no_message(path: str, nowhere: str) -> None:
    assert completed(path, nowhere, "topic", "describe", "c") == []


def test_completion_does_not_wait_for_a_server_that_does_not_respond(path: str) -> None:
    """The completion ends within a second, before a user presses the key again."""
    assert TIMEOUT_S < 1
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert completed(path, address, "topic", "describe", "c") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_accept_their_scripts(path: str, shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["oncelog", "completion", shell],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_ONCELOG_COMPLETE" in done.stdout
    found = shutil.which(shell)
    if found is None:
        return  # the shell is not installed here, so it cannot check the script
    script = tmp_path / f"oncelog.{shell}"
    script.write_text(done.stdout)
    subprocess.run([found, "-n", str(script)], check=True, timeout=60)
