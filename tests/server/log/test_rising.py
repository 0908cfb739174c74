"""The columns of an index rise, or the index is not used."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.log.rising import _LANES, rises

LIMIT = {"i": 1 << 31, "q": 1 << 63}
CODES = st.sampled_from("iq")
# Lengths at which the last values are the first, or the last, of a group of lanes.
LENGTHS = [1, 2, _LANES - 1, _LANES, _LANES + 1, _LANES + 2, 2 * _LANES, 2 * _LANES + 1]


def expected(values: array[int], *, strictly: bool) -> bool:
    return all(value >= 0 for value in values) and all(
        first < second if strictly else first <= second for first, second in pairwise(values)
    )


@given(st.data(), CODES, st.booleans())
def test_any_values(data: st.DataObject, code: str, strictly: bool) -> None:
    limit = LIMIT[code]
    near = st.integers(-2, 3) | st.integers(limit - 3, limit - 1) | st.integers(-limit, 2 - limit)
    drawn = data.draw(st.lists(near | st.integers(-limit, limit - 1), max_size=8))
    for values in (array(code, drawn), array(code, sorted(drawn))):
        assert rises(values, strictly=strictly) is expected(values, strictly=strictly)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("code", "iq")
@given(place=st.integers(0, 1 << 20), change=st.sampled_from([-5, -1, 0, 1, 5]))
def test_a_single_wrong_value_at_any_place(length: int, code: str, place: int, change: int) -> None:
    """Each value is one above its predecessor, and a change of one or more breaks the order, unless
    it comes at the end."""
    values = array(code, range(1, length + 1))
    values[place % length] += change
    for strictly in (False, True):
        assert rises(values, strictly=strictly) is expected(values, strictly=strictly)


def test_the_largest_values_have_no_effect_on_their_neighbours() -> None:
    for code, limit in LIMIT.items():
        assert rises(array(code, [0, limit - 1]), strictly=True)
        assert rises(array(code, [limit - 2, limit - 1]), strictly=True)
        assert rises(array(code, [limit - 1] * 3), strictly=False)
        assert not rises(array(code, [limit - 1] * 2), strictly=True)
        assert not rises(array(code, [0, limit - 1, 0]), strictly=False)
        assert not rises(array(code, [-limit, limit - 1]), strictly=False)
