"""The documents and the Makefile are up to date: the files, commands and targets in them exist."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from oncelog_client.cli import oncelog
from tests.harness.broker import Oncelog
from tests.harness.repository import tracked

TESTS = Path(__file__).parent
ROOT = TESTS.parent
README = ROOT / "README.md"
DOCUMENTS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "client" / "README.md", *DOCUMENTS]
README_LINES = 120
_REFERENCE = re.compile(r"`([a-z0-9_/]+\.py)(?:::(test_\w+))?`")
_SOURCE = re.compile(r"`(?:…/)?([\w/]+\.py)`")
# `name` in `file.py`, and `file.py` (`name`), with one name or several.
_NAMES = r"`[\w.]+`(?:(?:, | and )`[\w.]+`)*"
_IN_FILE = re.compile(rf"({_NAMES}) (?:in|of) `([\w/]+\.py)`")
_WITH_NAMES = re.compile(rf"`([\w/]+\.py)` \(({_NAMES})\)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_that_is_named_exists(document: Path) -> None:
    missing = []
    for file, name in _REFERENCE.findall(document.read_text()):
        if name and not _has(TESTS / file, name):
            missing.append(f"{file}::{name}")
    assert not missing


@pytest.mark.parametrize("name", ["architecture.md", "internals.md", "rules.md"])
def test_every_source_file_that_a_page_names_exists(name: str) -> None:
    """A page names a file by the end of its path, such as `log/segment.py`."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    sources = [f"/{path.relative_to(ROOT)}" for path in tracked("*.py")]
    named = set(_SOURCE.findall(page))
    assert len(named) > 50
    assert not {file for file in named if not any(path.endswith(f"/{file}") for path in sources)}


