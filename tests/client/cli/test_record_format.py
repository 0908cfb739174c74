"""The templates of `consume -f`."""

from __future__ import annotations

from contextlib import suppress

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.cli.partitions import parse_partitions
from oncelog_client.cli.record_format import RecordFormat
from oncelog_client.values import ConsumerRecord

RECORD = ConsumerRecord(
    "orders", 2, 41, 1_795_000_000_123, b"k\x01", b"v", (("h", b"1"), ("n", None)), 0, 7
)
BYTES = st.none() | st.binary(max_size=20)


def formatted(template: str, record: ConsumerRecord = RECORD) -> bytes:
    return RecordFormat(template).write(record)


def test_every_token() -> None:
    assert formatted("%t/%p/%o/%e %T %K %V %S %H %%") == b"orders/2/41/7 1795000000123 2 1 1 2 %"
    assert formatted("%k|%v|%s|%h") == b"k\x01|v|v|h=1,n="
    second_day = RECORD._replace(timestamp_ms=86_400_123)
    assert formatted("%d", second_day) == b"1970-01-02T00:00:00.123Z"
    assert formatted("%k{hex} %k{base64}") == b"6b01 awE="
    assert formatted(r"a\n\t\r\\\x7c\0") == b"a\n\t\r\\|\0"


@given(BYTES, BYTES)
def test_keys_and_values_are_written_unchanged(key: bytes | None, value: bytes | None) -> None:
    record = RECORD._replace(key=key, value=value)
    assert formatted("%k%v", record) == (key or b"") + (value or b"")
    sizes = (-1 if part is None else len(part) for part in (key, value))
    assert formatted("%K %V", record) == " ".join(map(str, sizes)).encode()


@given(st.text(st.characters(exclude_characters="%\\", exclude_categories=["Cs"])))
def test_text_without_tokens_is_written_unchanged(text: str) -> None:
    assert formatted(text) == text.encode()


@given(st.text(max_size=30))
def test_any_template_is_a_usage_error_or_formats_a_record(template: str) -> None:
    with suppress(click.UsageError):
        assert isinstance(RecordFormat(template).write(RECORD), bytes)


@pytest.mark.parametrize(
    "template", ["%", "%x", "\\", "\\q", "\\xg1", "%k{", "%k{rot13}", "%t{hex}"]
)
def test_an_invalid_template_is_a_usage_error(template: str) -> None:
    with pytest.raises(click.UsageError):
        RecordFormat(template)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_of_partitions(numbers: set[int]) -> None:
    assert parse_partitions(",".join(map(str, sorted(numbers)))) == frozenset(numbers)
    low, high = min(numbers), max(numbers)
    assert parse_partitions(f"{low}-{high}") == frozenset(range(low, high + 1))


@pytest.mark.parametrize("text", ["", "a", "1,", "3-1", "-1", "1-2-3", "0-99999999999", "²"])
def test_an_invalid_list_of_partitions_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_partitions(text)
