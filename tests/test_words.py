"""docs/style.md, as far as a machine can check it: banned words and phrases, one spelling, names,
and how the product's docstrings begin."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.harness.repository import ROOT, nodes, tracked

pytestmark = pytest.mark.usefixtures("without_collections")

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
# Banned phrases, as regular expressions that match whole words, with their replacement.
PHRASES = {
    r"of which": "a second sentence",
    r"whose": "with, or a second sentence",
    r"(go|goes|went|going) on": "continues, or what happens",
    r"(wins?|won) (over|against)": "overrides",
    r"all the same": "nevertheless",
    r"for ever": "forever",
    r"is none of": "is not one of",
}
# Phrases that no sentence of the product contains, either.
PRODUCT_PHRASES = {r"answer(s|ed|ing)?": "response, respond"}
# Text that is no sentence and may contain these phrases: code in backticks, the values of an
# f-string, the names of fail points, and the first words of a page of docs.
NO_PROSE = re.compile(r"`[^`]*`|\{[^}]*\}|\banswer-[a-z]|\bThis page answers:")
# What may be between two words of a sentence in a file of Python.
APART = r"(?:[\s#]|`[^`]*`|\{[^}]*\})+"
# No docstring of the product begins with these words. It names the thing or begins with "Return".
QUESTION_WORDS = ("How", "What", "Whatever", "When", "Where", "Whether", "Which", "Whose")
# A Generator is an iteration too, but is not in this set: it may have a result, and its docstring
# then says Return.
ITERATIONS = {"AsyncIterator", "Iterable", "Iterator"}
# Names from elsewhere that contain a banned word.
QUOTED = re.compile(r"\bwhoami\b|\ballow[._]everyone[._]if[._]no[._]acl[._]found\b")


def words(text: str) -> set[str]:
    """Return the words of a text, in lower case. `fetch_who` and `FetchWho` contain `who`."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", QUOTED.sub("", text))
    return {word.lower() for word in re.findall(r"[A-Za-z]+", split)}


def offending(text: str) -> list[str]:
    found = words(text)
    offences = [f"{word!r}" for word in PERSONS if word in found]
    return offences + [f"{old!r}: {new}" for old, new in RENAMED.items() if old in found]


def tokens(text: str) -> list[tokenize.TokenInfo]:
    kinds = (tokenize.COMMENT, tokenize.STRING, tokenize.NAME)
    source = io.StringIO(text)
    return [token for token in tokenize.generate_tokens(source.readline) if token.type in kinds]