@pytest.mark.parametrize("name", ["architecture.md", "internals.md", "rules.md"])
def test_every_name_that_a_page_places_in_a_file_is_there(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    placed = [(found[2], found[1]) for found in _IN_FILE.finditer(page)]
    placed += [(found[1], found[2]) for found in _WITH_NAMES.finditer(page)]
    assert placed
    sources = {f"/{path.relative_to(ROOT)}": path for path in tracked("*.py")}
    missing = []
    for file, names in placed:
        texts = [
            source.read_text(encoding="utf-8")
            for path, source in sources.items()
            if path.endswith(f"/{file}")
        ]
        for word in re.findall(r"`(?:\w+\.)*(?!py`)(\w+)`", names):
            if not any(re.search(rf"\b{word}\b", text) for text in texts):
                missing.append(f"{word} in {file}")
    assert not missing


def test_the_map_names_every_package_and_every_module_beside_the_packages() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    server = ROOT / "server" / "oncelog_server"
    packages = {path.parent.name for path in server.glob("*/__init__.py")}
    modules = {path.name for path in server.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert len(packages) > 30
    assert not {name for name in packages if not re.search(rf"\b{name}/|/{name}`", page)}
    assert not {name for name in modules if not re.search(rf"\b{re.escape(name)}`", page)}


def test_the_promises_name_their_tests() -> None:
    """Each row of a table in docs/semantics.md names the tests that show it."""
    rows = [
        line
        for line in (ROOT / "docs" / "semantics.md").read_text().splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    headings = [row for row in rows if "shown by" in row]
    assert len(headings) > 3
    for row in rows:
        if row not in headings:
            files = [TESTS / file for file, _ in _REFERENCE.findall(row)]
            assert files, row
            assert all(file.is_file() for file in files), row


def _has(path: Path, name: str) -> bool:
    return path.is_file() and re.search(rf"def {name}\b", path.read_text()) is not None


def test_every_target_that_is_no_file_has_a_rule() -> None:
    """Without a rule, make says that there is nothing to do, and CI continues."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert set(phony.split()) == set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= README_LINES


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, and the explicit ones."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    named = re.findall(r'<a id="([^"]+)">', text)
    return {*named, *(heading.replace(" ", "-") for heading in plain)}


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            dead.append(link)
    assert not dead


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the commands of a page's indented blocks and shell fences, as words, without comments.
    In a block with a prompt (`$ `), only the lines with the prompt are commands: the others are
    output."""
    text = page.read_text(encoding="utf-8")
    blocks = [body for kind, body in _FENCED.findall(text) if kind in {"sh", "shell", "bash"}]
    blocks += re.findall(r"(?<=\n\n)((?:    \S.*(?:\n|$))+)", _FENCED.sub("", text))
    lines = [
        line.strip()
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if "$ " not in block or line.strip().startswith("$ ")
    ]
    for line in lines:
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                yield from [words] if words else []
                words = []
            else:
                words.append(word)


def targets() -> set[str]:
    return set(
        re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    )


def refusal(words: list[str]) -> str | None:
    """Return the error of a command line of `oncelog`, or None if its commands and options
    exist."""
    command: click.Command = oncelog
    context = click.Context(command)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        if found is None:
            return f"no command {words[0]}" if not words[0].startswith("-") else None
        command, words = found, words[1:]
        context = click.Context(command, context)
    try:
        command.make_parser(context).parse_args(words)
    except click.BadOptionUsage as wrong:
        return None if "requires an argument" in wrong.format_message() else str(wrong)
    except click.UsageError as wrong:
        return wrong.format_message()
    return None


@each_page
def test_every_command_can_be_called(page: Path) -> None:
    wrong: list[str] = []
    for words in commands(page):
        said = " ".join(words)
        program = Path(words[0]).name
        if program == "uvx":
            words = words[words.index("oncelog") :]
            program = "oncelog"
        if program == "oncelog":
            reason = refusal(words[1:])
            wrong += [f"{said}: {reason}"] if reason else []
        elif program == "make":
            wrong += [said for word in words[1:] if "=" not in word and word not in targets()]
        elif program.startswith("python") and words[1:2] == ["-m"]:
            try:
                known = importlib.util.find_spec(words[2]) is not None
            except ModuleNotFoundError:
                known = False
            wrong += [] if known else [said]
        elif program == "docker" and "--file" in words:
            wrong += [] if (ROOT / words[words.index("--file") + 1]).is_file() else [said]
    assert not wrong


@each_page
def test_targets_and_commands_within_sentences_exist(page: Path) -> None:
    """Sentences contain targets and commands as `make target` and `oncelog command`."""
    wrong = []
    for words in re.findall(r"`(make|oncelog) ([^`]+)`", page.read_text(encoding="utf-8")):
        if words[0] == "make":
            named = [word for word in words[1].split() if "=" not in word and '"' not in word]
            wrong += [words[1] for word in named[:1] if word not in targets()]
        elif reason := refusal(re.split(r"\s+", words[1])):
            wrong.append(f"oncelog {words[1]}: {reason}")
    assert not wrong


def programs(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [body for kind, body in _FENCED.findall(text) if kind == "python"]


@each_page
def test_every_program_is_python(page: Path) -> None:
    for program in programs(page):
        assert ast.parse(program).body


def test_the_programs_of_the_readme_write_what_they_say(tmp_path: Path) -> None:
    """The test runs the programs that need only a broker. tests/spark runs the Spark program."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with Oncelog(tmp_path, settings) as broker:
        tried = [each for each in programs(README) if "spark" not in each]
        assert len(tried) > 1
        for program in tried:
            text = program.replace("localhost:9092", broker.address)
            subprocess.run([sys.executable, "-W", "error", "-c", text], check=True, timeout=60)
        for topic, first in (("invoices", "1177"), ("shipments", "cds")):
            lines = _read_committed(broker.address, topic, len(tried))
            assert len(lines) == len(tried)
            assert first in lines[0]


def _read_committed(address: str, topic: str, count: int) -> list[str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "oncelog_client.cli", "consume", "--topic", topic),
            *("--from-beginning", "--isolation-level", "read_committed"),
            *("--max-messages", str(count), "--bootstrap-server", address),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.splitlines()
