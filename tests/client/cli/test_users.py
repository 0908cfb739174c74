"""`oncelog users`: a password comes from a file, from standard input or from a prompt."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.cli.conftest import CommandLine

PROGRAM = "import sys; from oncelog_client.program import main; sys.argv[0] = 'oncelog'; main()"


def shown(user: str, mechanism: str = "SCRAM-SHA-512", iterations: int = 4096) -> dict[str, object]:
    return {"user": user, "mechanism": mechanism, "iterations": iterations}


def test_a_user_is_added_listed_and_removed(command_line: CommandLine, name: str) -> None:
    added = command_line.json("users", "add", name, lines="pencil\n")
    assert added == [{"user": name, "mechanism": "SCRAM-SHA-512", "result": "set"}]
    command_line.settled(lambda rows: shown(name) in rows, "users", "list")
    second = ("--mechanism", "SCRAM-SHA-256", "--iterations", "8192")
    command_line.text("users", "add", name, *second, lines="pencil\n")
    both = [shown(name, "SCRAM-SHA-256", 8192), shown(name)]
    command_line.settled(lambda rows: rows == both, "users", "list", name)
    removed = command_line.json("users", "remove", name)
    assert {row["mechanism"] for row in removed} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    command_line.settled(lambda rows: name not in {row["user"] for row in rows}, "users", "list")


def test_one_of_two_credentials_is_removed(command_line: CommandLine, name: str) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        command_line.text("users", "add", name, "--mechanism", mechanism, lines="x\n")
    command_line.settled(lambda rows: len(rows) == 2, "users", "list", name)
    command_line.text("users", "remove", name, "--mechanism", "SCRAM-SHA-256")
    command_line.settled(lambda rows: rows == [shown(name)], "users", "list", name)
    command_line.text("users", "remove", name)


def test_an_absent_user_is_an_error(command_line: CommandLine, name: str) -> None:
    assert "does not exist" in command_line.refused("users", "list", name)
    assert "does not exist" in command_line.refused("users", "remove", name)
    only = ("--mechanism", "SCRAM-SHA-256")
    assert "does not exist" in command_line.refused("users", "remove", name, *only)


def test_a_password_on_the_command_line_and_a_file_that_others_may_read_are_warned_about(
    command_line: CommandLine, name: str, tmp_path: Path
) -> None:
    result = command_line.call("users", "add", name, "--password", "seen")
    assert result.exit_code == 0
    assert "warning: --password shows the password" in result.stderr
    assert "seen" not in result.output.replace("shows", "")
    path = tmp_path / "password"
    path.write_text("pencil\n")
    path.chmod(0o644)
    result = command_line.call("users", "add", name, "--password-file", str(path))
    assert f"chmod 600 {path}" in result.stderr
    path.chmod(0o600)
    result = command_line.call("users", "add", name, "--password-file", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    command_line.text("users", "remove", name)


@pytest.mark.parametrize(
    ("arguments", "lines", "reason"),
    [
        ((), "", "the password is empty"),
        ((), "\n", "the password is empty"),
        (("--password", ""), "", "the password is empty"),
        (("--password", "x", "--password-file", os.devnull), "", "excludes --password-file"),
        (("--iterations", "4095"), "x", "4095"),
        (("--mechanism", "PLAIN"), "x", "PLAIN"),
    ],
)
def test_a_wrong_call_changes_nothing(
    command_line: CommandLine, name: str, arguments: tuple[str, ...], lines: str, reason: str
) -> None:
    assert reason in command_line.refused("users", "add", name, *arguments, lines=lines)
    assert name not in command_line.text("users", "list")


def test_at_a_terminal_the_password_is_asked_for_twice_and_not_shown(
    command_line: CommandLine, name: str
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, "users", "add", name]
    environment = os.environ | {"ONCELOG_BOOTSTRAP_SERVER": command_line.address}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        printed = b""
        for question in (b"Password: ", b"Repeat for confirmation: "):
            while question not in printed:
                printed += os.read(ours, 4096)
            os.write(ours, b"a-secret\n")
        assert process.wait(60) == 0
    os.close(ours)
    assert b"a-secret" not in printed
    command_line.settled(lambda rows: rows == [shown(name)], "users", "list", name)
    command_line.text("users", "remove", name)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_end_of_the_line_is_not_part_of_the_password(
    command_line: CommandLine, name: str, tmp_path: Path, end: str
) -> None:
    path = tmp_path / "password"
    path.write_bytes(f"pencil{end}".encode())
    by_file = command_line.json("users", "add", name, "--password-file", str(path))
    by_input = command_line.json("users", "add", name, lines=f"pencil{end}")
    assert by_file == by_input == [{"user": name, "mechanism": "SCRAM-SHA-512", "result": "set"}]
    command_line.text("users", "remove", name)


@pytest.mark.parametrize("text", ["one\ntwo\n", "one\n\n", "one\r\ntwo", "\none"])
def test_a_password_of_several_lines_is_refused(
    command_line: CommandLine, name: str, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "password"
    path.write_bytes(text.encode())
    said = command_line.refused("users", "add", name, "--password-file", str(path))
    assert f"{path} has more than one line" in " ".join(said.split())
    said = command_line.refused("users", "add", name, lines=text)
    assert "standard input has more than one line" in " ".join(said.split())
    assert "does not exist" in command_line.refused("users", "list", name)