def in_python(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    # If the text of a file has no banned word, its tokens have none either. To read the tokens of
    # a file takes longer, and few files need it.
    for token in tokens(text) if offending(text) else ():
        for offence in offending(token.string):
            yield f"{path.relative_to(ROOT)}:{token.start[0]}: {offence}"


def in_text(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for offence in offending(line):
            yield f"{path.relative_to(ROOT)}:{number}: {offence}"


def phrases(text: str, banned: dict[str, str]) -> list[str]:
    """Return the banned phrases in a text, with their replacement."""
    sentence = NO_PROSE.sub(" ", " ".join(text.split()))
    return [
        f"{found.group()!r}: {plain}"
        for phrase, plain in banned.items()
        for found in re.finditer(rf"\b({phrase})\b", sentence, re.IGNORECASE)
    ]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string with a space, and of comments, adjacent lines joined."""
    first, last, comment = 0, 0, ""
    for token in tokens(text):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield first, comment
                comment = ""
            first, last = first if comment else token.start[0], token.start[0]
            comment = f"{comment} {token.string.lstrip('#')}"
        elif token.type == tokenize.STRING and " " in token.string:
            yield token.start[0], token.string
    if comment:
        yield first, comment


def may_contain(text: str, banned: dict[str, str]) -> bool:
    """Return False only if it is certain, without a look at the tokens, that no sentence contains a
    banned phrase. Between two words of a sentence there may also be the `#` of a comment, and text
    that is no prose."""
    return any(
        re.search(rf"\b({phrase.replace(' ', APART)})\b", text, re.IGNORECASE) for phrase in banned
    )


def phrases_in_python(text: str, banned: dict[str, str]) -> Iterator[str]:
    """Yield the banned phrases, each with its line. Few files need their tokens, which take
    longer than all else."""
    for line, sentence in prose(text) if may_contain(text, banned) else ():
        for offence in phrases(sentence, banned):
            yield f"{line}: {offence}"


def in_sentences(paths: Iterable[Path], banned: dict[str, str]) -> Iterator[str]:
    for path in paths:
        for offence in phrases_in_python(path.read_text(encoding="utf-8"), banned):
            yield f"{path.relative_to(ROOT)}:{offence}"


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and name of every variable and argument that a file binds."""
    for node in nodes(path):
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
    for node in nodes(path):
        text = ast.get_docstring(node, clean=False) if isinstance(node, kinds) else None
        if text and re.split(r"\W", text.lstrip(), maxsplit=1)[0] in QUESTION_WORDS:
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: begins with a question"


def own_yields(function: ast.AST) -> bool:
    """Return True if the function itself is a generator. Functions inside it do not count."""
    rest = [*ast.iter_child_nodes(function)]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            rest += ast.iter_child_nodes(node)
    return False


def docstrings_against_the_result(found: Iterable[ast.AST]) -> Iterator[str]:
    """Yield each function with the wrong verb: "Return" in the docstring of an iteration, or
    "Yield" in that of another result. "Return" is right for a fixture, for a context manager, and
    for a generator with a result, such as Steps."""
    for node in found:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        verb = (ast.get_docstring(node, clean=False) or "").lstrip().partition(" ")[0]
        if verb not in ("Return", "Yield"):
            continue
        result = ast.unparse(node.returns).partition("[")[0] if node.returns else ""
        if verb == "Return" and result in ITERATIONS and not node.decorator_list:
            if own_yields(node):
                yield f"{node.lineno}: {node.name} yields"
        elif verb == "Yield" and result not in ITERATIONS | {"Generator"} and not own_yields(node):
            yield f"{node.lineno}: {node.name} does not yield"


def read(*patterns: str) -> list[Path]:
    """Return the files of the project, except this one, which names the banned words."""
    return [path for path in tracked(*patterns) if path != THIS]


def product() -> list[Path]:
    return [path for path in read("*.py") if path.relative_to(ROOT).parts[0] in PRODUCT]


def refuse(offences: Iterator[str]) -> None:
    found = list(offences)
    assert not found, "words that docs/style.md bans:\n  " + "\n  ".join(found)


def test_no_code_speaks_of_persons_or_by_old_names() -> None:
    refuse(offence for path in read("*.py") for offence in in_python(path))


def test_no_page_speaks_of_persons_or_by_old_names() -> None:
    pages = [path for path in read("*.md") if path.name != "style.md"]
    refuse(offence for path in pages for offence in in_text(path))


def test_no_docstring_of_the_product_begins_with_a_question_word() -> None:
    refuse(offence for path in product() for offence in docstrings_that_ask(path))


def test_a_docstring_says_yield_for_an_iteration_alone() -> None:
    refuse(
        f"{path.relative_to(ROOT)}:{offence}"
        for path in read("*.py")
        for offence in docstrings_against_the_result(nodes(path))
    )


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('def f() -> Iterator[int]:\n    """Return numbers."""\n    yield 1', ["1: f yields"]),
        ('def f() -> Iterator[int]:\n    """Yield numbers."""\n    yield 1', []),
        ('def f() -> Iterator[int]:\n    """Return numbers."""\n    return iter([1])', []),
        (
            'def f() -> list[int]:\n    """Yield numbers."""\n    return [1]',
            ["1: f does not yield"],
        ),
        ('def f() -> Steps[int]:\n    """Return a number."""\n    yield\n    return 1', []),
        ('@fixture\ndef f() -> Iterator[int]:\n    """Return a number."""\n    yield 1', []),
    ],
)
def test_a_docstring_against_the_result_is_found(code: str, found: list[str]) -> None:
    assert list(docstrings_against_the_result(ast.walk(ast.parse(code)))) == found


def test_no_sentence_of_code_contains_a_banned_phrase() -> None:
    refuse(in_sentences(read("*.py"), PHRASES))


def test_no_page_contains_a_banned_phrase() -> None:
    pages = [path for path in read("*.md") if path.name != "style.md"]
    refuse(
        f"{path.relative_to(ROOT)}: {offence}"
        for path in pages
        for offence in phrases(path.read_text(encoding="utf-8"), PHRASES)
    )


def test_the_product_says_response_and_not_answer() -> None:
    refuse(in_sentences(product(), PRODUCT_PHRASES))


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("three lists, of which one is empty", ["of which"]),
        ("a batch whose response was lost", ["whose"]),
        ("the query\n    goes on", ["goes on"]),
        ("The retry went on for a minute.", ["went on"]),
        ("acks is none of all, -1, 0, 1", ["is none of"]),
        ("an ongoing transaction, often which", []),
        ("the broker does not answer", ["answer"]),
        ("no response; `answer` is the parameter", []),
        ("answer-end-txn[:n] is a fail point, {answer} a value", []),
        ("This page answers: which settings are there?", []),
        ("this is unanswered", []),
    ],
)
def test_a_banned_phrase_is_found_in_sentences_and_not_in_code(text: str, found: list[str]) -> None:
    offences = phrases(text, PHRASES | PRODUCT_PHRASES)
    assert [offence.split(":")[0].strip("'") for offence in offences] == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("# three lists, of\n    # which one is empty", ["1: 'of which'"]),
        ('x = 1\ny = "a query goes\\\n   on"', []),
        ('x = 1\n"""A query goes\n    on."""', ["2: 'goes on'"]),
        ('f"three of{lists}which"', ["1: 'of which'"]),
        ("of = which", []),
        ('"of", "which"', []),
    ],
)
def test_a_banned_phrase_is_found_in_strings_and_comments(code: str, found: list[str]) -> None:
    offences = phrases_in_python(code, PHRASES)
    assert [offence.rpartition(": ")[0] for offence in offences] == found
