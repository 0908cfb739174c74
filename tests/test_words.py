"""docs/style.md, as far as a machine can check it: banned words, one spelling, names, and how the
product's docstrings begin."""

from __future__ import annotations

import ast
import gc
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.harness.repository import ROOT, parsed, tracked

THIS = Path(__file__).resolve()
PRODUCT = ("client", "protocol", "server")

# Words for persons, because the subject of a sentence is a thing of the code.
PERSONS = (
    "who", "whoever", "whom", "nobody", "somebody", "anybody", "everybody", "someone", "anyone",
    "everyone", "he", "him", "his", "she", "her", "told", "untold",
)  # fmt: skip
# Each old name, and its replacement in docs/style.md. A key matches a word or a part of an
# identifier.
RENAMED = {
    "asker": "CallerRole",
    "newcomer": "NEW_INSTANCE",
    "stranger": "FENCED",
    "poke": "wake",
    "doomed": "to_abort",
    "trouble": "StorageFailure",
    "troubled": "on_storage_error",
    "hurries": "flushes_in_progress",
    "redeem": "complete",
    "authorise": "authorize",
    "authorised": "authorized",
    "authorises": "authorizes",
    "authorising": "authorizing",
    "authorisation": "authorization",
    "unauthorised": "unauthorized",
}
# No docstring of the product begins with these words. It names the thing or begins with "Return".
QUESTION_WORDS = ("What", "Whatever", "Where", "Whether", "Which", "Whose")
# Words from elsewhere: a function of Rich or of the standard library, or a quotation of Kafka.
QUOTED = re.compile(r"\bwhoami\b")


@pytest.fixture(autouse=True, scope="module")
def _without_collections() -> Iterator[None]:
    """Syntax trees and words stay during the module: garbage collections would find nothing."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def words(text: str) -> set[str]:
    """Return the words of a text, in lower case. `fetch_who` and `FetchWho` contain `who`."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", QUOTED.sub("", text))
    return {word.lower() for word in re.findall(r"[A-Za-z]+", split)}


@cache
def offending(text: str) -> list[str]:
    found = words(text)
    offences = [f"{word!r}" for word in PERSONS if word in found]
    return offences + [f"{old!r}: {new}" for old, new in RENAMED.items() if old in found]


def tokens(path: Path) -> list[tokenize.TokenInfo]:
    source = io.StringIO(path.read_text(encoding="utf-8"))
    kinds = (tokenize.COMMENT, tokenize.STRING, tokenize.NAME)
    return [token for token in tokenize.generate_tokens(source.readline) if token.type in kinds]


def in_python(path: Path) -> Iterator[str]:
    for token in tokens(path):
        for offence in offending(token.string):
            yield f"{path.relative_to(ROOT)}:{token.start[0]}: {offence}"


def in_text(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for offence in offending(line):
            yield f"{path.relative_to(ROOT)}:{number}: {offence}"


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and name of every variable and argument that a file binds."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def nouns(path: Path) -> Iterator[str]:
    for line, name in bound_names(path):
        if name == "one":
            yield f"{path.relative_to(ROOT)}:{line}: `one` is no noun"


def docstrings_that_ask(path: Path) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(parsed(path)):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and re.split(r"\W", text, maxsplit=1)[0] in QUESTION_WORDS:
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: begins with a question"


def read(*patterns: str) -> list[Path]:
    """Return the files of the project, except this one, which names the banned words."""
    return [path for path in tracked(*patterns) if path != THIS]


def refuse(offences: Iterator[str]) -> None:
    found = list(offences)
    assert not found, "words that docs/style.md bans:\n  " + "\n  ".join(found)


def test_no_code_speaks_of_persons_or_by_old_names() -> None:
    refuse(offence for path in read("*.py") for offence in in_python(path))


def test_no_page_speaks_of_persons_or_by_old_names() -> None:
    pages = [path for path in read("*.md") if path.name != "style.md"]
    refuse(offence for path in pages for offence in in_text(path))


def test_no_docstring_of_the_product_begins_with_a_question_word() -> None:
    product = [path for path in read("*.py") if path.relative_to(ROOT).parts[0] in PRODUCT]
    refuse(offence for path in product for offence in docstrings_that_ask(path))


def test_variables_are_nouns() -> None:
    refuse(offence for path in read("*.py") for offence in nouns(path))


@pytest.mark.parametrize(
    ("text", "offence"),
    [
        ("nobody reads it", "'nobody'"),
        ("fetch_who", "'who'"),
        ("FetchWho", "'who'"),
        ("whose offsets", ""),
        ("one record a line", ""),
        ("authorised", "'authorised': authorized"),
    ],
)
def test_a_banned_word_is_found_alone_and_in_names(text: str, offence: str) -> None:
    assert offending(text) == ([offence] if offence else [])
