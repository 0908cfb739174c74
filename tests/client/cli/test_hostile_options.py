"""Every option and argument of every command with hostile values. A command never prints a
traceback, and has one of four exit codes. The commands and options come from click's own list, so
new ones are tested as well."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import click
import pytest
from click.testing import CliRunner, Result

from oncelog_client.cli import COMMANDS, oncelog
from tests.harness.broker import Oncelog

EXIT_CODES = {0, 1, 2, 130}
HOSTILE = [
    "",
    " ",
    "-1",
    "0",
    "9" * 30,
    "1e400",
    "nan",
    "\u0661\u0662",
    "\x00".join("ab"),
    "a\nb\r\x1b[2J",
    "\u202eabc",
    "\udcff",
    "x" * 40_000,
    "é" * 20_000,
    "(",
    "(a+)+$",
    "a=b=c,,[",
    "=",
    "/etc",
    "../../..",
    "%s{0}$HOME",
]
# The number of values for each option in `make test`.
A_HAND = 2
SEED = 12
# Commands that are not tested here. They change nothing on a broker.
LEFT_OUT = {"completion", "doctor"}
# The options that a command needs to run and to end by itself.
ENOUGH = {
    "topics": ["--describe"],
    "produce": ["--topic", "t"],
    "consume": ["--topic", "t", "--timeout-ms", "1"],
    "groups": ["--describe", "--group", "g"],
    "config": ["--describe", "--topic", "t"],
    "transactions abort": ["--topic", "t", "--partition", "0", "--start-offset", "0"],
    "transactions find-hanging": ["--topic", "t"],
    "transactions describe-producers": ["--topic", "t", "--partition", "0"],
    "topic trim": ["--before", "0"],
}
FOR_OPTION = {
    ("groups", "topic"): ["--reset-offsets", "--to-earliest", "--group", "g"],
    ("config", "add_config"): ["--alter", "--topic", "t"],
    ("config", "delete_config"): ["--alter", "--topic", "t"],
    ("config", "entity_name"): ["--describe", "--entity-type", "brokers"],
    ("topics", "configs"): ["--create", "--topic", "t"],
    ("topics", "partitions"): ["--create", "--topic", "t"],
    ("topics", "replication_factor"): ["--create", "--topic", "t"],
    ("consume", "include"): ["--timeout-ms", "1"],
    ("consume", "offset"): ["--topic", "t", "--partition", "0", "--timeout-ms", "1"],
    ("consume", "timeout_ms"): ["--topic", "t", "--max-messages", "1", "--from-beginning"],
} | {
    ("groups", name): ["--reset-offsets", "--group", "g", "--topic", "t"]
    for name in ("to_offset", "shift_by", "to_datetime", "by_duration", "from_file")
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the words and the command of every visible call, without LEFT_OUT."""
    context = click.Context(oncelog)
    for name in COMMANDS:
        command = oncelog.get_command(context, name)
        assert command is not None
        if name in LEFT_OUT:
            continue
        if isinstance(command, click.Group):
            for verb, found in sorted(command.commands.items()):
                if not found.hidden:
                    yield f"{name} {verb}", found
        else:
            yield name, command


def is_flag(parameter: click.Parameter) -> bool:
    """Return True for an option without a value, such as --json."""
    return isinstance(parameter, click.Option) and parameter.is_flag


def cases() -> Iterator[tuple[str, str]]:
    for words, command in commands():
        for parameter in command.params:
            if parameter.name is not None and not is_flag(parameter):
                yield words, parameter.name


def dealt() -> list[tuple[str, str, list[str]]]:
    """Return each option with its values. With ONCELOG_HOSTILE=all (make nightly), each option gets
    all values. Otherwise it gets A_HAND values from a shuffled list. The list is the same in every
    run, and each value is used for at least one option."""
    options = list(cases())
    if os.environ.get("ONCELOG_HOSTILE") == "all":
        return [(words, name, HOSTILE) for words, name in options]
    randomness = Random(SEED)
    deck: list[str] = []
    hands = []
    for words, name in options:
        hand: list[str] = []
        while len(hand) < A_HAND:
            deck = deck or randomness.sample(HOSTILE, len(HOSTILE))
            hand.append(deck.pop())
        hands.append((words, name, hand))
    return hands


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Oncelog(tmp_path_factory.mktemp("hostile")) as broker:
        server = ["--bootstrap-server", broker.address]
        for arguments in (["topics", "--create", "--topic", "t"], ["produce", "--topic", "t"]):
            assert CliRunner().invoke(oncelog, [*arguments, *server], input="a\n").exit_code == 0
        yield broker.address


