"""The code blocks of the pages of the documentation, and the programs in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.harness.repository import ROOT

DOCS: Final = ROOT / "docs"
# The pages with blocks that the tests of this folder run. The folders of other tests have the
# blocks of the other pages.
PAGES: Final = (DOCS / "start.md", *sorted((DOCS / "howto").glob("*.md")))
SERVERS: Final = "localhost:9092"
TIMEOUT_S: Final = 120.0
# kafka-python loads its schemas with the two deprecated functions.
WARNINGS: Final = (
    "error",
    "ignore:read_text is deprecated:DeprecationWarning",
    "ignore:open_text is deprecated:DeprecationWarning",
)

_FENCED: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A heading, without its level.
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A code block: its page, the heading above it, its language and its text. `printed` is the
    text of the next block if that has the language `text`: the expected output."""

    page: str
    heading: str
    language: str
    text: str
    printed: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page, except those with the language `text`."""
    content = page.read_text(encoding="utf-8")
    found = list(_FENCED.finditer(content))
    name = page.relative_to(DOCS).with_suffix("").as_posix()
    for index, block in enumerate(found):
        language, text = block.groups()
        if language != "text":
            heading = _HEADING.findall(_FENCED.sub("", content[: block.start()]))[-1]
            after = found[index + 1 : index + 2]
            printed = after[0][2] if after and after[0][1] == "text" else ""
            yield Block(name, heading, language, text, printed)


def blocks_of(name: str, language: str) -> list[Block]:
    """Return the blocks of a page in a language. `name`: its path below docs, without `.md`."""
    return [block for block in blocks(DOCS / f"{name}.md") if block.language == language]


def run_python(block: Block, servers: str, folder: Path) -> str:
    """Run a program against a broker, with warnings as errors, and return its output."""
    text = block.text.replace(SERVERS, servers)
    options = [option for warning in WARNINGS for option in ("-W", warning)]
    return _output([sys.executable, *options, "-c", text], servers, folder)


def run_shell(text: str, servers: str, folder: Path) -> str:
    """Run commands in bash with this project's `oncelog`, and return their output. A command that
    fails ends the script."""
    return _output(["bash", "-euo", "pipefail", "-c", text], servers, folder)


def _output(command: list[str], servers: str, folder: Path) -> str:
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ONCELOG_BOOTSTRAP_SERVER": servers,
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
