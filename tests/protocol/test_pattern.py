"""A client's pattern matches the same texts as in Python's `re`, without exponential time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.pattern import Pattern, PatternError
from tests.examples import examples

PIECES = st.sampled_from(
    ["a", "b", "-", "\\.", ".", "\\d", "\\W", "[ab]", "[^a]", "[a-c]", "[]x]", "[a-]", "$", "^"]
)
SUFFIXES = st.sampled_from(["", "*", "+", "?", "*?", "{2}", "{0,1}", "{1,}", "{0}"])


def patterns() -> st.SearchStrategy[str]:
    repeated = st.tuples(PIECES.filter(lambda piece: piece not in "^$"), SUFFIXES).map("".join)
    inner = repeated | st.sampled_from(["^", "$"])
    return st.recursive(
        inner,
        lambda parts: st.one_of(
            st.lists(parts, min_size=1, max_size=3).map("".join),
            st.tuples(parts, parts).map(lambda two: f"({two[0]}|{two[1]})"),
            st.tuples(parts, SUFFIXES).map(lambda two: f"(?:{two[0]}){two[1]}"),
        ),
        max_leaves=6,
    )


@settings(max_examples=examples(400), deadline=None, database=None)
@given(pattern=patterns(), texts=st.lists(st.text("ab-.1x\n", max_size=6), max_size=8))
def test_a_pattern_matches_the_same_texts_as_pythons_re(pattern: str, texts: list[str]) -> None:
    expected = re.compile(pattern.replace("$", "\\Z"))
    mine = Pattern(pattern)
    for text in texts:
        assert mine.matches(text) == bool(expected.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("orders-.*", "orders-eu"),
        ("\\Qa.b\\E+", "a.b"),
        ("\\x41\\x{42}", "AB"),
        ("(?P<name>me|you)", "you"),
        ("\\Ago{,1}\\z", "go{,1}"),
        ("", ""),
    ],
)
def test_re2_syntax_that_python_lacks_is_accepted(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text)
    assert not Pattern(pattern).matches(f"{text}!!") or pattern.endswith("*")


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a**", "*", "[", "[b-a]", "\\", "\\1", "\\p{L}", "(?=a)", "(?!a)", "a{1001}",
     "a{2,1}", "(a{1000}){1000}", "[[:alpha:]]", "\\x{110000}", "(" * 5_000, "(?P<a"],
)  # fmt: skip
def test_h31_a_pattern_that_is_invalid_or_needs_backtracking_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


def test_h31_a_pattern_that_is_exponential_in_pythons_re_takes_little_time() -> None:
    text = "a" * 5_000 + "!"
    began = time.thread_time()  # CPU time of this thread alone
    assert not Pattern("(a*)*(a+)+(a|a?)+").matches(text)
    assert time.thread_time() - began < 1


def test_h31_a_pattern_that_is_too_costly_to_match_raises_pattern_error() -> None:
    texts = [f"{turn:b}a" * 300 for turn in range(1_000)]
    with pytest.raises(PatternError):
        list(map(Pattern("(.*a){300}").matches, texts))


def test_an_ordinary_pattern_may_be_matched_against_very_many_texts() -> None:
    pattern = Pattern("orders-[0-9]*7")
    assert sum(pattern.matches(f"orders-{number}") for number in range(100_000)) == 10_000
