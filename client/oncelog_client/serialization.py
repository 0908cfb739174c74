"""Serializers and deserializers: from keys and values of an application to bytes, and back.

`Producer` takes `key_serializer` and `value_serializer`, `Consumer` takes `key_deserializer` and
`value_deserializer`. Each is a callable of the key or value, or an object with Kafka's method
`serialize(topic, data)` or `deserialize(topic, data)`. None is neither serialized nor deserialized:
it is a missing key, or the value that deletes a key of a compacted topic.

The classes have the names and the bytes of org.apache.kafka.common.serialization. JSON has no class
there.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

_INTEGER: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_DOUBLE: Final = struct.Struct(">d")


class StringSerializer:
    """Text as UTF-8."""

    def serialize(self, topic: str, data: str) -> bytes:
        """Return the text as UTF-8."""
        return data.encode()


class StringDeserializer:
    """UTF-8 as text."""

    def deserialize(self, topic: str, data: bytes) -> str:
        """Return the text of the bytes. Raises UnicodeDecodeError if they are not UTF-8."""
        return data.decode()


class JsonSerializer:
    """JSON without white space, as UTF-8. Raises SerializationError for NaN and infinity, which
    JSON cannot express."""

    def serialize(self, topic: str, data: Any) -> bytes:
        """Return the object as JSON. Raises ValueError for NaN and infinity, and TypeError for an
        object that JSON does not have."""
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()


class JsonDeserializer:
    """JSON in UTF-8."""

    def deserialize(self, topic: str, data: bytes) -> Any:
        """Return the object of the JSON. Raises ValueError if the bytes are not JSON."""
        return json.loads(data)


class IntegerSerializer:
    """A signed number in 4 bytes."""

    def serialize(self, topic: str, data: int) -> bytes:
        """Return the number as 4 bytes, big-endian."""
        return _INTEGER.pack(data)


class LongSerializer:
    """A signed number in 8 bytes."""

    def serialize(self, topic: str, data: int) -> bytes:
        """Return the number as 8 bytes, big-endian."""
        return _LONG.pack(data)


class DoubleSerializer:
    """A floating-point number in 8 bytes (IEEE 754)."""

    def serialize(self, topic: str, data: float) -> bytes:
        """Return the number as 8 bytes, big-endian."""
        return _DOUBLE.pack(data)


class IntegerDeserializer:
    """A signed number from 4 bytes."""

    def deserialize(self, topic: str, data: bytes) -> int:
        """Return the number. Raises struct.error if there are not 4 bytes."""
        (number,) = _INTEGER.unpack(data)
        return int(number)


class LongDeserializer:
    """A signed number from 8 bytes."""

    def deserialize(self, topic: str, data: bytes) -> int:
        """Return the number. Raises struct.error if there are not 8 bytes."""
        (number,) = _LONG.unpack(data)
        return int(number)


class DoubleDeserializer:
    """A floating-point number from 8 bytes (IEEE 754)."""

    def deserialize(self, topic: str, data: bytes) -> float:
        """Return the number. Raises struct.error if there are not 8 bytes."""
        (number,) = _DOUBLE.unpack(data)
        return float(number)
