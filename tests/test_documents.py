"""What the documents and the Makefile say is true: what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCUMENTS = sorted((TESTS.parent / "docs").glob("*.md"))
_REFERENCE = re.compile(r"`([a-z0-9_/]+\.py)(?:::(test_\w+))?`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_that_is_named_exists(document: Path) -> None:
    missing = []
    for file, name in _REFERENCE.findall(document.read_text()):
        if name and not _has(TESTS / file, name):
            missing.append(f"{file}::{name}")
    assert not missing


def test_the_promises_name_their_tests() -> None:
    """Each row of a table in docs/semantics.md says what shows it."""
    rows = [
        line
        for line in (TESTS.parent / "docs" / "semantics.md").read_text().splitlines()
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
    """Without one, make says that nothing is to be done, and CI goes on."""
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert set(phony.split()) == set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
