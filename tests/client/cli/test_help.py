"""Every `--help` fits on a screen. Its examples are valid calls, and it lists the verb's own
options before the common ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from oncelog_client.cli import COMMANDS, KNOWN_EXTENSIONS, oncelog
from tests.client.cli.test_hostile_options import commands
from tests.test_words import offending

SCREEN = 50
# Words that help texts avoid.
BANNED = ("whose", "will do", "Of what", "so many", "so long")


# A verb, the former name of an option, and its present name.
FORMER = [
    ("transactions abort", "--even-known", "--force"),
    ("transactions blocking", "--even-two-phase", "--include-two-phase"),
    ("transactions force-terminate", "--even-two-phase", "--include-two-phase"),
    ("txn blocking", "--even-two-phase", "--include-two-phase"),
    ("txn abort", "--even-two-phase", "--include-two-phase"),
    ("topic describe", "--partitions", "--only-partitions"),
    ("topic offsets", "--partitions", "--only-partitions"),
    ("topic trim", "--partitions", "--only-partitions"),
]


# The end of a command that needs something else before a broker.
FIRST_NEED = {"cluster strays": "is no data directory of a broker"}


def help_of(words: str) -> str:
    result = CliRunner().invoke(oncelog, [*words.split(), "--help"], terminal_width=80)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "words", [*COMMANDS, *KNOWN_EXTENSIONS, *(words for words, _ in commands())]
)
def test_help_is_one_screen_of_plain_words(words: str) -> None:
    text = help_of(words)
    assert len(text.splitlines()) <= SCREEN
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"[a-z]\.\.\.$", text, re.M), "a sentence is cut"
    assert offending(text) == []
    for word in BANNED:
        assert word not in text


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_examples_are_calls_of_the_command(words: str) -> None:
    examples = re.findall(r"^ +oncelog (.*)$", help_of(words), re.M)
    assert examples, "no example"
    for example in examples:
        arguments = shlex.split(re.split(" [<|>] ", example)[0])
        command: click.Command = oncelog
        context = click.Context(oncelog, info_name="oncelog")
        while isinstance(command, click.Group) and arguments:
            found = command.get_command(context, arguments.pop(0))
            assert found is not None, example
            command = found
        command.make_context(command.name, arguments, parent=context)


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_examples_pass_the_checks_of_their_command(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each example runs until it needs a broker, and there is none. A call that its command refuses
    would end with another exit code and text. A former defect: a group has no operation write."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alice.password").write_text("secret")
    monkeypatch.setenv("ONCELOG_BOOTSTRAP_SERVER", "127.0.0.1:1")
    for example in re.findall(r"^ +oncelog (.*)$", help_of(words), re.M):
        if "--bootstrap-server" in help_of(words):
            arguments = shlex.split(re.split(" [<|>] ", example)[0])
            result = CliRunner().invoke(oncelog, arguments, input="line\n")
            assert result.exit_code == 1, (example, result.output)
            reached = FIRST_NEED.get(words, "connection refused")
            assert reached in result.output.lower(), (example, result.output)


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_the_options_of_a_verb_come_before_the_common_ones(words: str) -> None:
    text = help_of(words)
    if "Options:" in text and "--bootstrap-server" in text:
        parts = ("Examples:", "Options:", "Connection and output:", "--bootstrap-server")
        places = [text.index(part) for part in parts]
        assert places == sorted(places)


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (("topics", "list"), "oncelog topics --list"),
        (("topics", "describe", "orders"), "oncelog topics --describe --topic orders"),
        (("groups", "lst"), "oncelog groups --list"),
        (("topcs",), "'topics'"),
        (("config", "describe", "orders"), "`oncelog config --describe --topic orders`"),
        (("config", "orders", "describe"), "`oncelog config --describe --topic orders`"),
        (("config", "topic", "orders", "describe"), "`oncelog config --describe --topic orders`"),
        (("config", "orders", "--describe"), "`oncelog config --describe --topic orders`"),
        (("config", "--describe", "orders"), "`oncelog config --describe --topic orders`"),
        (
            ("config", "alter", "orders", "--add-config", "retention.ms=5"),
            "`oncelog config --alter --topic orders --add-config retention.ms=5`",
        ),
        (
            ("config", "orders", "set", "retention.ms=5"),
            "`oncelog config --alter --topic orders --add-config retention.ms=5`",
        ),
        (("config", "orders"), "`oncelog config --topic orders`"),
        (("config", "--topic", "orders", "describe"), "`oncelog config --describe --topic orders`"),
        (("groups", "describe", "billing"), "`oncelog groups --describe --group billing`"),
        (("topics", "orders", "describe"), "`oncelog topics --describe --topic orders`"),
        (("transactions", "lits"), "'list'"),
        (("consume",), "no topic is named"),
    ],
)
def test_the_error_for_a_mistyped_call_shows_the_right_call(
    arguments: tuple[str, ...], suggestion: str
) -> None:
    result = CliRunner().invoke(oncelog, arguments, prog_name="oncelog")
    assert result.exit_code == 2
    assert suggestion in result.output


@pytest.mark.parametrize(
    ("guess", "instead"),
    [
        ("topic config orders", "oncelog config --describe --topic"),
        ("topic alter orders", "oncelog config --alter --topic"),
        ("group reset billing", "oncelog group seek"),
        ("group lag billing", "oncelog group describe"),
    ],
)
def test_the_error_for_a_guessed_verb_names_the_right_command(guess: str, instead: str) -> None:
    result = CliRunner().invoke(oncelog, guess.split())
    assert result.exit_code == 2
    assert instead in result.output


def test_the_help_of_topic_create_has_an_example_with_compaction() -> None:
    assert re.search(r"topic create \S+ .*cleanup\.policy=compact", help_of("topic create"))


@pytest.mark.parametrize(("words", "former", "name"), FORMER)
def test_a_former_name_is_accepted_and_not_shown(words: str, former: str, name: str) -> None:
    command = dict(commands())[words]
    assert name in help_of(words)
    assert former not in help_of(words)
    context = command.make_context(command.name, [], resilient_parsing=True)
    completed = [item.value for item in command.shell_complete(context, name[:4])]
    assert name in completed
    completed = [item.value for item in command.shell_complete(context, former[:4])]
    assert former not in completed
    (parameter,) = (option for option in command.params if name in option.opts)
    assert parameter.name is not None
    value = [] if isinstance(parameter, click.Option) and parameter.is_flag else ["0"]
    for spelling in (name, former):
        context = command.make_context(command.name, [spelling, *value], resilient_parsing=True)
        assert context.params[parameter.name] == (value[0] if value else True)
