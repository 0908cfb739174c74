"""The page of errors has the codes that the broker sends, and no other codes."""

from __future__ import annotations

import ast

from docs.from_code import ERRORS, errors, sent
from oncelog_protocol.errors import ErrorCode
from tests.harness.repository import package_modules, parsed

# Codes that the broker's sources name without sending them to a client.
NOT_SENT = {
    ErrorCode.NONE: "no error",
    ErrorCode.BROKER_NOT_AVAILABLE: "from another broker, for a marker",
    ErrorCode.INVALID_FETCH_SIZE: "translated in responses about groups",
    ErrorCode.NETWORK_EXCEPTION: "within the broker, for a marker",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "translated in responses about groups",
}


def named_by_the_broker() -> set[ErrorCode]:
    """Return the codes that the sources of the broker name."""
    return {
        ErrorCode[node.attr]
        for module, path in package_modules()
        if module.startswith("oncelog_server")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) == "ErrorCode"
        and node.attr.isupper()
    }


def test_each_code_that_the_broker_sends_has_a_row() -> None:
    assert {row.code for row in sent()} == named_by_the_broker() - NOT_SENT.keys()


def test_the_rows_are_sorted_and_complete_sentences() -> None:
    names = [row.code.name for row in sent()]
    assert names == sorted(set(names))
    for row in sent():
        for text in (row.when, row.remedy):
            assert text.endswith((".", ")")), row
            assert text == text.strip(), row


def test_the_page_has_a_section_for_each_row_and_the_other_codes_at_its_end() -> None:
    page = list(errors())
    headings = [text.removeprefix("## ") for text in page if text.startswith("## ")]
    assert headings[:-1] == [row.code.name for row in sent()]
    for code in ErrorCode:
        assert (f"`{code.name}`" in page[-1]) is (
            code is not ErrorCode.NONE and code.name not in headings
        )


def test_no_row_has_another_number_of_columns() -> None:
    lines = ERRORS.read_text(encoding="utf-8").splitlines()
    assert {line.count("\t") for line in lines} == {2}
