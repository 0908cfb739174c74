"""Messages for tests: drawn by hypothesis, or one full sample per message and version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.schema import Field, schema_of
from oncelog_protocol.types import Array, FieldType, Nested, Primitive
from tests.protocol.constructs import is_default

Case = tuple[type[Any], int]

INTEGERS = {
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
}
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "boolean": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
}

# kio converts error codes and times to its own types. Their range is smaller than on the wire.
ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode if code <= 133])
TIMES_MS = st.integers(0, 1 << 41) | st.just(-1)


def all_cases() -> Iterator[Case]:
    """Yield every message in every version of its table."""
    for api in APIS.values():
        for cls in (api.request, api.response):
            for version in schema_of(cls).versions:
                yield cls, version


CASES = list(all_cases())
FLEXIBLE = [(cls, version) for cls, version in CASES if version >= schema_of(cls).flexible_since]


def case_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


_drawn: dict[Case, st.SearchStrategy[Any]] = {}


def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Draw any message of this version; fields that are not on the wire have their default."""
    if (cls, version) not in _drawn:
        fields = [field for field in schema_of(cls).fields if field.present(version)]
        values = {field.name: _values(field, version) for field in fields}
        _drawn[cls, version] = st.builds(cls, **values)
    return _drawn[cls, version]


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _of_type(field.type, field.name, version)
    if field.nullable(version):
        values = st.none() | values
    if field.tag is not None and isinstance(field.type, Nested):
        values = (st.none() | values).map(lambda value: None if is_default(field, value) else value)
    return values


def _of_type(kind: FieldType | type, name: str, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Array):
        return st.lists(_of_type(kind.of, name, version), max_size=3)
    if isinstance(kind, Nested):
        return messages(kind.of, version)
    if not isinstance(kind, Primitive):
        return messages(kind, version)
    if kind.name == "int16" and name.endswith("error_code"):
        return ERROR_CODES
    if kind.name == "int64" and ("timestamp" in name or name.endswith("time_ms")):
        # kio refuses -1 for this field, because Kafka's definition names no default.
        return st.integers(0, 1 << 41) if name == "transaction_start_time_ms" else TIMES_MS
    return PRIMITIVES[kind.name]


def sample(cls: type[Any], version: int, elements: int = 1) -> Any:
    """Return a message with every array filled and every tagged field present."""
    fields = [field for field in schema_of(cls).fields if field.present(version)]
    return cls(**{field.name: _sample_of(field.type, version, elements) for field in fields})


def _sample_of(kind: FieldType | type, version: int, elements: int) -> Any:
    if isinstance(kind, Array):
        return [_sample_of(kind.of, version, elements) for _ in range(elements)]
    if isinstance(kind, Nested):
        return sample(kind.of, version, elements)
    if not isinstance(kind, Primitive):
        return sample(kind, version, elements)
    if kind.name == "boolean":
        return True
    if kind.format and kind.name != "uuid":
        return 1
    return {"uuid": b"\1" * 16, "string": "tö", "bytes": b"\0\xff", "records": b"abc"}[kind.name]
