"""The keys and values of records as an application sees them: their types, and the serializers and
deserializers of a producer or consumer.

`serialization` has serializers of common types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

from .errors import RecordDeserializationError, SerializationError
from .values import ConsumerRecord, K

Sent = TypeVar("Sent", contravariant=True)
Got = TypeVar("Got", covariant=True)


class Serializer(Protocol[Sent]):
    """Returns the bytes of a key or value of `topic`."""

    def serialize(self, topic: str, data: Sent, /) -> bytes | None: ...


class Deserializer(Protocol[Got]):
    """Returns the key or value of the bytes from `topic`."""

    def deserialize(self, topic: str, data: bytes, /) -> Got: ...


# A type variable of these aliases stands for the type of the keys or of the values.
ToBytes = Callable[[K], bytes | None] | Serializer[K]
FromBytes = Callable[[bytes], K] | Deserializer[K]


_Converter = Callable[[str, Any], Any]


def converter(
    given: Any, method: Literal["serialize", "deserialize"], setting: str
) -> _Converter | None:
    """Return `given` as a function of topic and data. `given` is an object with `method`, a
    callable of the data alone, or None. Raises TypeError for anything else, with the name of the
    setting."""
    if given is None:
        return None
    found: _Converter | None = getattr(given, method, None)
    if isinstance(given, type) and found is not None:
        name = given.__name__
        raise TypeError(f"{setting} is the class {name}: pass an object, as in {name}()")
    if found is not None:
        return found
    if not callable(given):
        raise TypeError(f"{setting} is neither callable nor an object with a method {method}")
    return lambda topic, data: given(data)


def to_bytes(convert: _Converter, field: str, topic: str, data: Any) -> Any:
    """Return the serialized key or value (`field`). Raises SerializationError, with the error of
    the serializer as its cause."""
    if data is None:
        return None
    try:
        return convert(topic, data)
    except Exception as error:
        message = f"the {field} of a record of {topic} cannot be serialized: {error!r}"
        raise SerializationError(message) from error


class Deserialization:
    """The deserializers of a consumer. Raises TypeError for what is no deserializer."""

    def __init__(self, key_deserializer: Any, value_deserializer: Any) -> None:
        self._key = converter(key_deserializer, "deserialize", "key_deserializer")
        self._value = converter(value_deserializer, "deserialize", "value_deserializer")

    @property
    def is_needed(self) -> bool:
        return self._key is not None or self._value is not None

    def of(self, record: ConsumerRecord[Any, Any]) -> ConsumerRecord[Any, Any]:
        """Return the record with its key and value. Raises RecordDeserializationError."""
        field = "key"
        try:
            key, value = record.key, record.value
            if self._key is not None and key is not None:
                key = self._key(record.topic, key)
            field = "value"
            if self._value is not None and value is not None:
                value = self._value(record.topic, value)
        except Exception as error:
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            failed = RecordDeserializationError(
                f"the {field} of {place} cannot be deserialized: {error!r}. seek past the record, "
                "or correct the deserializer"
            )
            failed.record = record
            raise failed from error
        return record._replace(key=key, value=value)
