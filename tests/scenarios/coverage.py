"""The ids of scenarios at the beginning of a test's name.

A name begins with the ids of the scenarios that the test shows: `test_l4_l5_…`, `test_c0_to_c14_…`,
in small or capital letters. The first word that is not an id ends the list. Ids of invariants (I1)
and of mutants (M1) are skipped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.scenarios.rows import Row

TESTS: Final = Path(__file__).resolve().parent.parent
# A word in the form of an id. If no row has this id, the name has a typing error.
_ID_LIKE: Final = re.compile(r"[zterxlogsdknbwh]\d+[a-z]?|r7v1|c\d+|c[a-k]|v[123]m")

_OTHERS: Final = re.compile(r"[im]\d+")


class UnknownScenario(Exception):
    """A test's name begins with an id without a row."""


def shown_by(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return the tests that show each row's id, as `path::name`. Raises UnknownScenario if a name
    has an id without a row."""
    by_token = {row.token: row.id for row in rows}
    found: dict[str, list[str]] = {identity: [] for identity in by_token.values()}
    for path in sorted(TESTS.rglob("test_*.py")):
        shown = path.relative_to(TESTS.parent).as_posix()
        for name in _test_names(path):
            for token in tokens(name):
                if token not in by_token:
                    raise UnknownScenario(f"{shown}::{name}: there is no scenario {token}")
                found[by_token[token]].append(f"{shown}::{name}")
    return found


def _test_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
            if name.startswith("test_"):
                yield name


def tokens(name: str) -> list[str]:
    """Return the ids at the beginning of a test's name. `c0_to_c14` stands for fifteen ids."""
    words = name.removeprefix("test_").lower().split("_")
    found: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        if word == "to" and found and position + 1 < len(words):
            family, first = _split(found[-1])
            other, last = _split(words[position + 1])
            if family != other:
                break
            found += [f"{family}{number}" for number in range(first + 1, last + 1)]
            position += 1
        elif _ID_LIKE.fullmatch(word):
            found.append(word)
        elif not _OTHERS.fullmatch(word):
            break
        position += 1
    return found


def _split(token: str) -> tuple[str, int]:
    match = re.fullmatch(r"([a-z])(\d+)", token)
    return ("", 0) if match is None else (match.group(1), int(match.group(2)))
