"""A map with the latest offset of each key, in limited memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.log.cleaner.offset_map import NOT_THERE, OffsetMap

KEYS = st.binary(max_size=3)


@given(st.lists(st.tuples(KEYS, st.integers(0, 1 << 62)), max_size=40), st.integers(2, 41))
def test_an_offset_map_returns_the_latest_offset_of_each_key_until_it_is_full(
    pairs: list[tuple[bytes, int]], slots: int
) -> None:
    offsets = OffsetMap(slots, 1.0)
    expected: dict[bytes, int] = {}
    for key, offset in pairs:
        if offsets.is_full:
            break
        offsets.put(key, offset)
        expected[key] = offset
        assert offsets.latest_offset == offset
    assert offsets.size == len(expected)
    assert {key: offsets.get(key) for key in expected} == expected
    assert all(offsets.get(key) == NOT_THERE for key, _ in pairs if key not in expected)
    assert offsets.get(b"never put") == NOT_THERE


def test_the_load_factor_limits_the_number_of_keys_but_one_key_always_fits() -> None:
    for slots, load_factor, most in ((10, 0.5, 5), (10, 1.0, 9), (10, 0.01, 1), (0, 0.9, 1)):
        offsets = OffsetMap(slots, load_factor)
        for number in range(most):
            assert not offsets.is_full
            offsets.put(b"%d" % number, number)
        assert offsets.is_full
