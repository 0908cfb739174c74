"""The common part of all commands. Commands start fast and show complete help. A missing package
raises a clear error."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from oncelog_client import cli
from oncelog_client.cli import BROKER, COMMANDS, KNOWN_EXTENSIONS, oncelog
from oncelog_client.cli.cluster import EXTENSIONS
from oncelog_client.cli.commands import help_lines
from oncelog_client.cli.extensions import GROUP, names_in_group
from oncelog_client.cli.options import parse_settings, read_properties


def test_help_lists_every_command_without_importing_one() -> None:
    code = (
        "import sys; from oncelog_client.cli import main\n"
        "sys.argv = ['oncelog', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'rich', 'asyncio', 'cramjam'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *shown, imported = done.stdout.splitlines()
    assert imported == "[]"
    for name in (*COMMANDS, *KNOWN_EXTENSIONS):
        assert any(line.split()[:1] == [name] for line in shown), name


@pytest.fixture
def without_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The imports of an installation of the client alone."""
    for name in [name for name in sys.modules if name.partition(".")[0] == BROKER]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, BROKER, None)


@pytest.mark.usefixtures("without_broker")
def test_help_and_completion_of_the_cluster_need_no_broker() -> None:
    result = CliRunner().invoke(oncelog, ["cluster", "--help"])
    assert result.exit_code == 0, result.output
    shown = {line.split()[0] for line in result.output.splitlines() if line.split()}
    completed = ShellComplete(oncelog, {}, "oncelog", "").get_completions(["cluster"], "")
    for verbs in (shown, {item.value for item in completed}):
        assert EXTENSIONS.keys() <= verbs
        assert {"drain", "rebalance", "strays", "unregister", "doctor"} <= verbs
    (item,) = ShellComplete(oncelog, {}, "oncelog", "").get_completions(["cluster"], "rec")
    assert (item.value, item.help) == ("recover", EXTENSIONS["recover"][2])


@pytest.mark.usefixtures("without_broker")
@pytest.mark.parametrize("verb", EXTENSIONS)
def test_a_verb_that_needs_the_broker_says_what_to_install(verb: str) -> None:
    result = CliRunner().invoke(oncelog, ["cluster", verb])
    assert result.exit_code == 1
    assert "pip uninstall oncelog-client && pip install oncelog" in result.output


@pytest.mark.parametrize("verb", EXTENSIONS)
def test_the_table_of_verbs_agrees_with_their_help(verb: str) -> None:
    module, name, text = EXTENSIONS[verb]
    assert help_lines({verb: getattr(import_module(module), name)}) == {verb: text}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    result = CliRunner().invoke(oncelog, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "--bootstrap-server" in result.output or "Commands:" in result.output


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("oncelog_server.gone", "pip uninstall oncelog-client && pip install oncelog"),
        ("no_such_package", "no_such_package is missing: pip install --force-reinstall"),
    ],
)
def test_a_command_whose_package_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, package: str, said: str
) -> None:
    monkeypatch.setitem(cli.KNOWN_EXTENSIONS, "serve", (f"{package}:serve", "Run a broker."))
    result = CliRunner().invoke(oncelog, ["serve"])
    assert result.exit_code == 1
    assert said in result.output


def test_the_known_extensions_equal_the_entry_points() -> None:
    points = {point.name: point.value for point in entry_points(group=GROUP)}
    assert points == {name: place for name, (place, _) in KNOWN_EXTENSIONS.items()}


def test_another_package_adds_a_command(tmp_path: Path) -> None:
    metadata = tmp_path / "again-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: again\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[console_scripts]\nagain = again:main\n\n"
        "[oncelog.commands]\nserve = nowhere:serve\nagain = oncelog_client.cli.topics:topics\n"
    )
    for words, said in ((["--help"], "\n  again"), (["again", "--help"], "Usage: oncelog again")):
        done = subprocess.run(
            [sys.executable, "-m", "oncelog_client.cli", *words],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert said in done.stdout, done.stderr


def test_a_package_in_a_zip_archive_adds_a_command(tmp_path: Path) -> None:
    archive = tmp_path / "again.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("again-1.0.dist-info/METADATA", "Name: again\nVersion: 1.0\n")
        points = "[oncelog.commands]\nagain = oncelog_client.cli.topics:topics\n"
        file.writestr("again-1.0.dist-info/entry_points.txt", points)
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_client.cli", "--help"],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
    )
    assert "\n  again" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("[other]\na = b\n", []),
        ("[oncelog.commands]\na=b\n# c = d\n\n e = f:g [extra]\n[other]\nh = i\n", ["a", "e"]),
        ("# [oncelog.commands]\na = b\n", []),
    ],
)
def test_names_are_read_from_one_group_of_an_entry_points_file(text: str, names: list[str]) -> None:
    assert names_in_group(text) == names


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(oncelog, ["topiks"]).exit_code == 2


def test_settings_with_kafkas_names_get_snake_case_and_typed_values() -> None:
    assert parse_settings(["linger.ms=5", "acks=all", "enable.idempotence=true"]) == {
        "linger_ms": 5,
        "acks": "all",
        "enable_idempotence": True,
    }


def test_a_settings_line_without_a_value_is_refused() -> None:
    with pytest.raises(click.UsageError, match="name=value"):
        parse_settings(["linger.ms"])


def test_a_settings_file_may_hold_comments_and_security_protocol_plaintext(
    tmp_path: Path,
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# a comment\n\nsecurity.protocol=PLAINTEXT\nclient.id=x\n")
    assert read_properties(path) == {"client_id": "x", "security_protocol": "PLAINTEXT"}


def test_a_closed_pipe_ends_the_output_without_an_error() -> None:
    """An example is `| head -1`."""
    program = (
        "import sys; from oncelog_client.cli.failures import exit_code_of\n"
        "sys.exit(exit_code_of(lambda: [print(n) for n in range(100_000)]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_a_command_runs_with_the_garbage_collector_on() -> None:
    """The program switches the collector off for its imports only, because produce and consume may
    run for days."""
    code = (
        "import click, gc, oncelog_client.cli as cli\n"
        "cli.COMMANDS['look'] = ('topics:look', '')\n"
        "from oncelog_client.cli import topics\n"
        "topics.look = click.Command('look', callback=lambda: print(gc.isenabled()))\n"
        "import sys; sys.argv = ['oncelog', 'look']\n"
        "from oncelog_client.program import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
