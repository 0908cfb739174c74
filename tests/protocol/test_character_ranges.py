"""Classes of characters as ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.character_ranges import DIGIT, WORD, Ranges, others

LAST = chr(0x10FFFF)
CHARACTERS = st.characters(exclude_categories=())
RANGES = st.lists(st.tuples(CHARACTERS, CHARACTERS).map(sorted).map(tuple), max_size=4).map(tuple)


def contains(ranges: Ranges, character: str) -> bool:
    return any(first <= character <= last for first, last in ranges)


@given(RANGES, CHARACTERS)
def test_a_character_is_in_the_ranges_or_in_the_others(ranges: Ranges, character: str) -> None:
    for each in (character, "\0", LAST, *(end for pair in ranges for end in pair)):
        assert contains(ranges, each) is not contains(others(ranges), each)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ((), (("\0", LAST),)),
        ((("\0", LAST),), ()),
        (DIGIT, (("\0", "/"), (":", LAST))),
    ],
)
def test_others_of_nothing_of_everything_and_of_digits(ranges: Ranges, expected: Ranges) -> None:
    assert others(ranges) == expected


def test_a_word_is_of_ascii_letters_digits_and_underscores() -> None:
    assert {chr(code) for code in range(0x250) if contains(WORD, chr(code))} == set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
    )
