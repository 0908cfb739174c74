"""The parts of the site that Sphinx takes from the code: commands, error codes, docstrings."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, MutableSequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from oncelog_client import admin
from oncelog_client.cli import oncelog
from oncelog_client.errors import ERROR_CLASSES
from oncelog_protocol.errors import RETRIABLE, ErrorCode

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ROOT: Final = Path(__file__).parents[1]
ERRORS: Final = _ROOT / "docs" / "reference" / "errors.tsv"
# The columns of a help text.
_WIDTH: Final = 100
_FIELD: Final = re.compile(r"Alias for field number \d+")
# The pages of the site that include files of the folder above.
_PAGES: Final = {"SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
_SETTING: Final = re.compile(r"^(\w+) (\([^)]+\)):(?= )")


class Sent(NamedTuple):
    """An error code that the broker sends: when, and what to do."""

    code: ErrorCode
    when: str
    remedy: str


def sent() -> list[Sent]:
    """Return the rows of errors.tsv."""
    with ERRORS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Sent(ErrorCode[row["name"]], row["when"], row["remedy"]) for row in rows]


def errors() -> Iterator[str]:
    """Yield the paragraphs about error codes, as Markdown."""
    rows = sent()
    for row in rows:
        raised = ERROR_CLASSES[row.code].__name__
        yield f"## {row.code.name}"
        yield (
            f"Code {row.code.value}, {'retriable' if row.code in RETRIABLE else 'not retriable'}."
            f" Our client raises {{py:exc}}`~oncelog.{raised}`."
        )
        yield f"**When:** {row.when}"
        yield f"**What to do:** {row.remedy}"
    others = sorted({*ErrorCode} - {ErrorCode.NONE, *(row.code for row in rows)}, key=by_name)
    yield "## Codes that the broker never sends"
    yield ", ".join(f"`{code.name}` ({code.value})" for code in others)


def by_name(code: ErrorCode) -> str:
    return code.name


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command, then those of its subcommands."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None and not command.hidden:
                yield from contexts(
                    click.Context(command, context, name, **command.context_settings)
                )


def commands() -> Iterator[str]:
    """Yield the paragraphs about commands, as Markdown: the text of `--help` of each command."""
    settings = oncelog.context_settings
    root = click.Context(oncelog, None, "oncelog", terminal_width=_WIDTH, **settings)
    for context in contexts(root):
        level = min(len(context.command_path.split()), 2)
        yield f"{'#' * (level + 1)} {context.command_path}"
        yield f"```text\n{context.get_help().strip()}\n```"


# A page, and the function that makes the paragraphs at its end.
GENERATED: Final = {"reference/cli": commands, "reference/errors": errors}


def read(app: Sphinx, name: str, source: MutableSequence[str]) -> None:
    """Append the generated paragraphs to a page, and change the links that leave the folder of the
    pages. Files can be downloaded, and some Markdown files have a page. The other targets become
    text, because they exist only on a code host (`source-read`)."""
    up = "../" * name.count("/")

    def inside(link: re.Match[str]) -> str:
        target = link["target"]
        if target in _PAGES:
            return f"[{link['text']}]({up}{_PAGES[target]})"
        is_download = (_ROOT / target).is_file() and not target.endswith(".md")
        return link[0] if is_download else link["text"]

    leaving = rf"\[(?P<text>[^]]+)\]\({re.escape(up)}\.\./(?P<target>[^.)][^)]*)\)"
    source[0] = re.sub(leaving, inside, source[0])
    if name in GENERATED:
        source[0] += "\n" + "\n\n".join(GENERATED[name]()) + "\n"


def adapt(app: Sphinx, kind: str, name: str, of: object, options: object, lines: list[str]) -> None:
    """Change a docstring to reStructuredText: indented lines after a colon are code, and each
    setting is an item of a list. Remove the texts that Python gives to fields of named tuples
    (`autodoc-process-docstring`)."""
    if lines and _FIELD.fullmatch(lines[0]):
        lines.clear()
    for index, line in enumerate(lines):
        below = lines[index + 1 : index + 3]
        if line.endswith(":") and len(below) == 2 and not below[0] and below[1].startswith("    "):
            lines[index] = f"{line}:"
        lines[index] = _SETTING.sub(r"-   **\1** \2:", lines[index])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions of this module, and load the lazy names that autodoc would not see."""
    for name in admin.__all__:
        getattr(admin, name)
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", adapt)
    return {"parallel_read_safe": True}
