"""Serializers and deserializers: from keys and values of an application to bytes, and back.

`Producer` takes `key_serializer` and `value_serializer`, `Consumer` takes `key_deserializer` and
`value_deserializer`. Each is a callable of the key or value, or an object with Kafka's method
`serialize(topic, data)` or `deserialize(topic, data)`. None passes as None: it is the missing key,
or the value that deletes a key of a compacted topic.

The classes have the names and the bytes of org.apache.kafka.common.serialization. JSON has no class
there.
"""

from __future__ import annotations

import json
import struct
from typing import Any


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


class _Number:
    """The big-endian bytes of a number."""

    _layout: struct.Struct

    def serialize(self, topic: str, data: float) -> bytes:
        """Return the bytes of the number. Raises struct.error if it is out of range."""
        return self._layout.pack(data)


class IntegerSerializer(_Number):
    """A signed number in 4 bytes."""

    _layout = struct.Struct(">i")


class LongSerializer(_Number):
    """A signed number in 8 bytes."""

    _layout = struct.Struct(">q")


class DoubleSerializer(_Number):
    """A floating-point number in 8 bytes (IEEE 754)."""

    _layout = struct.Struct(">d")


class IntegerDeserializer:
    """A signed number from 4 bytes."""

    def deserialize(self, topic: str, data: bytes) -> int:
        """Return the number. Raises struct.error if there are not 4 bytes."""
        (number,) = IntegerSerializer._layout.unpack(data)
        return int(number)


class LongDeserializer:
    """A signed number from 8 bytes."""

    def deserialize(self, topic: str, data: bytes) -> int:
        """Return the number. Raises struct.error if there are not 8 bytes."""
        (number,) = LongSerializer._layout.unpack(data)
        return int(number)


class DoubleDeserializer:
    """A floating-point number from 8 bytes (IEEE 754)."""

    def deserialize(self, topic: str, data: bytes) -> float:
        """Return the number. Raises struct.error if there are not 8 bytes."""
        (number,) = DoubleSerializer._layout.unpack(data)
        return float(number)
