"""Kafka's primitive types, and the fields of a message table that hold them.

Source: the protocol guide ("Protocol Primitive Types") and KIP-482 (compact types, tagged fields).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

NEVER: Final = 1 << 15
"""A version above those of all messages."""

ZERO_UUID: Final = bytes(16)

MAX_STRING: Final = 0x7FFF
"""Maximum size of a string in UTF-8, in bytes. The length field of a flexible version allows more,
but Kafka's own readers refuse it, and the keys of internal topics cannot hold it."""

MESSAGE_FIELDS: Final = frozenset({"error_message", "batch_index_error_message"})
"""Response fields that explain an error. They may quote a request, so the encoder cuts them to
MAX_STRING. For all other strings, the decoder checks the length."""

INT32_MAX: Final = 0x7FFFFFFF
INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF

Buffer: TypeAlias = bytes | bytearray | memoryview

Records: TypeAlias = Any
"""A run of record batches: a memoryview when decoded, anything with `__len__` to be encoded."""


class Default:
    """Stands for the zero value of the type, for a field without a default."""


class FieldSpec(NamedTuple):
    """One row of a message table, before its name is known."""

    type: FieldType
    since: int
    until: int
    nullable_since: int
    tag: int | None
    default: object
    secret: bool = False


class Primitive(NamedTuple):
    """A type that is not composed of others. Calling it declares a field of that type.

    `format` is the code of the struct module if the type has a fixed size, else "".
    """

    name: str
    format: str
    size: int
    zero: object

    def __call__(
        self,
        *,
        since: int = 0,
        until: int = NEVER,
        nullable: bool = False,
        nullable_since: int = NEVER,
        tag: int | None = None,
        default: object = Default,
        secret: bool = False,
    ) -> Any:
        """Declare a field: present from version `since` to `until` inclusive.

        The field may be null in all versions (`nullable`) or from `nullable_since` on, even if its
        default is not null. The repr of a message hides the value of a `secret` field.
        """
        if default is Default:
            default = self.zero
        null_since = 0 if nullable else nullable_since
        return FieldSpec(self, since, until, null_since, tag, default, secret)


class Array(NamedTuple):
    """An array of elements of one type, a primitive or a struct class. `takes_rows`: an encoder
    also accepts rows that are bytes already, made by a row encoder."""

    of: Primitive | type
    takes_rows: bool = False


class Nested(NamedTuple):
    """A struct as the type of a field: `of` is its class, which has a table of its own."""

    of: type


FieldType = Primitive | Array | Nested

boolean = Primitive("boolean", "?", 1, False)
int8 = Primitive("int8", "b", 1, 0)
int16 = Primitive("int16", "h", 2, 0)
uint16 = Primitive("uint16", "H", 2, 0)
int32 = Primitive("int32", "i", 4, 0)
uint32 = Primitive("uint32", "I", 4, 0)
int64 = Primitive("int64", "q", 8, 0)
float64 = Primitive("float64", "d", 8, 0.0)
uuid = Primitive("uuid", "16s", 16, ZERO_UUID)
string = Primitive("string", "", 0, "")
bytestring = Primitive("bytes", "", 0, b"")
records = Primitive("records", "", 0, None)


def array(
    of: Primitive | type,
    *,
    since: int = 0,
    until: int = NEVER,
    nullable: bool = False,
    nullable_since: int = NEVER,
    tag: int | None = None,
    default: object = Default,
    takes_rows: bool = False,
) -> Any:
    """Declare a field that is an array; its default is a new empty list, or None."""
    of_type = Array(of, takes_rows)
    return FieldSpec(of_type, since, until, 0 if nullable else nullable_since, tag, default)


def nested(
    of: type,
    *,
    since: int = 0,
    until: int = NEVER,
    nullable: bool = False,
    nullable_since: int = NEVER,
    tag: int | None = None,
    default: object = Default,
) -> Any:
    """Declare a field that is a struct. A tagged struct that is absent (or all default) is None."""
    if tag is not None:
        default = None
    return FieldSpec(Nested(of), since, until, 0 if nullable else nullable_since, tag, default)


def cut_utf8(text: str, size: int = MAX_STRING) -> bytes:
    """Return the text in UTF-8, without the characters that do not fit into `size` bytes."""
    raw = text.encode()
    if len(raw) <= size:
        return raw
    while raw[size] & 0xC0 == 0x80:  # the cut is in the middle of a character
        size -= 1
    return raw[:size]


def uuid_to_string(value: bytes) -> str:
    """Return Kafka's form of a uuid: 22 characters of URL-safe base64 without padding."""
    import base64

    return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")


def uuid_from_string(text: str) -> bytes:
    """Return the 16 bytes of a uuid in Kafka's form. Raises ValueError for any other text."""
    import base64
    import binascii

    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not a uuid: {text!r}") from error
    if len(value) != 16 or len(text) != 22:
        raise ValueError(f"not a uuid: {text!r}")
    return value
