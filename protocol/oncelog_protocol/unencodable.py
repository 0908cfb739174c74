"""The field of a message that has no encoding, for the error of a caller's wrong value."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.schema import Field, schema_of
from oncelog_protocol.types import Array, FieldType, Nested, Primitive

_TEXTS: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "bytes": (bytes, bytearray, memoryview),
}
_NAMES: Final = {"string": "str", "bytes": "bytes", "boolean": "bool", "float64": "float"}


def unencodable(message: object, version: int) -> TypeError | ValueError | None:
    """Return the error for the first field that has no encoding in this version, with the path to
    the field, such as `topics[0].name`. Return None if every field has an encoding. The error of a
    secret field does not contain its value."""
    return _of_message("", message, version)


def _of_message(path: str, message: object, version: int) -> TypeError | ValueError | None:
    schema = schema_of(type(message))
    for field in (*schema.present(version), *schema.tagged(version)):
        value = getattr(message, field.name)
        if value is None and (field.nullable(version) or field.tag is not None):
            continue
        if error := _of_value(path + field.name, value, field.type, field, version):
            return error
    return None


def _of_value(
    path: str, value: object, kind: FieldType | type, field: Field, version: int
) -> TypeError | ValueError | None:
    if isinstance(kind, Primitive):
        return _of_primitive(path, value, kind, field)
    if isinstance(kind, Array):
        if not isinstance(value, list | tuple):
            return TypeError(f"{path} is {type(value).__name__}, not list")
        for position, element in enumerate(value):
            if kind.takes_rows and isinstance(element, bytes):
                continue
            if error := _of_value(f"{path}[{position}]", element, kind.of, field, version):
                return error
        return None
    cls = kind.of if isinstance(kind, Nested) else kind
    if not isinstance(value, cls):
        return TypeError(f"{path} is {type(value).__name__}, not {cls.__name__}")
    return _of_message(f"{path}.", value, version)


def _of_primitive(
    path: str, value: object, kind: Primitive, field: Field
) -> TypeError | ValueError | None:
    wanted = _NAMES.get(kind.name, "int")
    if kind.name in _TEXTS:
        if not isinstance(value, _TEXTS[kind.name]):
            return TypeError(f"{path} is {type(value).__name__}, not {wanted}")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                reason = "it has no UTF-8" if field.secret else error
                return ValueError(f"{path} cannot be encoded: {reason}")
    elif kind.format in tuple("bhHiIq"):
        if not isinstance(value, int):
            return TypeError(f"{path} is {type(value).__name__}, not int")
        bits = 8 * kind.size
        least, most = (0, (1 << bits) - 1) if kind.format.isupper() else _signed(bits)
        if not least <= value <= most:
            return ValueError(f"{path} is {value}, which is not in {least} to {most}")
    elif kind.name == "float64" and not isinstance(value, int | float):
        return TypeError(f"{path} is {type(value).__name__}, not float")
    return None


def _signed(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
