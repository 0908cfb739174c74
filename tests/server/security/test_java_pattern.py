"""Patterns find the same matches and groups as Python's `re`, where both languages agree, in
bounded time. tests/conformance/principals compares them with Java."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_server.security.java_pattern import JavaPattern, TooCostly
from oncelog_server.security.java_pattern_syntax import JavaPatternError, parsed
from tests.examples import examples

PIECES = st.sampled_from(["a", "b", "-", "\\.", ".", "\\d", "\\W", "[ab]", "[^a]", "[a-c]", "[a-]"])
SUFFIXES = st.sampled_from(["", "*", "+", "?", "*?", "+?", "??", "{2}", "{0,1}", "{1,}", "{1,2}?"])


def patterns() -> st.SearchStrategy[str]:
    repeated = st.tuples(PIECES, SUFFIXES).map("".join)
    return st.recursive(
        repeated,
        lambda parts: st.one_of(
            st.lists(parts, min_size=1, max_size=3).map("".join),
            st.tuples(parts, parts).map(lambda two: f"({two[0]}|{two[1]})"),
            st.tuples(parts, SUFFIXES).map(lambda two: f"({two[0]}){two[1]}"),
            parts.map(lambda part: f"(?:{part})"),
        ),
        max_leaves=6,
    )


def compiled_or_refused(pattern: str) -> JavaPattern | None:
    """Return None for a pattern that repeats a part that can be empty. Raises every other error."""
    try:
        return JavaPattern(pattern)
    except JavaPatternError as error:
        if "part that can be empty" in str(error):
            return None
        raise


@settings(max_examples=examples(400), deadline=None, database=None)
@given(pattern=patterns(), texts=st.lists(st.text("ab-.1x", max_size=6), max_size=8))
def test_a_pattern_finds_the_matches_and_groups_of_pythons_re(
    pattern: str, texts: list[str]
) -> None:
    mine = compiled_or_refused(pattern)
    if mine is None:
        return
    theirs = re.compile(pattern, re.ASCII)
    for text in texts:
        assert mine.full_match(text) == bool(theirs.fullmatch(text)), (pattern, text)
        found = list(mine.find_all(text))
        first = theirs.search(text)
        if first is None:
            assert found == [[text]]
        else:
            assert found[0] == [text[: first.start()], first[0], *first.groups()], (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("a$", "a\n", False),
        ("a$\\n", "a\n", True),
        ("a\\Z\\r\\n", "a\r\n", True),
        ("a\\z\\n", "a\n", False),
        ("\\Aa.", "a\u2028", False),
        ("\\Qa.b\\E", "a.b", True),
        ("\\Qa.b", "a.b", True),
        ("\\x41\\u0042", "AB", True),
        ("(?i)[^a]B", "Xb", True),
        ("(?i)[^a]B", "Ab", False),
        ("\\d", "\u0663", False),
        ("[]a]", "]", True),
        ("a|", "", True),
    ],
)
def test_a_pattern_is_read_as_java_reads_it(pattern: str, text: str, is_match: bool) -> None:
    assert JavaPattern(pattern).full_match(text) is is_match


def test_groups_are_numbered_and_named() -> None:
    syntax = parsed("(a)(?:b)(?<name>c(d))")
    assert (syntax.groups, syntax.names) == (3, {"name": 2})


@pytest.mark.parametrize(
    "pattern", ["(" * 101 + "a" + ")" * 101, "a{1001}", "((a{100}){100}){100}", "a{2,1}", "a{,2}"]
)
def test_a_pattern_that_is_too_large_or_wrong_is_refused(pattern: str) -> None:
    with pytest.raises(JavaPatternError):
        JavaPattern(pattern)


def test_the_steps_for_a_text_are_limited() -> None:
    pattern = JavaPattern("((a|b)+)+c")
    assert not pattern.full_match("ab" * 1_000)
    with pytest.raises(TooCostly):
        JavaPattern("(.{1,900})+b").full_match("a" * 5_000)
    with pytest.raises(TooCostly):
        list(pattern.find_all("ab" * 1_000))