def accepted(result: Result, arguments: list[str]) -> None:
    """Check that the result of a command is a known exit code without a traceback. The message of
    a failure has the call, cut to a readable length."""
    called = [argument[:60] for argument in arguments]
    assert result.exit_code in EXIT_CODES, (called, result.output[:2_000])
    # The program would print a traceback for an exception that click's runner returns.
    assert result.exception is None or isinstance(result.exception, SystemExit), called
    assert "Traceback" not in result.output, called
    assert "unexpected failure" not in result.output, (called, result.output[:2_000])
    for line in result.stderr.splitlines():
        assert line.isprintable(), (called, line[:200])


def test_every_option_and_every_value_is_tried() -> None:
    hands = dealt()
    assert [(words, name) for words, name, _ in hands] == list(cases())
    assert all(len(hand) >= A_HAND for *_, hand in hands)
    assert {value for *_, hand in hands for value in hand} == set(HOSTILE)


@pytest.mark.parametrize(("words", "name", "values"), dealt())
def test_no_value_of_an_option_causes_a_traceback(
    address: str, tmp_path: Path, words: str, name: str, values: list[str]
) -> None:
    command = dict(commands())[words]
    parameter = next(param for param in command.params if param.name == name and not is_flag(param))
    option = parameter.opts[0] if isinstance(parameter, click.Option) else None
    environment = {"ONCELOG_BOOTSTRAP_SERVER": address, "HOME": str(tmp_path)}
    others = FOR_OPTION.get((words, name)) or ENOUGH.get(words, [])
    given = [part for part in others if option is None or part.split("=")[0] != option]
    if option in others:
        given = others[: others.index(option)] + others[others.index(option) + 2 :]
    for value in values:
        arguments = [*words.split(), *given, "--give-up-after", "0.5"]
        if name == "give_up_after":
            arguments = arguments[:-2]
        arguments += [option, value] if option else ["--", value]
        accepted(CliRunner().invoke(oncelog, arguments, input="a\n", env=environment), arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "--include", "("),
        ("consume", "--include", "ord["),
        ("topics", "--describe", "--topic", "ord["),
        ("topics", "--create", "--topic", "new", "--partitions", "9" * 11),
        ("topic", "create", "new", "-p", "9" * 11),
        ("consume", "--topic", "t", "--partition", "0", "--offset", "9" * 23),
        ("groups", "--reset-offsets", "--group", "g", "--topic", "t", "--to-offset", "9" * 23),
    ],
    ids=" ".join,
)
def test_an_invalid_pattern_and_a_number_beyond_its_field_are_wrong_usage(
    address: str, arguments: tuple[str, ...]
) -> None:
    """These cases run every time, because the test above tries few values of each option."""
    result = CliRunner().invoke(oncelog, arguments, env={"ONCELOG_BOOTSTRAP_SERVER": address})
    accepted(result, list(arguments))
    assert result.exit_code == 2, result.output


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"\xef\xbb\xbfclient.id=x\n",
        b"bootstrap.servers=%s\n",
        b"no equals sign\n",
        b"request.timeout.ms=1e9\n",
        b"request.timeout.ms=99999999999999999999\n",
        b"security.protocol=SASL_SSL\n",
        b"sasl.jaas.config=hunter2\n",
        b"client.id=123\n",
        b"retry.backoff.ms=-1\n",
        b"\x00\n",
        b"=\n",
    ],
    ids=repr,
)
def test_no_file_of_settings_causes_a_traceback(
    address: str, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(content.replace(b"%s", address.encode()))
    arguments = ["topics", "--list", "--command-config", str(path)]
    environment = {"ONCELOG_BOOTSTRAP_SERVER": "127.0.0.1:1" if b"%s" in content else address}
    result = CliRunner().invoke(oncelog, arguments, env=environment)
    accepted(result, arguments)
    assert "hunter2" not in result.output
    good = (b"\xef\xbb\xbf", b"bootstrap", b"client.id")
    assert (result.exit_code == 0) == content.startswith(good), result.output


def test_a_pattern_with_exponential_backtracking_ends_soon(address: str) -> None:
    """The command ends soon, whatever the pattern."""
    name = "a" * 200 + "-"
    server = {"ONCELOG_BOOTSTRAP_SERVER": address}
    made = CliRunner().invoke(oncelog, ["topics", "--create", "--topic", name], env=server)
    assert made.exit_code == 0, made.output
    began = os.times()
    for arguments in (
        ["topics", "--describe", "--topic", "(a+)+$"],
        ["consume", "--include", "(a+)+$", "--timeout-ms", "1"],
    ):
        accepted(CliRunner().invoke(oncelog, arguments, env=server), arguments)
    assert os.times().user - began.user < 5
