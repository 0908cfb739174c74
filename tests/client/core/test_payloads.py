"""Serializers and deserializers without a broker: Kafka's bytes, and the errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client import serialization
from oncelog_client.errors import RecordDeserializationError, SerializationError
from oncelog_client.payloads import Deserialization, converter, to_bytes
from oncelog_client.values import ConsumerRecord

# The bytes of org.apache.kafka.common.serialization for each value.
KAFKA_BYTES = {
    "String": ("héllo", "héllo".encode()),
    "Integer": (-2, b"\xff\xff\xff\xfe"),
    "Long": (1 << 40, b"\0\0\1\0\0\0\0\0"),
    "Double": (0.5, b"\x3f\xe0\0\0\0\0\0\0"),
    "Json": ({"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'.encode()),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "String": TEXT,
    "Integer": st.integers(-(2**31), 2**31 - 1),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Double": st.floats(allow_nan=False),
    "Json": st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner),
    ),
}


def pair(name: str) -> tuple[Any, Any]:
    serializer = getattr(serialization, f"{name}Serializer")()
    return serializer, getattr(serialization, f"{name}Deserializer")()


@pytest.mark.parametrize("name", KAFKA_BYTES)
def test_the_bytes_are_kafkas(name: str) -> None:
    serializer, deserializer = pair(name)
    value, expected = KAFKA_BYTES[name]
    assert serializer.serialize("t", value) == expected
    assert deserializer.deserialize("t", expected) == value


@pytest.mark.parametrize("name", KAFKA_BYTES)
@given(st.data())
def test_a_value_is_read_back(name: str, data: st.DataObject) -> None:
    serializer, deserializer = pair(name)
    value = data.draw(VALUES[name])
    assert deserializer.deserialize("t", serializer.serialize("t", value)) == value


def test_every_class_of_the_module_is_in_the_table() -> None:
    classes = {
        name for name in vars(serialization) if name.endswith(("Serializer", "Deserializer"))
    }
    ends = ("Serializer", "Deserializer")
    assert classes == {name + end for name in KAFKA_BYTES for end in ends}


@pytest.mark.parametrize(
    "given_", [lambda value: json.dumps(value).encode(), serialization.JsonSerializer()]
)
def test_a_callable_and_an_object_serialize(given_: Any) -> None:
    convert = converter(given_, "serialize", "value_serializer")
    assert convert is not None
    assert to_bytes(convert, "value", "t", [1]) == b"[1]"


def test_an_object_gets_the_topic() -> None:
    class Named:
        def serialize(self, topic: str, data: str) -> bytes:
            return f"{topic}:{data}".encode()

    convert = converter(Named(), "serialize", "value_serializer")
    assert convert is not None
    assert to_bytes(convert, "value", "orders", "x") == b"orders:x"


def test_none_passes_as_none() -> None:
    convert = converter(str.encode, "serialize", "key_serializer")
    assert convert is not None
    assert to_bytes(convert, "key", "t", None) is None


def test_without_a_serializer_there_is_no_conversion() -> None:
    assert converter(None, "serialize", "key_serializer") is None


@pytest.mark.parametrize("given_", [serialization.JsonSerializer, "json", 7])
def test_something_else_is_refused_by_the_name_of_the_setting(given_: object) -> None:
    with pytest.raises(TypeError, match="value_serializer"):
        converter(given_, "serialize", "value_serializer")


def test_a_serializer_that_fails_names_the_field_and_the_topic() -> None:
    convert = converter(serialization.JsonSerializer(), "serialize", "value_serializer")
    assert convert is not None
    with pytest.raises(SerializationError, match="the value of a record of orders") as caught:
        to_bytes(convert, "value", "orders", float("nan"))
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.not_written


@pytest.mark.parametrize("field", ["key", "value"])
def test_a_deserializer_that_fails_names_the_record(field: str) -> None:
    record = ConsumerRecord("orders", 3, 17, 0, b"\xff", b"\xff")
    deserializers = {
        "key_deserializer": bytes,
        "value_deserializer": bytes,
        f"{field}_deserializer": serialization.StringDeserializer(),
    }
    with pytest.raises(RecordDeserializationError, match=f"the {field} of orders-3 at offset 17"):
        Deserialization(**deserializers).of(record)
