"""Checks of the arguments of public methods. A method checks its arguments before it changes
anything, so that a wrong argument leaves a usable client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, Final, TypeVar

from oncelog_client.values import OffsetAndMetadata, TopicPartition

K = TypeVar("K")
T = TypeVar("T")

_LAST_OFFSET: Final = (1 << 63) - 1


def text(what: str, value: object) -> str:
    """Return the value if a request can carry it. Raises TypeError or ValueError with `what`, the
    name of the argument."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {type(value).__name__}, not str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} cannot be encoded: {error}") from None
    return value


def texts(what: str, values: Iterable[str]) -> list[str]:
    """Return the values as a list. A single text is refused, because its letters would count as
    names. Raises TypeError or ValueError."""
    if isinstance(values, str):
        raise TypeError(f"{what} is a text: pass a list, [{values!r}]")
    if not isinstance(values, Iterable):
        raise TypeError(f"{what} is {type(values).__name__}, not a list of texts")
    return [text(f"{what}[{position}]", value) for position, value in enumerate(values)]


def whole_number(what: str, value: Any) -> int:
    """Return the value as an int. The integers of numpy are accepted. Raises TypeError for any
    other value."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        raise TypeError(f"{what} is {type(value).__name__}, not int") from None


def number(what: str, value: object) -> float:
    """Return the value. Raises TypeError or ValueError if it is not a number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{what} is {type(value).__name__}, not a number")
    if value != value:
        raise ValueError(f"{what} is {value}, not a number")
    return value


def topic_partition(value: object) -> TopicPartition:
    """Return the partition. A plain pair of topic and number is accepted. Raises TypeError or
    ValueError."""
    if not isinstance(value, tuple):
        raise TypeError(f"{value!r} is {type(value).__name__}, not TopicPartition(topic, number)")
    if len(value) != len(TopicPartition._fields):
        raise TypeError(f"{value!r} is not TopicPartition(topic, number)")
    topic, partition = value
    text("topic", topic)
    if not topic:
        raise ValueError("the topic of a partition is empty")
    number = whole_number(f"the partition of {topic}", partition)
    if number < 0:
        raise ValueError(f"{topic} has no partition {number}: partitions begin at 0")
    return TopicPartition(topic, number)


def topic_partitions(what: str, values: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions as a list. Raises TypeError or ValueError."""
    if isinstance(values, TopicPartition):
        raise TypeError(f"{what} is a single partition: pass a list, [{values!r}]")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{what} is {type(values).__name__}, not a list of TopicPartition")
    return [topic_partition(value) for value in values]


def mapping(what: str, values: Mapping[K, T]) -> Mapping[K, T]:
    """Return the values. Raises TypeError if they are no mapping."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} is {type(values).__name__}, not a dict")
    return values


def by_partition(what: str, values: Mapping[TopicPartition, T]) -> dict[TopicPartition, T]:
    """Return a mapping with checked keys. Raises TypeError or ValueError."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} is {type(values).__name__}, not a dict of TopicPartition")
    return {topic_partition(partition): value for partition, value in values.items()}


def offset(partition: TopicPartition, value: object) -> int:
    """Return the offset. Raises TypeError for a value that is no number, and ValueError for a
    number that no log has."""
    checked = whole_number(f"the offset of {partition}", value)
    if not 0 <= checked <= _LAST_OFFSET:
        raise ValueError(f"{partition} has no offset {checked}: offsets are 0 to 2^63 - 1")
    return checked


def offset_and_metadata(partition: TopicPartition, value: object) -> OffsetAndMetadata:
    """Return an offset to commit or to seek. A plain number has no metadata. Raises TypeError or
    ValueError."""
    if not isinstance(value, OffsetAndMetadata):
        return OffsetAndMetadata(offset(partition, value))
    metadata = (
        "" if value.metadata is None else text(f"the metadata of {partition}", value.metadata)
    )
    epoch = value.leader_epoch
    if epoch is not None:
        epoch = whole_number(f"the leader epoch of {partition}", epoch)
    return OffsetAndMetadata(offset(partition, value.offset), metadata, epoch)


def offsets_to_commit(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to commit. Raises TypeError or ValueError."""
    return {
        partition: offset_and_metadata(partition, value)
        for partition, value in by_partition("offsets", offsets).items()
    }
