"""The response to a request that the broker refuses as a whole, for any API (in Kafka,
`AbstractRequest.getErrorResponse`).

The response has a row for each row of the request, and the error code in every place that its
version has for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.schema import Field, Schema, schema_of
from oncelog_protocol.types import Array

# The rows of these responses do not follow the rows of one array of the request.
NOT_REFUSED: Final = frozenset(
    {
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.COORDINATOR_CALL,
        ApiKey.DESCRIBE_LOG_DIRS,
    }
)

_ERRORS: Final = frozenset({"error_code", "partition_error_code"})
# A row of the response repeats these fields of its row in the request. If the row in the request is
# a plain value, the first of these fields gets the value.
_KEYS: Final = frozenset(
    {
        "entity", "group_id", "group_instance_id", "key", "member_id", "name", "producer_id",
        "resource_name", "resource_type", "topic", "topic_id", "transactional_id", "user",
    }
)  # fmt: skip
# Requests and responses name the number of a partition differently.
_PARTITION: Final = ("index", "partition", "partition_id", "partition_index")
# Kafka's values for "none". The schema's default is 0.
_NONE: Final = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "node_id": -1,
    "port": -1,
    "producer_epoch": -1,
    "timestamp": -1,
}


def refused_response(api: ApiKey, version: int, request: Any, code: ErrorCode) -> Any:
    """Return the response message. Raises KeyError for an API of NOT_REFUSED."""
    if api in NOT_REFUSED:
        raise KeyError(api.name)
    return _refused(APIS[api].response, version, request, code, is_row=False)


def _refused(cls: type, version: int, request: Any, code: ErrorCode, *, is_row: bool) -> Any:
    """Return a struct of the response, for the struct or the plain value `request`."""
    values: dict[str, Any] = {}
    keys = 0
    for field in _present(schema_of(cls), version):
        name = field.name
        if name in _ERRORS:
            values[name] = int(code)
        elif _has_errors(field, version):
            values[name] = _rows(field, version, request, code)
        elif (
            is_row
            and name in _KEYS
            and (hasattr(request, name) or not (_is_struct(request) or keys))
        ):
            values[name] = getattr(request, name, request)
            keys += 1
        elif is_row and name in _PARTITION:
            values[name] = _partition(request)
        elif name in _NONE:
            values[name] = _NONE[name]
    return cls(**values)


def _rows(field: Field, version: int, request: Any, code: ErrorCode) -> list[Any]:
    """Return the rows of an array of the response, one for each row of the request."""
    assert isinstance(field.type, Array)
    assert isinstance(field.type.of, type)
    if not _is_struct(request):
        return []
    arrays = [
        found.name
        for found in _present(schema_of(type(request)), version)
        if isinstance(found.type, Array)
    ]
    source = field.name if field.name in arrays else next(iter(arrays), None)
    asked: Sequence[Any] | None = None if source is None else getattr(request, source)
    return [_refused(field.type.of, version, row, code, is_row=True) for row in asked or ()]


def _has_errors(field: Field, version: int) -> bool:
    """Return True for an array of structs that have, or contain structs with, an error code."""
    if not isinstance(field.type, Array) or not isinstance(field.type.of, type):
        return False
    fields = _present(schema_of(field.type.of), version)
    return any(inner.name in _ERRORS or _has_errors(inner, version) for inner in fields)


def _present(schema: Schema, version: int) -> list[Field]:
    return [*schema.present(version), *schema.tagged(version)]


def _is_struct(value: Any) -> bool:
    return hasattr(type(value), "__schema__")


def _partition(request: Any) -> Any:
    return next((getattr(request, name) for name in _PARTITION if hasattr(request, name)), request)
