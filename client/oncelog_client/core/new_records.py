"""Checks of a new record. A record that cannot be encoded must not share a batch with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from oncelog_client.core.metadata import TopicInfo
from oncelog_client.errors import KafkaError
from oncelog_client.values import Header
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.record import HEADER_KEY_ERRORS, NewRecord

from .arguments import text, whole_number

_LAST_TIMESTAMP: Final = (1 << 63) - 1


def new_record(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Iterable[Header] | None
) -> NewRecord:
    """Return a record that can be encoded. Raises TypeError or ValueError, which name the field."""
    # This runs for every record: `_as_bytes` is called only for a value that is not exactly bytes.
    if key is not None and type(key) is not bytes:
        key = _as_bytes("key", key)
    if value is not None and type(value) is not bytes:
        value = _as_bytes("value", value)
    if type(timestamp_ms) is not int and not isinstance(timestamp_ms, int):
        raise TypeError(f"timestamp_ms is {type(timestamp_ms).__name__}, not int")
    if not 0 <= timestamp_ms <= _LAST_TIMESTAMP:
        raise ValueError(f"timestamp_ms is {timestamp_ms}, which is not in 0 to 2^63 - 1")
    return NewRecord(timestamp_ms, key, value, _headers(headers) if headers else ())


def topic_name(name: str) -> str:
    """Return the name if a request can carry it. Raises TypeError or ValueError."""
    if not text("topic", name):
        raise ValueError("topic is empty")
    return name


def partition_number(number: int) -> int:
    """Return the number if a request can carry it. Raises TypeError."""
    return whole_number("partition", number)


def checked_partition(topic: str, partition: int, info: TopicInfo) -> int:
    """Return the number of a partition of the topic. Raises KafkaError if the topic does not have
    the partition, and TypeError for a value that is no number."""
    number = partition_number(partition)
    if not 0 <= number < len(info.partitions):
        raise KafkaError(
            f"{topic} has no partition {number}, only 0 to {len(info.partitions) - 1}",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    return number


def _headers(headers: Iterable[Header]) -> tuple[Header, ...]:
    if isinstance(headers, Mapping | str) or not isinstance(headers, Iterable):
        raise TypeError(
            f"headers is {type(headers).__name__}, not a list of pairs of a name and bytes"
        )
    return tuple([_header(row) for row in headers])


def _header(row: Header) -> Header:
    try:
        name, content = row
    except (TypeError, ValueError):
        raise TypeError(f"a header is {row!r}, not a pair of a name and bytes") from None
    if not isinstance(name, str):
        raise TypeError(f"a header's name is {type(name).__name__}, not str")
    try:
        name.encode("utf-8", HEADER_KEY_ERRORS)
    except UnicodeEncodeError as error:
        raise ValueError(f"a header's name cannot be encoded: {error}") from None
    return name, None if content is None else _as_bytes(f"header {name!r}", content)


def _as_bytes(field: str, content: object) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"{field} is {type(content).__name__}, not bytes or None")
