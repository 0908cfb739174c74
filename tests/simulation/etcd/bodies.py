"""The JSON bodies of requests to etcd's gateway, as the model understands them.

etcd ignores unknown fields. The model refuses them, so that a misspelled field is found. Numbers
may be texts.
"""

from __future__ import annotations

from typing import Final, Literal, TypeVar

import msgspec

from tests.simulation.etcd.kv import Condition, Delete, KeyRange, Operation, Put, Read

B = TypeVar("B", bound="Body")


class Unsupported(Exception):
    """The request needs a part of etcd that the model does not have."""


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class RangeBody(Body, frozen=True):
    key: bytes = b""
    range_end: bytes = b""
    revision: int = 0
    limit: int = 0
    serializable: bool = False

    def read(self) -> Read:
        return Read(KeyRange(self.key, self.range_end), self.revision, self.limit)


class PutBody(Body, frozen=True):
    key: bytes = b""
    value: bytes = b""
    lease: int = 0

    def put(self) -> Put:
        return Put(self.key, self.value, self.lease)


class DeleteBody(Body, frozen=True):
    key: bytes = b""
    range_end: bytes = b""

    def delete(self) -> Delete:
        return Delete(KeyRange(self.key, self.range_end))


class OperationBody(Body, frozen=True):
    """One of the three fields is set."""

    request_range: RangeBody | None = None
    request_put: PutBody | None = None
    request_delete_range: DeleteBody | None = None

    def operation(self) -> Operation | None:
        if self.request_range is not None:
            return self.request_range.read()
        if self.request_put is not None:
            return self.request_put.put()
        if self.request_delete_range is not None:
            return self.request_delete_range.delete()
        return None


class ConditionBody(Body, frozen=True):
    """The field with the name of the target has the value. Another field has no effect."""

    key: bytes = b""
    range_end: bytes = b""
    target: Literal["VERSION", "CREATE", "MOD", "LEASE"] = "VERSION"
    result: Literal["EQUAL", "GREATER", "LESS", "NOT_EQUAL"] = "EQUAL"
    version: int = 0
    create_revision: int = 0
    mod_revision: int = 0
    lease: int = 0

    def condition(self) -> Condition:
        field = FIELDS[self.target]
        return Condition(
            KeyRange(self.key, self.range_end), field, self.result, getattr(self, field)
        )


FIELDS: Final = {
    "VERSION": "version",
    "CREATE": "create_revision",
    "MOD": "mod_revision",
    "LEASE": "lease",
}


class TxnBody(Body, frozen=True):
    compare: tuple[ConditionBody, ...] = ()
    success: tuple[OperationBody, ...] = ()
    failure: tuple[OperationBody, ...] = ()


class CompactionBody(Body, frozen=True):
    revision: int = 0
    physical: bool = False


class GrantBody(Body, frozen=True):
    TTL: int = 0
    ID: int = 0


class LeaseBody(Body, frozen=True):
    ID: int = 0
    keys: bool = False


class LoginBody(Body, frozen=True):
    name: str = ""
    password: str = ""


class CreateWatchBody(Body, frozen=True):
    key: bytes = b""
    range_end: bytes = b""
    start_revision: int = 0


class WatchBody(Body, frozen=True):
    create_request: CreateWatchBody | None = None


def parsed(kind: type[B], body: bytes) -> B:
    """Return the request in `body`. Raises ValueError if it is no request. Raises Unsupported if it
    has a field that the model does not have."""
    content = msgspec.json.decode(body or b"{}")
    try:
        return msgspec.convert(content, kind, strict=False)
    except msgspec.ValidationError as error:
        if "unknown field" in str(error):
            raise Unsupported(f"{kind.__name__}: {error}") from error
        raise
